"""The requests of an experiment, in order of arrival."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import attrs
from astra_sim import InputError
from astra_sim.errors import suggestion
from astra_sim.random import RandomStream

from astra_sim_serving.arrivals import arrival_times, check_arrivals
from astra_sim_serving.lengths import LengthSampler
from astra_sim_serving.options import LoraOptions, RequestOptions
from astra_sim_serving.request import ServingRequest
from astra_sim_serving.traces import TraceRow, read_trace

DEFAULT_COUNT = 1000
ARRIVAL_STREAM, INPUT_STREAM, OUTPUT_STREAM = "requests.arrival", "requests.input", "requests.output"
"""Names of streams of random numbers."""


def requests_of(options: RequestOptions, seed: int, where: str, models: Collection[str] = ()) -> Iterable[ServingRequest]:
    """The requests, of which the n-th follows from options, seed and n alone; each for one of `models`, if there are several.

    Raises InputError that begins with `where`.
    """
    if models and (options.models or options.trace is None):
        return _with_models(_requests_of(options, seed, where), _shares(options.models, models, where), seed)
    return _requests_of(options, seed, where, models)


def _shares(shares: Mapping[str, Any], models: Collection[str], where: str) -> dict[str, float]:
    """The share of each model, in the order of `models`. Raises InputError if a name or a number is wrong."""
    if not shares:
        raise InputError(f"{where}: models is missing; expected a share for each of {', '.join(models)}")
    for name, share in shares.items():
        if name not in models:
            raise InputError(f"{where}.models: {name!r} is none of serving.models; {suggestion(name, models)}")
        try:
            number = -1.0 if isinstance(share, bool) else float(share)
        except (TypeError, ValueError):
            number = -1.0
        if not 0 <= number < 1e12:
            raise InputError(f"{where}.models.{name} is {share!r}; expected a number of at least 0")
    result = {name: float(shares.get(name, 0.0)) for name in models}
    if not any(result.values()):
        raise InputError(f"{where}.models: all shares are 0; expected one above 0")
    return result


def _with_models(requests: Iterable[ServingRequest], shares: Mapping[str, float], seed: int) -> Iterator[ServingRequest]:
    """Requests, each for a model that is drawn by the shares."""
    stream, names = RandomStream(seed, "requests.model"), list(shares)
    sums = list(itertools.accumulate(shares.values()))
    last = max(place for place, name in enumerate(names) if shares[name])
    for request in requests:
        place = bisect_right(sums, stream.uniform(request.index) * sums[-1])
        yield attrs.evolve(request, model=names[min(place, last)])


def _requests_of(options: RequestOptions, seed: int, where: str, models: Collection[str] = ()) -> Iterable[ServingRequest]:
    """The requests; of a trace for the models that it names, if there are several."""
    if options.trace is not None:
        return _traced(options, where, models)
    if options.arrival == "trace":
        raise InputError(f"{where}: arrival = 'trace' needs trace, the path of a file")
    if options.run is not None:
        raise InputError(f"{where}: run has no effect without trace")
    check_arrivals(options.arrival, options.rate, options.cv, options.concurrency, options.stages, where)
    inputs, outputs = LengthSampler(options.input, f"{where}.input"), LengthSampler(options.output, f"{where}.output")
    return DrawnRequests(options, seed, inputs, outputs)


def with_adapters(requests: Iterable[ServingRequest], lora: LoraOptions, seed: int) -> Iterator[ServingRequest]:
    """Requests with adapters: a share of them, of which the n-th adapter is chosen in proportion to n^-zipf.

    Prompts that begin alike have the same keys and values only with the same adapter.
    """
    stream = RandomStream(seed, "requests.adapter")
    sums = list(itertools.accumulate(number**-lora.zipf for number in range(1, lora.adapters + 1)))
    for request in requests:
        adapter = -1
        if stream.uniform(2 * request.index) < lora.share:
            adapter = min(bisect_right(sums, stream.uniform(2 * request.index + 1) * sums[-1]), lora.adapters - 1)
        content = tuple(each * (lora.adapters + 1) + adapter + 1 for each in request.content)
        yield attrs.evolve(request, adapter=adapter, content=content)


class DrawnRequests:
    """Requests whose arrivals and lengths are drawn. `count`: how many there are; None: as many as stages give."""

    def __init__(self, options: RequestOptions, seed: int, inputs: LengthSampler, outputs: LengthSampler) -> None:
        self.options = options
        self.seed = seed
        self.inputs = inputs
        self.outputs = outputs
        self.count = options.count or (DEFAULT_COUNT if options.arrival != "stages" else None)
        self._streams = RandomStream(seed, INPUT_STREAM), RandomStream(seed, OUTPUT_STREAM), RandomStream(seed, "requests.prefix")

    def arrivals(self) -> Iterator[float]:
        """The arrivals in seconds; of a closed load 0."""
        options = self.options
        times: Iterator[float] = itertools.repeat(0.0)
        if options.arrival != "closed":
            stream = RandomStream(self.seed, ARRIVAL_STREAM)
            times = arrival_times(options.arrival, options.rate or 1.0, options.cv or 1.0, options.stages, stream)
        return itertools.islice(times, self.count)

    def at(self, index: int, arrival: float) -> ServingRequest:
        """The request of a number, which arrives then."""
        options, prefix = self.options, self.options.prefix
        prompt, answer = self.inputs.draw(self._streams[0], index), self.outputs.draw(self._streams[1], index)
        return ServingRequest(
            index,
            arrival,
            prompt + (prefix.tokens if prefix is not None else 0),
            min(answer, options.max_output or answer),
            priority=options.priorities[index % len(options.priorities)] if options.priorities else 0,
            content=(self.group(index),) if prefix is not None else (),
            content_tokens=prefix.tokens if prefix is not None else 0,
            limit=options.max_output or 0,
        )

    def group(self, index: int) -> int:
        """The group of requests that begin alike, to which one is dealt."""
        assert self.options.prefix is not None
        return int(self._streams[2].uniform(index) * self.options.prefix.groups)

    def __iter__(self) -> Iterator[ServingRequest]:
        for index, arrival in enumerate(self.arrivals()):
            yield self.at(index, arrival)


def _traced(options: RequestOptions, where: str, models: Collection[str]) -> list[ServingRequest]:
    """The requests of a trace. Raises InputError if one names none of several models, or an option has no effect."""
    if options.arrival not in ("trace", "closed", "burst", RequestOptions().arrival):
        raise InputError(f"{where}: trace is given and arrival = {options.arrival!r}; expected trace, closed or burst")
    if options.prefix is not None:
        raise InputError(f"{where}: prefix has no effect with trace")
    arrival = "trace" if options.arrival == RequestOptions().arrival else options.arrival
    check_arrivals(arrival, options.rate, options.cv, options.concurrency, options.stages, where)
    assert options.trace is not None
    rows = read_trace(options.trace, options.run)[: options.count]
    if not models:
        rows = [attrs.evolve(row, model="") if row.model else row for row in rows]
    for number, row in enumerate(rows, 1) if models else ():
        if not row.model:
            raise InputError(
                f"{options.trace}: request {number} has no model; expected one of {', '.join(models)}, or shares ({where}.models)"
            )
        if row.model not in models:
            raise InputError(f"{options.trace}: request {number} has model = {row.model!r}; {suggestion(row.model, models)}")
    return list(_from_rows(rows, arrival, options))


def _from_rows(rows: list[TraceRow], arrival: str, options: RequestOptions) -> Iterator[ServingRequest]:
    """Requests with the lengths of a trace, at its times or at those of another arrival process."""
    span = rows[-1].arrival_s
    scale = (len(rows) - 1) / (options.rate * span) if options.rate and span else 1.0
    for index, row in enumerate(rows):
        yield ServingRequest(
            index,
            row.arrival_s * scale if arrival == "trace" else 0.0,
            row.input,
            min(row.output, options.max_output or row.output),
            priority=options.priorities[index % len(options.priorities)] if options.priorities else row.priority,
            content=row.blocks,
            content_tokens=row.block_tokens,
            session=row.session,
            tenant=row.tenant,
            limit=options.max_output or 0,
            model=row.model,
        )
