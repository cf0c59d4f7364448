"""PyTorch programs as workloads of astra: what the ranks of a script compute and communicate, captured without an accelerator."""
