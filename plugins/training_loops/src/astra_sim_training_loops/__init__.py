"""The training loops of astra, layered workloads, and the text workload of ASTRA-sim 1.0."""
