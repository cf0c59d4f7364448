"""The analytical network of astra: dimensions, delay formula, costs, and the network file of ASTRA-sim 1.0."""
