"""Asks compute and memory models for times, and checks the results."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from astra_sim.compute import Compute, MissingWork, Work
from astra_sim.errors import InputError, PluginError
from astra_sim.memory import Memory
from astra_sim.providers import call
from astra_sim.shapes import Convolution, Gemm
from astra_sim.units import MAX_PICOSECONDS, picoseconds

from astra_sim_devkit.testing.requirement import require

_FACTORS = (1, 2, 10, 1000)
_BYTES = (0, 1, 1000, 10**6, 10**9)
_NPUS = 16

RECORDED = tuple(Work(recorded_ns=10.0 * factor) for factor in (0, *_FACTORS))
COUNTED = tuple(Work(operations=1e6 * factor, bytes=1e3 * factor) for factor in (0, *_FACTORS))
SHAPED = tuple(Work(shape=Gemm(m=16 * factor, n=64, k=128)) for factor in _FACTORS)
CONVOLVED = tuple(
    Work(shape=Convolution(input_height=16, input_width=16, filter_height=3, filter_width=3, channels=4, filters=8 * factor))
    for factor in _FACTORS
)
COMPLETE = tuple(Work(10.0 * factor, 1e6 * factor, 1e3 * factor, Gemm(m=16 * factor, n=64, k=128)) for factor in _FACTORS)
SERIES = (RECORDED, COUNTED, SHAPED, CONVOLVED, COMPLETE)
"""Work of one sort each, growing."""


def check_compute(model: Compute, series: Sequence[Sequence[Work]] = SERIES) -> None:
    """Raise AssertionError unless work takes no less time if there is more of it, and the same time when asked for again.

    Work that the model lacks figures for is skipped, but it must know the time of some. Raises PluginError if a time is none.
    """
    reasons: list[str] = []
    known: list[tuple[Work, int]] = []
    for works in series:
        before, before_work = 0, works[0]
        for work in works:
            try:
                took, again = _duration(model, work), _duration(model, work)
            except MissingWork as error:
                require(str(error), f"{work} is refused without a reason")
                reasons.append(str(error))
                continue
            require(took == again, f"{work} takes {took} ps, and when asked for again {again} ps")
            require(took >= before, f"{work} takes {took} ps, and {before_work} {before} ps; expected no less for more")
            before, before_work = took, work
            known.append((work, took))
    for work, took in reversed(known):
        again = _duration(model, work)
        require(took == again, f"{work} takes {took} ps, and when asked for again, after others, {again} ps")
    require(known, f"it knows the time of no work: {'; '.join(dict.fromkeys(reasons))}")


def _duration(model: Compute, work: Work) -> int:
    what = f"the time of {work}"
    nanoseconds = call(what, model.duration_ns, work)
    picoseconds(nanoseconds, what)
    return picoseconds(min(nanoseconds * 1000, float(MAX_PICOSECONDS // 2)), what)


def check_memory(model: Memory) -> None:
    """Raise AssertionError unless accesses and additions take no less time if they are larger, PluginError if a time is none."""
    for write in (False, True):
        _check_growing(f"to {'write' if write else 'read'}", lambda size, write=write: model.checked_ps(size, write))  # type: ignore[misc]
        try:
            model.checked_ps(1, write, remote=True)
        except PluginError:
            raise
        except InputError:
            continue  # there is no remote memory
        what = f"to {'write' if write else 'read'} remotely"
        _check_growing(what, lambda size, write=write: model.checked_ps(size, write, remote=True))  # type: ignore[misc]
    _check_growing("to add", lambda size: picoseconds(model.reduce_ps(size), f"the time to add {size} bytes"))


def _check_growing(what: str, time_of: Callable[[int], int]) -> None:
    """Require that a time does not fall with the bytes, and is the same when asked for again, in either order."""
    before = size_before = 0
    times = {}
    for size in _BYTES:
        took, again = time_of(size), time_of(size)
        require(took == again, f"{what} {size} bytes takes {took} ps, and when asked for again {again} ps")
        require(took >= before, f"{what} {size} bytes takes {took} ps, and {size_before} bytes {before} ps; expected no less for more")
        before, size_before = took, size
        times[size] = took
    for size, took in reversed(times.items()):
        again = time_of(size)
        require(took == again, f"{what} {size} bytes takes {took} ps, and when asked for again, after others, {again} ps")


def check_ports(model: Memory) -> None:
    """Raise AssertionError unless every NPU has a port of remote memory, always the same, or none."""
    for npu in range(_NPUS):
        port, again = model.remote_port(npu), model.remote_port(npu)
        right = port is None or (type(port) is int and port >= 0)
        require(right, f"the remote port of NPU {npu} is {port!r}; expected None or a number of at least 0")
        require(port == again, f"the remote port of NPU {npu} is {port}, and when asked for again {again}")


def check_capacity(model: Memory) -> None:
    """Raise AssertionError unless the capacity is a number of bytes, or not limited."""
    capacity = model.capacity_bytes()
    right = capacity is None or (isinstance(capacity, (int, float)) and capacity > 0)
    require(right, f"the capacity is {capacity!r}; expected None or more than 0 bytes")
