"""The engine: executes programs, queues and messages in simulated time. `reference` is the readable one; packages have others."""
