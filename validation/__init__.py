"""Comparisons of the models with published measurements, in `data/`, with the source in every line."""
