"""The kernel cost model of GPUs and TPUs of astra, and the command that fits devices."""
