"""Tests of the package goodput."""
