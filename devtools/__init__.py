"""The parts of dev.py. They need nothing but Python."""
