"""XLA programs as workloads of astra: HLO text, as JAX dumps it, and `astra capture jax`."""
