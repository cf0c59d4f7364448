"""The number of micro-batches whose activations a pipeline stage holds at once, by schedule and chunk."""

from __future__ import annotations

from collections.abc import Sequence

Counts = tuple[float, ...]
"""Micro-batches in flight, for each chunk of a stage."""

FOLDED = ("zb-v", "dualpipe")
"""Schedules whose ranks have two chunks, of which the second runs through the stages backwards."""


def in_flight(schedule: str, stage: int, stages: int, chunks: int, micro_batches: int, extra_ahead: int = 0) -> tuple[Counts, ...]:
    """The states among which is the one with most activations: micro-batches in flight for each chunk.

    GPipe keeps all micro-batches. With 1F1B stage r of p keeps p - r (arXiv 2104.04473), so does ZB-H1 (2401.10241). With 1F1B and
    interleaved, `extra_ahead` forward passes more go ahead, if exchanges of experts are hidden.
    ZB-V keeps 2p chunks of half a stage (2405.15362), DualPipe p + 1 of a whole stage (2412.19437, table 2).
    """
    most = micro_batches
    if schedule == "gpipe":
        return ((most,) * chunks,)
    if schedule == "interleaved":
        return _interleaved(stage, stages, chunks, most, extra_ahead)
    if schedule == "zb-v":
        return ((min(most, 2 * stages - 1 - stage), min(most, stage + 1)),)
    if schedule == "dualpipe":
        # Half of the micro-batches come from each end.
        return ((min(most / 2, stages - stage), min(most / 2, stage + 1)),)
    return ((min(most, stages - stage + (extra_ahead if schedule == "1f1b" else 0)),) * chunks,)


def _interleaved(stage: int, stages: int, chunks: int, micro_batches: int, extra_ahead: int) -> tuple[Counts, ...]:
    """Walk through Megatron-LM's interleaved 1F1B: groups of p micro-batches run one chunk after another.

    The first stage's longest state has p v + p - 1 chunks (arXiv 2205.05198). States repeat after 3p micro-batches. With as many
    micro-batches as stages all forward passes come first.
    """
    if micro_batches == stages:
        return ((stages,) * chunks,)
    most = min(micro_batches, 3 * stages)
    groups = [min(stages, most - first) for first in range(0, most, stages)]
    forward = [chunk for size in groups for chunk in range(chunks) for _ in range(size)]
    backward = [chunk for size in groups for chunk in reversed(range(chunks)) for _ in range(size)]
    longest = (chunks - 1) * stages + 2 * (stages - 1 - stage) + 1 + extra_ahead
    counts = [0] * chunks
    states = set()
    for step, chunk in enumerate(forward):
        if step >= longest:
            counts[backward[step - longest]] -= 1
        counts[chunk] += 1
        if step >= longest - 1 or step == len(forward) - 1:
            states.add(tuple(counts))
    return tuple(sorted(states))


def chunks_of_stages(layers_of_stage: Sequence[Sequence[int]], schedule: str, chunks: int) -> list[list[list[int]]]:
    """The layers of each chunk of each stage, from the layers of each stage.

    Interleaved chunks follow from the order of layers: the next chunk starts at the owner's number. A folded schedule's stage
    has two runs of numbers, or one that is halved.
    """
    if schedule in FOLDED:
        return [_halves(list(layers)) for layers in layers_of_stage]
    if len(layers_of_stage) == 1:
        (layers,) = layers_of_stage
        edges = [chunk * len(layers) // chunks for chunk in range(chunks + 1)]
        return [[list(layers[edges[chunk] : edges[chunk + 1]]) for chunk in range(chunks)]]
    split: list[list[list[int]]] = [[[] for _ in range(chunks)] for _ in layers_of_stage]
    owners = sorted((layer, stage) for stage, layers in enumerate(layers_of_stage) for layer in layers)
    chunk, before = 0, 0
    for layer, stage in owners:
        if stage < before:
            chunk = min(chunk + 1, chunks - 1)
        split[stage][chunk].append(layer)
        before = stage
    return split


def _halves(layers: list[int]) -> list[list[int]]:
    breaks = [index for index in range(1, len(layers)) if layers[index] != layers[index - 1] + 1]
    middle = breaks[0] if len(breaks) == 1 else (len(layers) + 1) // 2
    return [layers[:middle], layers[middle:]]


def even_stages(layers: int, stages: int, chunks: int, schedule: str) -> tuple[tuple[int, ...], ...]:
    """Layers dealt to the chunks of the stages in their order, as evenly as they divide: numbers of layers differ by at most one.

    Interleaved chunk c of stage r is slot c p + r. ZB-V's second chunks run back from the last stage to the first; a rank of DualPipe has
    the layers of stage r, and those of stage p - 1 - r.
    """
    slots = stages * (1 if schedule == "dualpipe" else 2 if schedule == "zb-v" else chunks)
    edges = [slot * layers // slots for slot in range(slots + 1)]
    runs = [tuple(range(edges[slot], edges[slot + 1])) for slot in range(slots)]
    if schedule == "dualpipe":
        return tuple(runs[stage] + runs[stages - 1 - stage] for stage in range(stages))
    if schedule == "zb-v":
        return tuple(runs[stage] + runs[slots - 1 - stage] for stage in range(stages))
    return tuple(sum((runs[chunk * stages + stage] for chunk in range(chunks)), ()) for stage in range(stages))
