"""The collective algorithms of astra."""
