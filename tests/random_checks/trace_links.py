"""Random pairs of traces of PyTorch: those of one run are linked, and what they share is counted right; others are refused.

- Of one run, `link` matches the operators that both traces have, and refuses where these are less than half of the smaller trace.
- With the trace of another process, rank or step it refuses, though names and numbers of calls are the same.
- A step is selected in both traces. Gzipped files give the same result.
- Kineto alone gives the same nodes as both, and refuses where a kernel does not say what it communicates.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from astra_sim import InputError
from astra_sim_chakra.pytorch.converting import convert
from astra_sim_chakra.pytorch.host import host_of, read_host
from astra_sim_chakra.pytorch.kineto import read_kineto
from astra_sim_chakra.pytorch.linking import LEAST_SHARE, Linked, link, link_alone
from astra_sim_chakra.pytorch.replay import replay
from support.pytorch_traces import COMPUTE, KERNEL, NCCL, Recorder

IN_TESTS = 25
IN_NIGHTLY = 500

_STEP_US = 2000
_NAMES = ("aten::mm", "aten::add", "aten::relu")


def check(seed: int, folder: Path) -> list[str]:
    """Record a random run, leave operators out of either trace, and link it with itself and with others."""
    random = Random(seed)
    rank, pid, first = random.randint(0, 3), random.randint(100, 999), random.randint(1, 50)
    steps = range(first, first + random.randint(1, 3))
    run = _run(random, pid, steps)
    both = _leave_out(random, run)
    host, kineto = run.write(folder, rank)
    wrong = [*_of_one_run(host, kineto, rank, both), *_of_others(random, host, kineto, run, rank, folder)]
    for step in steps:
        wrong += _of_step(host, kineto, step, both[step])
    return [*wrong, *_alone(host, kineto, folder)]


def _run(random: Random, pid: int, steps: range) -> Recorder:
    """Operators one after another on two threads in each step, some in another one, each with a kernel or without."""
    recorder = Recorder(pid=pid)
    roots = {tid: recorder.thread(tid) for tid in (1, 2)}
    free = {COMPUTE: 0.0, NCCL: 0.0}
    for step in steps:
        start = float(step * _STEP_US)
        roots[1] = recorder.step(step, roots[1], start, start + _STEP_US)
        for tid in (1, 2):
            now = start
            for _ in range(random.randint(1, 6)):
                now += random.randint(1, 60)
                end = now + random.randint(20, 90)
                operator = recorder.operator(random.choice(_NAMES), tid, now, end, roots[tid])
                if random.random() < 0.4:
                    operator = recorder.operator("aten::inner", tid, now + 1, end - 1, operator)
                if random.random() < 0.7:
                    stream = random.choice((COMPUTE, NCCL))
                    call = recorder.call("cudaLaunchKernel", tid, now + 3, now + 9, operator)
                    begin = max(free[stream], now + random.randint(10, 200))
                    free[stream] = begin + random.randint(1, 100)
                    result = {"Collective name": "allreduce", "In msg nelems": 64, "dtype": "Float", "Process Group Name": "1"}
                    recorder.kernel(
                        KERNEL if stream == NCCL else "gemm",
                        stream,
                        begin,
                        free[stream],
                        call,
                        operator,
                        **(result if stream == NCCL else {}),
                    )
                now = end
    return recorder


def _leave_out(random: Random, made: Recorder) -> dict[int, int]:
    """Take operators out of either trace. Returns how many both have, by step."""
    share = random.choice((0.0, 0.0, 0.2, 0.8))
    operators = {event["args"]["External id"]: event for event in made.events if event["cat"] == "cpu_op"}
    from_host, from_kineto = ({id_ for id_ in operators if random.random() < share} for _ in range(2))
    made.nodes = [node for node in made.nodes if node["id"] not in from_host]
    made.events = [event for event in made.events if event["cat"] != "cpu_op" or event["args"]["External id"] not in from_kineto]
    both = {number: 0 for number, _, _ in made.steps}
    for id_ in operators.keys() - from_host - from_kineto:
        both[int(operators[id_]["ts"] // _STEP_US)] += 1
    return both


def _of_one_run(host: str, kineto: str, rank: int, both: dict[int, int]) -> list[str]:
    shared = sum(both.values())
    smaller = min(sum(node.name.startswith("aten") for node in read_host(host).nodes.values()), len(read_kineto(kineto).operators))
    refused, linked = _linked(lambda: link(read_host(host), read_kineto(kineto), rank))
    enough = shared > 0 and shared / smaller >= LEAST_SHARE
    if (linked is not None) != enough:
        return [f"{shared} of {smaller} operators are in both traces, and link says: {refused or 'linked'}"]
    if linked is not None and linked.counts.by_call != shared:
        return [f"{linked.counts.by_call} operators matched; {shared} are in both traces"]
    return []


def _of_others(random: Random, host: str, kineto: str, made: Recorder, rank: int, folder: Path) -> list[str]:
    """What is not refused of traces that differ in one thing."""
    other = folder / "other"
    other.mkdir()
    changed = Recorder(nodes=made.nodes, events=made.events, pid=made.pid, steps=made.steps)
    what = random.choice(("process", "rank", "step"))
    if what == "process":
        changed.pid += 1
        changed.events = [event if event["cat"] != "cpu_op" else {**event, "pid": changed.pid} for event in made.events]
    elif what == "rank":
        rank += 1
    else:
        changed.steps = [(number + 100, begin, end) for number, begin, end in made.steps]
    _, foreign = changed.write(other, rank)
    asked = rank - 1 if what == "rank" else None
    operators = any(event["cat"] == "cpu_op" for event in made.events)
    refused, linked = _linked(lambda: link(read_host(host), read_kineto(foreign), asked))
    result = {"process": f"is of process {made.pid}", "rank": f"--rank is {asked}", "step": "of the profiler, and"}[what]
    if linked is not None or (operators and result not in refused):
        return [f"the trace of another {what} is not refused for it: {refused or 'linked'}"]
    return []


def _of_step(host: str, kineto: str, step: int, both: int) -> list[str]:
    here, there = read_host(host).of_step(step), read_kineto(kineto).of_step(step)
    refused, linked = _linked(lambda: link(here, there, force=True))
    if linked is None:
        return [f"step {step}: {refused}"] if both else []
    counts = linked.counts
    left = sum(node.name.startswith("aten") for node in here.nodes.values()) - both, len(there.operators) - both
    if (counts.by_call, counts.only_host, counts.only_kineto) != (both, *left):
        return [
            f"step {step}: {counts.by_call} operators matched, {counts.only_host} and {counts.only_kineto} not; expected {both}, {left}"
        ]
    return []


def _alone(host: str, kineto: str, folder: Path) -> list[str]:
    wrong = []
    _, alone = _linked(lambda: link_alone(read_kineto(kineto)))
    assert alone is not None
    _, linked = _linked(lambda: link(read_host(host), read_kineto(kineto), force=True))
    if read_kineto(kineto).operators or read_kineto(kineto).kernels:
        nodes = _nodes(alone)
        if linked is not None and nodes != _nodes(linked):
            wrong.append("Kineto alone gives other nodes than with the execution trace")
        if replay(convert(host_of(alone.table, kineto))).most_off_ns:
            wrong.append("the replay of Kineto alone is off")
    packed = [Path(f"{path}.gz") for path in (host, kineto)]
    for path, text in zip(packed, (host, kineto), strict=True):
        path.write_bytes(gzip.compress(Path(text).read_bytes()))
    _, unpacked = _linked(lambda: link(read_host(str(packed[0])), read_kineto(str(packed[1])), force=True))
    if (unpacked and unpacked.table) != (linked and linked.table):
        wrong.append("gzipped files give another answer")
    table = json.loads(Path(kineto).read_text())
    silent = [event for event in table["traceEvents"] if event["name"] == KERNEL]
    for event in silent[:1]:
        del event["args"]["Process Group Name"]
        (folder / "silent.json").write_text(json.dumps(table))
        refused, done = _linked(lambda: link_alone(read_kineto(str(folder / "silent.json"))))
        if done is not None or "does not record its communication in full" not in refused:
            wrong.append("a kernel without its process group is not refused")
    return wrong


def _nodes(linked: Linked) -> list[Any]:
    result = convert(host_of(linked.table, "linked"))
    return sorted((result.measured[node.id], node.name, node.type, str(node.comm_size), str(node.pg_name)) for node in result.nodes)


def _linked(make: Callable[[], Linked]) -> tuple[str, Linked | None]:
    """The error of a link, and what it is."""
    try:
        return "", make()
    except InputError as error:
        return str(error), None
