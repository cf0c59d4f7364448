"""Machines that people have, as platforms of astra."""
