"""The compiled engine: a machine in C++ (`native`), and the parts in Python that call functions in Python.

`machine` is the engine, `schedules` writes programs as rows of numbers, `queues` answers for orders, `columns` counts over the columns of
a run. The meaning of a run is in the kernel's `astra_sim.engine.reference`.
"""
