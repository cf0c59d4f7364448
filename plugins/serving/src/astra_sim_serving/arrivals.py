"""Times at which requests arrive, drawn by counter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
from astra_sim import InputError, option
from astra_sim.random import RandomStream

ARRIVALS = ("poisson", "gamma", "constant", "closed", "burst", "stages", "trace")


@attrs.frozen
class ArrivalStage:
    """A stage of a load that changes: Poisson arrivals at a rate, for some time."""

    rate: float = option(minimum=0, help="requests a second; 0: none arrive", unit="1/s")
    duration_s: float = option(above=0, help="how long it lasts", unit="s")


def arrival_times(name: str, rate: float, cv: float, stages: Sequence[ArrivalStage], stream: RandomStream) -> Iterator[float]:
    """The arrivals of an open load in ascending order; those of stages end, the others do not."""
    if name == "burst":
        while True:
            yield 0.0
    if name == "stages":
        yield from _staged(stages, stream)
        return
    now, counter = 0.0, 0
    while True:
        now += _gap(name, cv, stream, counter) / rate
        counter += 1
        yield now


def _gap(name: str, cv: float, stream: RandomStream, counter: int) -> float:
    """A gap of mean 1."""
    if name == "constant":
        return 1.0 if counter else 0.0
    if name == "gamma":
        shape = 1 / cv**2
        return stream.gamma(shape, counter) / shape
    return stream.exponential(counter)


def _staged(stages: Sequence[ArrivalStage], stream: RandomStream) -> Iterator[float]:
    """Poisson arrivals whose rate changes: the exponential distances are those of the integral of the rate."""
    begin, passed, counter = 0.0, 0.0, 0
    target = stream.exponential(counter)
    for stage in stages:
        while target < passed + stage.rate * stage.duration_s:
            yield begin + (target - passed) / stage.rate
            counter += 1
            target += stream.exponential(counter)
        passed += stage.rate * stage.duration_s
        begin += stage.duration_s


def check_arrivals(
    name: str, rate: float | None, cv: float | None, concurrency: int | None, stages: Sequence[ArrivalStage], where: str
) -> None:
    """Raise InputError if an arrival process lacks an option it needs, or has one that it does not use."""
    needs = {"poisson": ("rate",), "gamma": ("rate", "cv"), "constant": ("rate",), "closed": ("concurrency",), "stages": ("stages",)}
    options = {"rate": rate, "cv": cv, "concurrency": concurrency, "stages": stages or None}
    for key, value in options.items():
        if value is None and key in needs.get(name, ()):
            raise InputError(f"{where}: arrival = {name!r} needs {key}")
        if value is not None and key not in needs.get(name, ()) and not (key == "rate" and name == "trace"):
            raise InputError(f"{where}: {key} has no effect with arrival = {name!r}")
