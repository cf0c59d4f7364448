"""NPUs that compute slower than others: `slow_npus` of a run, and the compute model's factors of single NPUs, as one function of time."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from astra_sim._boundary import MAX_PICOSECONDS, Lazily, call, picoseconds
from astra_sim.compute import Compute, NpuPs, Started
from astra_sim.errors import InputError

_PS = {"ns": 10**3, "us": 10**6, "ms": 10**9, "s": 10**12}
_NUMBER = r"\d+(?:\.\d+)?"
_ENTRY = re.compile(
    rf"(?P<npus>all|\d+(?:-\d+)?):(?P<factor>{_NUMBER})"
    rf"(?:@(?P<begin>{_NUMBER})(?P<begin_unit>ns|us|ms|s)-(?:(?P<end>{_NUMBER})(?P<end_unit>ns|us|ms|s))?)?",
    re.ASCII,
)


class _Window(NamedTuple):
    """A time from `begin` to `end` (picoseconds; None: for ever) in which work takes `factor` times as long."""

    factor: Fraction
    begin: int = 0
    end: int | None = None


class SlowNpus(NamedTuple):
    """The windows of each NPU that has some, in which work takes another time. Factors of windows that overlap multiply."""

    windows: Mapping[int, Sequence[_Window]]

    @classmethod
    def parsed(cls, text: str, npus: int, where: str) -> SlowNpus:
        """Parse slow NPUs of a platform of `npus`, such as `3:1.5, 8-15:2@10ms-20ms`.

        `where` names the option in messages. Raises InputError, naming the wrong entry.
        """
        windows: dict[int, list[_Window]] = {}
        for entry in (each.strip() for each in text.split(",")):
            match = _ENTRY.fullmatch(entry)
            if match is None:
                expected = (
                    "expected NPU:FACTOR, FIRST-LAST:FACTOR or all:FACTOR, and perhaps a window: 3:1.5, 8-15:2@10ms-20ms, all:1.1@2s-"
                )
                raise InputError(f"{where}: {entry!r}; {expected}")
            factor = Fraction(match["factor"])
            if not factor:
                raise InputError(f"{where}: {entry!r} has the factor 0; expected more")
            begin, end = (round(Fraction(match[key]) * _PS[match[f"{key}_unit"]]) if match[key] else None for key in ("begin", "end"))
            if end is not None and begin is not None and end <= begin:
                raise InputError(f"{where}: {entry!r} has a window that ends before it begins; expected a later end")
            ends = match["npus"].split("-")
            first, last = (0, npus - 1) if ends == ["all"] else (int(ends[0]), int(ends[-1]))
            if not first <= last < npus:
                raise InputError(f"{where}: {entry!r}; expected NPUs 0 to {npus - 1}, the first of them first")
            for npu in range(first, last + 1):
                windows.setdefault(npu, []).append(_Window(factor, begin or 0, end))
        return cls(windows)

    def duration_ps(self, npu: int, start_ps: int, duration_ps: int) -> int:
        """The time of work that an NPU starts at `start_ps` and that takes `duration_ps` at full speed; all in picoseconds."""
        windows = self.windows.get(npu)
        if windows is None:
            return duration_ps
        # Between two edges of windows the speed is constant: do the part of the work that fits, then go to the next edge. Fractions keep
        # the sum exact, so that the result does not depend on how windows divide the work.
        edges = sorted({edge for each in windows for edge in (each.begin, each.end) if edge is not None and edge > start_ps})
        now, left = Fraction(start_ps), Fraction(duration_ps)
        for edge in (*edges, None):
            now_within = (each for each in windows if each.begin <= now and (each.end is None or now < each.end))
            factor = math.prod((each.factor for each in now_within), start=Fraction(1))
            if edge is None or now + left * factor <= edge:
                return round(now + left * factor) - start_ps
            left -= (edge - now) / factor
            now = Fraction(edge)
        raise AssertionError("work that does not end")


def npu_times(compute: Compute, slow: str, variations: Sequence[NpuPs], npus: int, where: str) -> NpuPs | None:
    """The compute times of each of `npus`: from the compute model, then with variation, then slowed. None: the same on all.

    Raises InputError.
    """
    slowed = SlowNpus.parsed(slow, npus, where) if slow.strip() else None
    if not compute.varies and slowed is None and not variations:
        return None

    def duration_ps(started: Started) -> int:
        npu, start_ps, duration = started.npu, started.start_ps, started.duration_ps
        if compute.varies:
            what = Lazily(lambda: f"compute {type(compute).__name__}: npu_duration_ps of {duration} ps on NPU {npu} at {start_ps} ps")
            duration = picoseconds(call(what, compute.npu_duration_ps, npu, start_ps, duration), what)
        for variation in variations:
            what = Lazily(lambda: f"a variation of the time on NPU {npu} at {start_ps} ps")
            duration = picoseconds(call(what, variation, started._replace(duration_ps=duration)), what)
        if slowed is None:
            return duration
        return picoseconds(slowed.duration_ps(npu, start_ps, duration), Lazily(lambda: f"{where}: the time of an operation on NPU {npu}"))

    if compute.varies or slowed is not None or len(variations) > 1:
        return duration_ps
    (only,) = variations

    def only_variation_ps(started: Started) -> int:
        # The usual case, called for each operation of each NPU: errors are left to the function above, which words them.
        try:
            duration = only(started)
        except Exception:
            return duration_ps(started)
        return duration if type(duration) is int and 0 <= duration <= MAX_PICOSECONDS else duration_ps(started)

    return only_variation_ps
