"""Explanations of runs for astra: what takes the time, what would change it; runs beside each other and run again."""
