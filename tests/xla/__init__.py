"""Tests of astra-sim-xla."""
