"""Comparisons with figures of other simulators."""
