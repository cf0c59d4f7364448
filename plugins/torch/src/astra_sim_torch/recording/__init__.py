"""Records the work of one rank of a PyTorch script, without an accelerator, a network or memory for tensors.

These modules run in a process of the Python that has torch, which need not be that of astra: they import nothing of astra.
"""
