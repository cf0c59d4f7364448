"""Tables of memory and of a search's results. Memory is in GiB."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import attrs
from astra_sim.commands import Column, Screen, Table
from astra_sim.units import GIB

from astra_sim_llm.memory import Capacity, LlmMemoryUse
from astra_sim_llm.search import ParallelismCandidate, ParallelismSearch
from astra_sim_llm.suggestions import Suggestion

Rows = list[tuple[str, ...]]
"""A table: its headings, then its rows."""

HEADINGS = {
    "weights": "weights",
    "gradients": "grads",
    "optimizer": "optim.",
    "activations": "activ.",
    "embedding": "embed.",
    "logits": "logits",
    "recomputed": "recomp.",
    "buffers": "buffers",
    "key_value_cache": "cache",
}
"""The headings of uses of memory."""


def memory_table(uses: Sequence[LlmMemoryUse]) -> Rows:
    """A row for each stage, or for consecutive stages that need the same; a column for each use that some stage has, and their sum."""
    shown = [name for name in HEADINGS if any(getattr(use, name) for use in uses)]
    rows: Rows = [("stage", *(HEADINGS[name] for name in shown), "total")]
    for use, members in itertools.groupby(enumerate(uses), key=lambda item: item[1]):
        stages = [stage for stage, _ in members]
        name = str(stages[0]) if len(stages) == 1 else f"{stages[0]}-{stages[-1]}"
        rows.append((name, *(gib(getattr(use, field)) for field in shown), gib(use.total)))
    return rows


def search_table(candidates: Sequence[ParallelismCandidate]) -> Rows:
    """A row for each combination: its parallelism, ZeRO, micro-batches and recomputation, memory of the fullest rank, and time."""
    timed = any(candidate.iteration_s is not None for candidate in candidates)
    rows: Rows = [("TP", "PP", "VS", "DP", "CP", "EP", "ZeRO", "micro", "recompute", "GiB", *(("time (s)",) if timed else ()))]
    for candidate in candidates:
        setup, parallel = candidate.setup, candidate.setup.parallel
        chunks = parallel.virtual_stages
        sizes = (parallel.tensor, parallel.pipeline, chunks, parallel.data, parallel.context, parallel.expert, parallel.zero)
        micro = f"{setup.micro_batches}x{setup.micro_batch}"
        seconds = "-" if candidate.iteration_s is None else f"{candidate.iteration_s:#.4g}"
        rows.append((*map(str, sizes), micro, setup.recompute, gib(candidate.use.total), *((seconds,) if timed else ())))
    return rows


def print_memory(uses: Sequence[LlmMemoryUse], capacity: Capacity | None = None, fitting: Sequence[Suggestion] = ()) -> None:
    """Print the memory of a rank of each stage; with a capacity, the fullest rank's share of it, and changes that would make it fit."""
    out = Screen(every=True)
    out.table(_table(memory_table(uses), "Memory of a rank (GiB)"))
    most = max(use.total for use in uses)
    if capacity is not None:
        share = 100 * most / capacity.usable
        verdict = "It fits." if most <= capacity.usable else "It does not fit."
        out.text(f"The fullest rank needs {gib(most)} of {gib(capacity.usable)} GiB ({share:.0f} %). {verdict}")
        _margin(out, capacity)
        if most > capacity.usable and not fitting:
            out.text("No single change of recompute, zero, tensor_parallel or pipeline_parallel makes it fit.")
        for one in fitting:
            out.text(f"{gib(one.bytes)} GiB with {one.change}", "  ")


def print_search(shown: Sequence[ParallelismCandidate], capacity: Capacity, result: ParallelismSearch) -> None:
    """Print some of a search's results, in the order given, and how many it tried."""
    out = Screen(every=True)
    if not shown:
        out.text(f"No combination fits in {gib(capacity.usable)} GiB; {result.tried:,} were tried.")
        _margin(out, capacity)
        return
    fitting = len(result.candidates)
    count = f"{len(shown)} of {fitting:,}" if len(shown) < fitting else str(len(shown))
    order = "memory of the fullest rank" if shown[0].iteration_s is None else "time of an iteration"
    out.table(_table(search_table(shown), f"{count} combinations that fit in {gib(capacity.usable)} GiB, by {order}"))
    _margin(out, capacity)
    simulated = f", {result.timed:,} of these were simulated" if result.timed else ""
    out.text(f"{result.tried:,} were tried, {fitting:,} fit{simulated}.")
    left = fitting - result.timed - result.refused
    if result.timed and left:
        out.text(f"The kernels alone of the other {left:,} take longer than the times above.")
    if result.refused:
        out.text(f"{result.refused:,} that fit cannot run.")


def _margin(out: Screen, capacity: Capacity) -> None:
    """Describe the remaining memory without its margin."""
    if capacity.margin:
        out.text(f"{gib(capacity.usable)} GiB are {gib(capacity.total)} less a margin of {gib(capacity.margin)} (memory_margin).")


def gib(size: float) -> str:
    """Bytes in GiB: two decimals, none from 1000 GiB on."""
    return f"{size / GIB:.2f}" if size < 1000 * GIB else f"{size / GIB:.0f}"


def memory_json(uses: Sequence[LlmMemoryUse]) -> list[dict[str, int]]:
    """The same for programs: bytes of each use, and their sum, stage by stage."""
    return [{**attrs.asdict(use), "total": use.total} for use in uses]


def candidate_json(candidate: ParallelismCandidate) -> dict[str, Any]:
    """A combination for programs: sizes of its parallelisms and of micro-batches, bytes, seconds."""
    setup, parallel = candidate.setup, candidate.setup.parallel
    names = ("tensor", "pipeline", "data", "context", "expert")
    return {
        **{f"{name}_parallel": getattr(parallel, name) for name in names},
        "virtual_stages": parallel.virtual_stages,
        "zero": parallel.zero,
        "recompute": setup.recompute,
        "micro_batch": setup.micro_batch,
        "micro_batches": setup.micro_batches,
        "memory_bytes": candidate.use.total,
        "iteration_s": candidate.iteration_s,
    }


def _table(rows: Rows, title: str) -> Table:
    words = ("stage", "recompute")
    return Table([Column(heading, "word" if heading in words else "number") for heading in rows[0]], rows[1:], title)
