"""Files that work, and that tests damage, and what an error must look like."""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import pytest
from astra_sim import (
    Provider,
    SchedulerProvider,
    hookimpl,
)
from astra_sim.compute import Compute, Work
from astra_sim.memory import Memory
from astra_sim.setup.plugins import Plugins
from hypothesis import strategies as st
from support import warm
from support.formats import NETWORK_1

WORKLOAD = """DATA
2
conv -1 100 NONE 0 100 NONE 0 100 ALLREDUCE 1024 10
dense -1 100 NONE 0 100 NONE 0 100 ALLREDUCE 2048 10
"""


SYSTEM = """scheduling-policy: LIFO
endpoint-delay: 10
active-chunks-per-dimension: 1
preferred-dataset-splits: 4
all-reduce-implementation: ring
all-gather-implementation: ring
reduce-scatter-implementation: ring
all-to-all-implementation: ring
collective-optimization: localBWAware
"""


NETWORK: dict[str, Any] = {
    "topology-name": "Hierarchical",
    **NETWORK_1,
    "dimension-type": ["Node"],
    "nic-latency": [0],
    "router-latency": [0],
    "hbm-latency": [0],
    "hbm-bandwidth": [1],
    "hbm-scale": [0],
}


FILES = ("--workload", "w.txt", "--system", "s.txt", "--network", "n.json")


EXPERIMENT = 'workload = "w.txt"\nsystem = "s.txt"\nnetwork = "n.json"\n'


PLATFORM = "[[platform.dimensions]]\ntopology = 'ring'\nsize = 4\nlinks = 2\nlink_bandwidth_gb_per_s = 50\n"


HUGE = "9" * 5000
"""More digits than Python converts to a number."""


Words = Sequence[str | tuple[str, ...]]
"""What a message must hold; a tuple: one of these."""


class Outcome(NamedTuple):
    """What a command did."""

    status: int
    out: str
    err: str


Astra = Callable[..., Outcome]


def write(folder: Path, **texts: str | bytes) -> None:
    """Write workload, system, network and experiment; those that are given in place of the good ones."""
    good = {"workload": WORKLOAD, "system": SYSTEM, "network": network(), "experiment": EXPERIMENT}
    names = {"workload": "w.txt", "system": "s.txt", "network": "n.json", "experiment": "e.toml"}
    for kind, text in {**good, **texts}.items():
        (folder / names[kind]).write_bytes(text if isinstance(text, bytes) else text.encode())


def network(**changes: Any) -> str:
    """The network file with other values; None takes a key away."""
    table = {**NETWORK, **{key.replace("_", "-"): value for key, value in changes.items()}}
    return json.dumps({key: value for key, value in table.items() if value is not None})


def two_dimensions(**changes: Any) -> str:
    """The network file with a second dimension like the first."""
    twice = {key: value * 2 if isinstance(value, list) else value for key, value in NETWORK.items()}
    return json.dumps({**twice, "dimensions-count": 2, **{key.replace("_", "-"): value for key, value in changes.items()}})


def system(**changes: str) -> str:
    """The system file with other values."""
    lines = dict(line.split(": ") for line in SYSTEM.splitlines())
    lines.update({key.replace("_", "-"): value for key, value in changes.items()})
    return "".join(f"{key}: {value}\n" for key, value in lines.items())


def one_layer(layer: str = "conv -1 1 NONE 0 1 NONE 0 1 NONE 0 1", policy: str = "DATA") -> str:
    """A workload of one layer."""
    return f"{policy}\n1\n{layer}\n"


def two_layers(policy: str) -> str:
    """A workload of two layers."""
    return f"{policy}\n2\n" + "layer -1 1 NONE 0 1 NONE 0 1 NONE 0 1\n" * 2


def flat(text: str) -> str:
    """A text in which the spelling of names does not matter: link-latency, link_latency_ns."""
    return text.replace("-", "_").lower()


def holds(text: str, words: Words) -> None:
    """Check that a message holds all words."""
    for word in words:
        choices = (word,) if isinstance(word, str) else word
        assert any(flat(choice) in flat(text) for choice in choices), f"{choices} is not in: {text}"


def refused(outcome: Outcome, *words: str | tuple[str, ...]) -> None:
    """Check that the input was refused with one error, and nothing else was said."""
    assert outcome.status == 2, outcome
    no_answer(outcome.out)
    one_error(outcome.err)
    holds(outcome.err, words)


def no_answer(out: str) -> None:
    """Check that standard output holds nothing, or the error as JSON where that was asked for."""
    assert out == "" or set(json.loads(out)) == {"error"}, out


def one_error(err: str) -> None:
    """Check that standard error holds one error of ours, or one about the use of an option."""
    assert "Traceback" not in err, err
    assert len(re.findall(r"^(?:astra: error|Error): ", err, re.MULTILINE)) == 1, err


def answered_or_refused(outcome: Outcome, *words: str | tuple[str, ...]) -> None:
    """Check that a command gave a complete result in finite numbers, or refused its input."""
    if outcome.status == 0:
        assert outcome.err == ""
        finite(json.loads(outcome.out, parse_constant=no_number))
    else:
        refused(outcome, *words)


def no_number(name: str) -> NoReturn:
    """Refuse Infinity and NaN, which are not JSON."""
    raise AssertionError(f"{name} in the answer")


def finite(value: Any) -> None:
    """Check that no number of a result is infinite or undefined."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for item in value:
            finite(item)
    elif isinstance(value, float):
        assert math.isfinite(value)


def cases(table: Mapping[str, tuple[Any, ...]]) -> pytest.MarkDecorator:
    """Parameters `given` and `words` from a table: what it is -> (input, words of the message ...)."""
    return pytest.mark.parametrize(("given", "words"), [pytest.param(row[0], row[1:], id=name) for name, row in table.items()])


KINDS = ("workload", "system", "platform", "network", "compute", "memory")


RECOMPUTING = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2"


WORK = "compute_ns = 1"


def layer(forward: str = WORK, weight_gradient: str = WORK) -> str:
    """A layer of a workload that is written out."""
    return f"{{name = 'conv', forward = {{{forward}}}, input_gradient = {{{WORK}}}, weight_gradient = {{{weight_gradient}}}}}"


ALL_REDUCE = "compute_ns = 1000, collective = 'all_reduce'"


def layers(text: str) -> str:
    """An experiment whose workload is written out."""
    return f'system = "s.txt"\nnetwork = "n.json"\n[workload]\n{text}\n'


def bounded(folder: Path, *arguments: str) -> Outcome:
    """The command in a process of its own, which is stopped when it takes 1 GB of memory or 2 s of compute time."""
    return command(folder, *arguments, before=("sh", "-c", 'ulimit -v 1000000; ulimit -t 2; exec "$@"', "sh"))


def command(
    folder: Path, *arguments: str, env: Mapping[str, str] | None = None, before: Sequence[str] = (), stdout: int = subprocess.PIPE
) -> Outcome:
    """The command in a process of its own."""
    done = subprocess.run(
        [*before, sys.executable, "-m", "astra_sim", *arguments] if before else [warm.astra(), *arguments],
        cwd=folder,
        env={**os.environ, **(env or {})},
        stdout=stdout,
        stderr=subprocess.PIPE,
        check=False,
        timeout=60,
    )
    return Outcome(done.returncode, (done.stdout or b"").decode(errors="replace"), done.stderr.decode(errors="replace"))


def raises(error: BaseException) -> Callable[..., NoReturn]:
    """A function that raises, whatever it is asked."""

    def function(*_: object) -> NoReturn:
        raise error

    return function


def offering(**hooks: Callable[[], Any]) -> Plugins:
    """The installed plugins, and one called `mine` with these hooks."""
    names = {f"astra_{name}": staticmethod(hookimpl(function, specname=f"astra_{name}")) for name, function in hooks.items()}
    plugins = Plugins()
    plugins.register(type("Mine", (), names)(), "mine")
    return plugins


def mine(factory: Any, options: Any = None) -> list[Provider]:
    """A component called `mine`."""
    return [SchedulerProvider("mine", "A component of the tests", factory, options, orders="queue")]


COMPONENTS = {
    "workload": "workloads",
    "system": "systems",
    "platform": "platforms",
    "network": "networks",
    "compute": "computes",
    "memory": "memories",
}


CHOSEN_BY = {
    "training_loops": "workload.loop=mine",
    "collectives": "system.all_reduce=mine",
    "schedulers": "system.intra_dimension_scheduling=mine",
}


def choosing(inputs: dict[str, Any], hook: str) -> dict[str, Any]:
    """The arguments that choose the component `mine` of a hook."""
    if hook in CHOSEN_BY:
        return {**inputs, "set": [CHOSEN_BY[hook]]}
    kind = next(kind for kind, name in COMPONENTS.items() if name == hook)
    return {**inputs, "platform": "n.json", kind: "plugin:mine"}


class Recorded(Compute):
    """Every work takes so long."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def duration_ns(self, work: Work) -> float:
        answered: float = given_or_raised(self._answer)
        return answered


class Constant(Memory):
    """Every access takes so long."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def access_ps(self, size: int, write: bool) -> int:
        answered: int = given_or_raised(self._answer)
        return answered


def given_or_raised(answer: Any) -> Any:
    """A value, which is raised if it is an exception."""
    if isinstance(answer, Exception):
        raise answer
    return answer


IMPORTS = """
import click
from astra_sim import CollectiveProvider, Provider, hookimpl
from astra_sim.compute import Compute
from astra_sim.schedule import Schedule, exchange, shift


class Free(Compute):
    def duration_ns(self, work):
        return 0


def stuck(request):
    return Schedule.shared(request, [exchange(shift(1), 8, after=99, pieces=[("unnamed", 1e-9)])])


@click.command()
def fails():
    raise RuntimeError("no luck")

"""


numbers = itertools.count()


def hook(name: str, *components: str) -> str:
    """The source of a plugin with one hook."""
    return f"{IMPORTS}\n@hookimpl\ndef astra_{name}():\n    return [{', '.join(components)}]\n"


TEXT_WORDS = ("x", "NONE", "ALLTOALL", "DATA", "ring", "direct3", "null", "{", "]", '"', ":", "FullyConnected", "é", "\u2028", "-")


NUMBER_WORDS = ("-1", "0", "1", "3", "1.5", "-0.0", "1e308", "1e-320", "1e999", "NaN", "Infinity", str(10**17), str(10**30), "0x10", "1_0")


class Change(NamedTuple):
    """A damage to a text: its kind, its place as a share of the length, and its text."""

    kind: str
    place: float
    word: str


@st.composite
def changes(draw: st.DrawFn) -> list[Change]:
    kinds = ("number", "number", "number", "word", "drop", "repeat", "swap", "flip", "cut", "zero", "crlf", "mark")
    result = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(kinds))
        word = draw(st.sampled_from(NUMBER_WORDS if kind == "number" else TEXT_WORDS))
        result.append(Change(kind, draw(st.floats(0, 1, exclude_max=True)), word))
    return result
