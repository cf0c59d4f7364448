"""Comparisons of the models with published measurements, which lie in `data/` with the source in every line."""
