"""The system layers of astra."""
