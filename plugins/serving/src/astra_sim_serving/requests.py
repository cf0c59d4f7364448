"""The requests of an experiment, in order of arrival."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterator

import attrs
from astra_sim import InputError
from astra_sim.random import RandomStream

from astra_sim_serving.arrivals import arrival_times, check_arrivals
from astra_sim_serving.lengths import LengthSampler
from astra_sim_serving.options import LoraOptions, RequestOptions
from astra_sim_serving.request import ServingRequest
from astra_sim_serving.traces import TraceRow, read_trace

DEFAULT_COUNT = 1000


def requests_of(options: RequestOptions, seed: int, where: str) -> Iterator[ServingRequest]:
    """The requests, of which the n-th follows from options, seed and n alone. Raises InputError that begins with `where`."""
    if options.trace is not None:
        return _traced(options, where)
    if options.arrival == "trace":
        raise InputError(f"{where}: arrival = 'trace' needs trace, the path of a file")
    if options.run is not None:
        raise InputError(f"{where}: run has no effect without trace")
    check_arrivals(options.arrival, options.rate, options.cv, options.concurrency, options.stages, where)
    inputs, outputs = LengthSampler(options.input, f"{where}.input"), LengthSampler(options.output, f"{where}.output")
    return _drawn(options, seed, inputs, outputs)


def with_adapters(requests: Iterator[ServingRequest], lora: LoraOptions, seed: int) -> Iterator[ServingRequest]:
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


def _drawn(options: RequestOptions, seed: int, inputs: LengthSampler, outputs: LengthSampler) -> Iterator[ServingRequest]:
    """Requests whose arrivals and lengths are drawn."""
    times: Iterator[float]
    if options.arrival == "closed":
        times = itertools.repeat(0.0)
    else:
        times = arrival_times(
            options.arrival, options.rate or 1.0, options.cv or 1.0, options.stages, RandomStream(seed, "requests.arrival")
        )
    endless = options.arrival != "stages"
    count = options.count or (DEFAULT_COUNT if endless else None)
    streams = RandomStream(seed, "requests.input"), RandomStream(seed, "requests.output"), RandomStream(seed, "requests.prefix")
    prefix = options.prefix
    for index, arrival in enumerate(itertools.islice(times, count)):
        prompt, answer = inputs.draw(streams[0], index), outputs.draw(streams[1], index)
        content: tuple[int, ...] = ()
        if prefix is not None:
            prompt += prefix.tokens
            content = (int(streams[2].uniform(index) * prefix.groups),)
        yield ServingRequest(
            index,
            arrival,
            prompt,
            min(answer, options.max_output or answer),
            priority=options.priorities[index % len(options.priorities)] if options.priorities else 0,
            content=content,
            content_tokens=prefix.tokens if prefix is not None else 0,
            limit=options.max_output or 0,
        )


def _traced(options: RequestOptions, where: str) -> Iterator[ServingRequest]:
    if options.arrival not in ("trace", "closed", "burst", RequestOptions().arrival):
        raise InputError(f"{where}: trace is given and arrival = {options.arrival!r}; expected trace, closed or burst")
    if options.prefix is not None:
        raise InputError(f"{where}: prefix has no effect with trace")
    arrival = "trace" if options.arrival == RequestOptions().arrival else options.arrival
    check_arrivals(arrival, options.rate, options.cv, options.concurrency, options.stages, where)
    assert options.trace is not None
    rows = read_trace(options.trace, options.run)[: options.count]
    return _from_rows(rows, arrival, options)


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
        )
