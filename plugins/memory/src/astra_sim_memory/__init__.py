"""The memory models of astra."""
