"""The compiled engine: a machine in C++ (`native`), and what stays in Python because Python is asked.

`machine` is the engine, `schedules` writes programs as rows of numbers, `queues` answers for orders, `columns` counts over the columns of
a run. What a run means is in the kernel's `astra_sim.engine.reference`.
"""
