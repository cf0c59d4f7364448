"""The analytical network as a network function table: native/module.cpp."""

from collections.abc import Sequence

def delay_table(dimensions: Sequence[tuple[int, list[int], float, float, float, float, float, float, float]], whole_ns: bool) -> object: ...
