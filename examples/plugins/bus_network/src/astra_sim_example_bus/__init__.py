"""Example of a network backend in C++."""
