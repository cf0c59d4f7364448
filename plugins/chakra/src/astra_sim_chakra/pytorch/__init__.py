"""PyTorch's execution traces (the host's operators) and Kineto's traces (when everything ran) as Chakra traces."""
