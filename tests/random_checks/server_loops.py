"""Random servers in both loops, the compiled one and that in Python: everything that a result says is the same, to the bit."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from random import Random
from typing import Any

import attrs
from astra_sim import AstraError
from astra_sim_serving import serve
from astra_sim_serving.recorded import RecordedSequences
from astra_sim_serving.request import Sequence
from astra_sim_serving.result import ServingResult
from serving.random_servers import plain_case, random_case

from random_checks.served_models import random_fleet, random_requests

IN_TESTS = 40
IN_NIGHTLY = 4000


def check(seed: int, folder: Path) -> list[str]:
    """A server that the compiled loop has, or for some seeds any, or a fleet of several models."""
    is_plain = seed % 8 > 1
    table = plain_case(seed) if is_plain else random_case(seed) if seed % 8 else random_models(seed, folder)
    compiled, plain = _outcome(table, True), _outcome(table, False)
    if not isinstance(compiled, ServingResult) or not isinstance(plain, ServingResult):
        return [] if compiled == plain else [f"compiled {compiled!r:.300}, in Python {plain!r:.300}"]
    wrong = differences(compiled, plain)
    if is_plain and not isinstance(compiled.sequences, RecordedSequences):
        wrong.append("the compiled loop was not used")
    return wrong


def random_models(seed: int, folder: Path) -> dict[str, Any]:
    """A fleet of several models, with its requests in a file."""
    draw = Random(seed)
    table = random_fleet(draw)
    trace = folder / "requests.jsonl"
    trace.write_text("".join(json.dumps(each) + "\n" for each in random_requests(draw, list(table["serving"]["models"]))))
    table["serving"]["requests"] = {"trace": str(trace)}
    return table


def _outcome(table: dict[str, Any], compiled: bool) -> ServingResult | str:
    """The result, or the error."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*before the window")
            return serve(table, compiled=compiled)
    except AstraError as error:
        return f"{type(error).__name__}: {error}"


def differences(first: ServingResult, second: ServingResult) -> list[str]:
    """What differs between two results."""
    wrong = []
    documents = [json.dumps(each.document()) for each in (first, second)]
    if documents[0] != documents[1]:
        wrong.append("documents differ")
    if first.csv() != second.csv():
        wrong.append("rows of requests differ")
    if first.gaps.counts != second.gaps.counts:
        wrong.append("gaps differ")
    states = [list(map(_state, each.sequences)) for each in (first, second)]
    if states[0] != states[1]:
        wrong.append("states of requests differ")
    totals = [
        [
            (each.totals, each.scheduler.hit_tokens, each.scheduler.looked_up_tokens, each.scheduler.cache.free_blocks)
            for each in result.instances
        ]
        for result in (first, second)
    ]
    if totals[0] != totals[1]:
        wrong.append("totals of instances differ")
    for name, part in first.models.items():
        if part.csv() != second.models[name].csv() or part.gaps.counts != second.models[name].gaps.counts:
            wrong.append(f"results of {name} differ")
    return wrong


def _state(sequence: Sequence) -> tuple[Any, ...]:
    """All that is known of a request, but for numbers of blocks."""
    return attrs.astuple(attrs.evolve(sequence, blocks=[]))
