"""Explanations of runs for astra: causes of their time, and the effect of changes; comparisons and reruns."""
