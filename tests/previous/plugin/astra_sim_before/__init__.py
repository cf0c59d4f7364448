"""A package for astra 0.1.0, with a component of every kind. It stays as it is: tests/test_previous_version.py runs it on this kernel."""
