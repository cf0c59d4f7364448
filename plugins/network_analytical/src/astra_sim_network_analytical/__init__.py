"""The analytical network of astra: dimensions, delay formula, congested links, costs, and the network files of ASTRA-sim."""
