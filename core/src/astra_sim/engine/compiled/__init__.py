"""The compiled engine: a machine in C++ (`core/native`), and what stays in Python because Python is asked.

`machine` is the engine, `schedules` writes programs as rows of numbers, `queues` answers for orders. What a run means stands in
`reference`.
"""

from astra_sim.engine.compiled.machine import CompiledEngine

__all__ = ["CompiledEngine"]
