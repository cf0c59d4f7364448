"""Sweeps: files, points, runs, tables, and faults."""
