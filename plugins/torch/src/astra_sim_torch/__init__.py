"""PyTorch programs as workloads of astra: compute and communication of the ranks of a script, captured without an accelerator."""
