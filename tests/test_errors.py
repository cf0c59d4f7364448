"""Bad input gets one clear error that names the place, the value and what would be right; a failed run says why.

Exit status 2 is for bad input, 1 for a run that failed. There is never a traceback, an endless run, or half an answer.
"""

from __future__ import annotations

import csv
import importlib
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

import astra_sim
import attrs
import pytest
from astra_sim import (
    AstraError,
    CollectiveProvider,
    FileFormat,
    InputError,
    PluginError,
    Provider,
    Result,
    ScheduleError,
    SchedulerProvider,
    hookimpl,
)
from astra_sim.command import cli
from astra_sim.compute import Compute, Work
from astra_sim.engine import Job
from astra_sim.errors import DeadlockError
from astra_sim.graph import Pass
from astra_sim.memory import Memory
from astra_sim.network import EventNetwork, Message, RouteDelayNetwork
from astra_sim.options import option
from astra_sim.platform import Platform
from astra_sim.schedule import RankProgram, Request, Schedule, exchange, rank, receive, send, shift, xor
from astra_sim.setup.plugins import Plugins
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

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
    "dimensions-count": 1,
    "topologies-per-dim": ["Ring"],
    "units-count": [4],
    "links-count": [2],
    "link-latency": [500],
    "link-bandwidth": [50],
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


@pytest.fixture
def astra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Astra:
    """The command, in this process, in a folder with the files of a run that works."""
    write(tmp_path)
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["astra", *arguments])
        try:
            cli.main()
            status: Any = 0
        except SystemExit as stop:
            status = stop.code
        printed = capsys.readouterr()
        return Outcome(status or 0, printed.out, printed.err)

    return call


@pytest.fixture
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Arguments of a call of simulate that works, with the files in the current folder."""
    write(tmp_path)
    monkeypatch.chdir(tmp_path)
    return {"workload": "w.txt", "system": "s.txt", "network": "n.json"}


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
    """Check that a command gave a whole answer in finite numbers, or refused its input."""
    if outcome.status == 0:
        assert outcome.err == ""
        finite(json.loads(outcome.out, parse_constant=no_number))
    else:
        refused(outcome, *words)


def no_number(name: str) -> NoReturn:
    """Refuse Infinity and NaN, which are not JSON."""
    raise AssertionError(f"{name} in the answer")


def finite(value: Any) -> None:
    """Check that no number of an answer is infinite or undefined."""
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


def test_the_files_that_the_tests_spoil_work(astra: Astra) -> None:
    by_option, by_file = astra(*FILES, "--json"), astra("e.toml", "--json")
    assert by_option.status == by_file.status == 0
    assert by_option.err == by_file.err == ""
    assert json.loads(by_option.out)["finish_ns"] == json.loads(by_file.out)["finish_ns"] == 24896


# -- Names -------------------------------------------------------------------------------------------------------------


@cases(
    {
        "workload": (["--workload", "plugin:colective"], "workload", "'colective'", "collective"),
        "system": (["--system", "plugin:astra9"], "system", "'astra9'", ("astra1", "astra2")),
        "platform": (["--platform", "plugin:rong?size=4"], "platform", "'rong'", "ring"),
        "network": (["--platform", "n.json", "--network", "plugin:analitical"], "network", "'analitical'", "analytical"),
        "network without a platform": (["--network", "plugin:analitical"], "'analitical'"),
        "compute": (["--compute", "plugin:rofline"], "compute", "'rofline'", "roofline"),
        "memory": (["--memory", "plugin:locl"], "memory", "'locl'", "local"),
        "training loop": (["--set", "workload.loop=dat"], "w.txt", "training loop", "'dat'", "data"),
        "collective": (["--set", "system.all_reduce=rng"], "s.txt", "collective", "'rng'", "ring"),
        "order of queues": (["--set", "system.intra_dimension_scheduling=fifi"], "s.txt", "scheduler", "'fifi'", "fifo"),
        "order of dimensions": (["--set", "system.inter_dimension_scheduling=ascnding"], "scheduler", "'ascnding'", "ascending"),
        "topology": (["--set", "platform.dimensions.0.topology=rung"], "n.json", "dimension 0", "'rung'", "ring"),
        "option of a component": (["--set", "system.split=8"], "s.txt", "'split'", "splits"),
        "option of the network": (["--set", "network.roundin=x"], "n.json", "'roundin'", "rounding"),
        "option of an algorithm": (["--set", "system.all_reduce=direct?windw=2"], "s.txt", "'windw'", "window"),
        "option of a component without options": (["--compute", "plugin:recorded?x=1"], "recorded", "'x'", "no options"),
        "choice": (["--set", "system.scheduling_policy=lilo"], "s.txt", "scheduling_policy", "'lilo'", "'lifo'"),
        "collective of a layer": (["--set", "workload.layers.0.forward.collective=all_reduc"], "w.txt", "'all_reduc'", "'all_reduce'"),
        "flag": (["--rendezvou"], "--rendezvou", "--rendezvous"),
    }
)
def test_an_unknown_name_is_answered_with_those_that_are_known(astra: Astra, given: list[str], words: Words) -> None:
    start = ("--workload", "w.txt", "--system", "s.txt") if "--network" in given else FILES
    refused(astra(*start, *given, "--json"), *words)


@cases(
    {
        "an option that is required": (["--workload", "plugin:collective?byte=8"], "'byte'", "bytes"),
        "a key of a dimension": (["--platform", "plugin:ring?sise=4"], "'sise'", "size"),
    }
)
def test_a_misspelt_option_is_named_even_where_the_right_one_is_required(astra: Astra, given: list[str], words: Words) -> None:
    refused(astra(*FILES, *given), *words)


@cases(
    {
        "a command": (["plugin"], "'plugin'", "plugins"),
        "a command of plugins": (["plugins", "lst"], "'lst'", "list"),
        "a component to show": (["plugins", "show", "nosuch"], "'nosuch'", "known"),
        "a component to show, nearly": (["plugins", "show", "rign"], "'rign'", "'ring'"),
        "a kind of component to show": (["plugins", "show", "colective:ring"], "'colective:ring'"),
        "no component to show": (["plugins", "show"], "NAME"),
        "a component to check": (["plugins", "check", "nosuch"], "'nosuch'", "known"),
    }
)
def test_an_unknown_command_or_component_is_answered_with_those_that_are_known(astra: Astra, given: list[str], words: Words) -> None:
    refused(astra(*given), *words)


@cases(
    {
        "a queue by the order of dimensions": ("intra_dimension_scheduling=round_robin", "intra_dimension_scheduling", "round_robin"),
        "a queue by an order that asks for the platform": (
            "intra_dimension_scheduling=ascending",
            "intra_dimension_scheduling",
            "ascending",
        ),
        "dimensions by the order of a queue": ("inter_dimension_scheduling=fifo", "inter_dimension_scheduling", "fifo"),
    }
)
def test_a_scheduler_of_the_other_kind_is_refused(astra: Astra, given: str, words: Words) -> None:
    refused(astra(*FILES, "--set", f"system.{given}"), "s.txt", *words)


# -- Files -------------------------------------------------------------------------------------------------------------

KINDS = ("workload", "system", "platform", "network", "compute", "memory")


@pytest.mark.parametrize("kind", KINDS)
@cases(
    {
        "missing": ("nowhere.txt", "nowhere.txt", "No such file", "plugin:NAME"),
        "a folder": ("folder", "folder", "directory"),
        "below a file": ("w.txt/x", "w.txt/x", "Not a directory"),
        "empty": ("empty", "empty: ", "empty"),
        "blank": ("blank", "blank: ", "empty"),
        "binary": ("binary", "binary: ", "not a text file"),
        "with a zero byte": ("zero", "zero: ", "not a text file", "zero byte"),
        "in UTF-16": ("utf16", "utf16: ", "not a text file"),
        "in Latin-1": ("latin1", "latin1: ", "not a text file", "0xe4"),
        "in another language": ("prose", "prose: ", "format"),
        "a name too long": ("x" * 5000, "too long"),
    }
)
def test_a_file_that_cannot_be_read_is_named(astra: Astra, tmp_path: Path, kind: str, given: str, words: Words) -> None:
    (tmp_path / "folder").mkdir()
    contents = {
        "empty": b"",
        "blank": b" \n\t\n",
        "binary": b"\x89PNG\r\n\x1a\n\x00\xff",
        "zero": b"DATA\n1\n\0",
        "utf16": WORKLOAD.encode("utf-16"),
        "latin1": b"DATA\n1\n\xe4",
        "prose": b"Once upon a time\n",
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    refused(astra(*FILES, f"--{kind}", given, "--json"), *words)


@cases(
    {
        "missing": ("nowhere.toml", "nowhere.toml", "No such file"),
        "a folder": (".", "directory"),
        "JSON": ("n.json", "n.json", "line 1"),
        "a workload": ("w.txt", "w.txt", "line 1"),
    }
)
def test_an_experiment_that_cannot_be_read_is_named(astra: Astra, given: str, words: Words) -> None:
    refused(astra(given, "--json"), *words)


@pytest.mark.parametrize("kind", ["workload", "system", "network"])
def test_the_file_of_another_component_is_not_taken(astra: Astra, kind: str) -> None:
    names = {"workload": "w.txt", "system": "s.txt", "network": "n.json"}
    for other, name in names.items():
        if other != kind:
            refused(astra(*FILES, f"--{kind}", name), name, kind)


@pytest.mark.parametrize("kind", ["workload", "system", "network", "experiment"])
@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_byte_order_mark_and_line_ends_make_no_difference(astra: Astra, tmp_path: Path, kind: str, ends: str, mark: str) -> None:
    texts = {"workload": WORKLOAD, "system": SYSTEM, "network": json.dumps(NETWORK, indent=1), "experiment": EXPERIMENT}
    write(tmp_path, **{kind: mark + texts[kind].replace("\n", ends)})
    done = astra("e.toml", "--json")
    assert (done.status, done.err) == (0, "")
    assert json.loads(done.out)["finish_ns"] == 24896


@cases(
    {
        "cut off": (network()[:100], "n.json:1", "JSON"),
        "cut off at the end": (network()[:-1], "n.json:1", "JSON"),
        "cut off in a later line": (json.dumps(NETWORK, indent=1)[:58], "n.json:3", "JSON"),
        "with more behind": (network() + "x", "n.json:1", "JSON"),
        "nested too deeply": ('{"a":' * 100_000, "n.json", "nested"),
        "with a number of 5000 digits": (network().replace("[500]", f"[{HUGE}]"), "n.json"),
        "an empty object": ("{}", "n.json", "dimensions-count"),
        "a list": ("[]", "n.json", "format"),
        "a key twice": (network()[:-1] + ', "units-count": [8]}', "n.json", "units-count"),
    }
)
def test_broken_json_is_refused(astra: Astra, tmp_path: Path, given: str, words: Words) -> None:
    write(tmp_path, network=given)
    refused(astra(*FILES, "--json"), *words)


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="no /dev/zero here")
def test_a_file_without_end_is_refused(tmp_path: Path) -> None:
    write(tmp_path)
    refused(bounded(tmp_path, *FILES, "--workload", "/dev/zero"), "/dev/zero")


# -- Text workload of ASTRA-sim 1.0 ------------------------------------------------------------------------------------

RECOMPUTING = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2"


@cases(
    {
        "unknown policy": (one_layer(policy="DATUM"), "w.txt:1", "'DATUM'", "'DATA'"),
        "policy in small letters": (one_layer(policy="data"), "w.txt"),
        "no policy": ("1\nconv -1 1 NONE 0 1 NONE 0 1 NONE 0 1\n", "w.txt"),
        "policy alone": ("DATA", "w.txt:1", "number of layers"),
        "no layers": ("DATA\n0\n", "w.txt:2", "number of layers", "0", "at least 1"),
        "number of layers negative": ("DATA\n-1\n", "w.txt:2", "number of layers", "'-1'"),
        "number of layers a word": ("DATA\nmany\n", "w.txt:2", "number of layers", "'many'"),
        "number of layers a fraction": ("DATA\n1.5\n", "w.txt:2", "number of layers", "'1.5'"),
        "number of layers huge": (f"DATA\n{10**17}\nconv -1 1 NONE 0 1 NONE 0 1 NONE 0 1\n", "w.txt:3", "layer 2"),
        "number of layers of 5000 digits": (f"DATA\n{HUGE}\n", "w.txt:2", "number of layers"),
        "more layers than announced": (WORKLOAD.replace("\n2\n", "\n1\n"), "w.txt:4", "'dense'", "1 layers"),
        "fewer layers than announced": (WORKLOAD.replace("\n2\n", "\n3\n"), "w.txt:4", "layer 3"),
        "words missing": (one_layer("conv -1 1 NONE 0 1 NONE"), "w.txt:3", "conv", "input_gradient"),
        "last word missing": (one_layer("conv -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 8"), "w.txt:3", "update time", "conv"),
        "word too much": (one_layer("conv -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 8 1 x"), "w.txt:3", "'x'"),
        "time negative": (one_layer("conv -1 -5 NONE 0 1 NONE 0 1 NONE 0 1"), "w.txt:3", "conv", "forward", "'-5'"),
        "time a word": (one_layer("conv -1 1 NONE 0 soon NONE 0 1 NONE 0 1"), "w.txt:3", "conv", "input_gradient", "'soon'"),
        "time a fraction": (one_layer("conv -1 1 NONE 0 1 NONE 0 1.5 NONE 0 1"), "w.txt:3", "conv", "weight_gradient", "'1.5'"),
        "time of 5000 digits": (one_layer(f"conv -1 {HUGE} NONE 0 1 NONE 0 1 NONE 0 1"), "w.txt:3", "conv", "forward"),
        "unknown collective": (one_layer("conv -1 1 NONE 0 1 NONE 0 1 ALLREDUC 8 1"), "w.txt:3", "conv", "'ALLREDUC'", "'ALLREDUCE'"),
        "bytes negative": (one_layer("conv -1 1 NONE 0 1 NONE 0 1 ALLREDUCE -8 1"), "w.txt:3", "bytes", "conv", "'-8'"),
        "bytes a word": (one_layer("conv -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 8k 1"), "w.txt:3", "bytes", "conv", "'8k'"),
        "bytes 0": (one_layer("conv -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 0 1"), "w.txt", "conv", "weight_gradient", "0 bytes", "at least 1"),
        "update time negative": (one_layer("conv -1 1 NONE 0 1 NONE 0 1 NONE 0 -1"), "w.txt:3", "update time", "conv", "'-1'"),
        "update time a word": (one_layer("conv -1 1 NONE 0 1 NONE 0 1 NONE 0 x"), "w.txt:3", "update time", "conv", "'x'"),
        "update time in raised digits": (one_layer("conv -1 1 NONE 0 1 NONE 0 1 NONE 0 ²"), "w.txt:3", "update time", "'²'"),
        "update time in digits of another script": (one_layer("conv -1 1 NONE 0 1 NONE 0 1 NONE 0 ٣"), "w.txt:3", "update time", "'٣'"),
        "update time of 5000 digits": (one_layer(f"conv -1 1 NONE 0 1 NONE 0 1 NONE 0 {HUGE}"), "w.txt:3", "update time", "conv"),
        "transformer without a group": (one_layer(policy="HYBRID_TRANSFORMER"), "w.txt:2", "model_parallel_NPU_group:"),
        "transformer with a misspelt group": (
            one_layer(policy="HYBRID_TRANSFORMER group: 2"),
            "w.txt:1",
            "'group:'",
            "model_parallel_NPU_group:",
        ),
        "transformer with a word for the group": (one_layer(policy="HYBRID_TRANSFORMER model_parallel_NPU_group: two"), "w.txt:1", "'two'"),
        "transformer with a group of 0": (one_layer(policy="HYBRID_TRANSFORMER model_parallel_NPU_group: 0"), "w.txt", "0", "at least 1"),
        "groups of 3 of 4": (one_layer(policy="HYBRID_TRANSFORMER model_parallel_NPU_group: 3"), "w.txt", "groups of 3", "4 NPUs"),
        "group beyond the platform": (one_layer(policy="HYBRID_TRANSFORMER model_parallel_NPU_group: 8"), "w.txt", "8 NPUs", "1 to 4"),
        "checkpoints missing": (two_layers(RECOMPUTING), "w.txt:2", "'2'", "checkpoints:"),
        "initiates missing": (two_layers(f"{RECOMPUTING} checkpoints: 1 0"), "w.txt:2", "'2'", "checkpoint_initiates:"),
        "fewer checkpoints than said": (
            two_layers(f"{RECOMPUTING} checkpoints: 2 0 checkpoint_initiates: 1 1"),
            "w.txt:1",
            "checkpoints:",
            "'checkpoint_initiates:'",
        ),
        "checkpoint beyond the last layer": (
            two_layers(f"{RECOMPUTING} checkpoints: 1 7 checkpoint_initiates: 1 1"),
            "w.txt",
            "checkpoints",
            "7",
            "0 to 1",
        ),
        "initiate beyond the last layer": (
            two_layers(f"{RECOMPUTING} checkpoints: 1 0 checkpoint_initiates: 1 2"),
            "w.txt",
            "checkpoint_initiates",
            "2",
            "0 to 1",
        ),
        "no checkpoint before": (
            two_layers(f"{RECOMPUTING} checkpoints: 1 1 checkpoint_initiates: 1 0"),
            "w.txt",
            "checkpoint_initiates",
            "layer 0",
        ),
        "checkpoint and initiate the same": (
            two_layers(f"{RECOMPUTING} checkpoints: 1 1 checkpoint_initiates: 1 1"),
            "w.txt",
            "checkpoint 1",
            "layer 1",
        ),
        "DLRM without a layer": (one_layer(policy="HYBRID_DLRM"), ("w.txt:1", "w.txt:2"), "bottom MLP"),
        "DLRM with a word": (one_layer(policy="HYBRID_DLRM last"), "w.txt:1", "bottom MLP", "'last'"),
        "DLRM with a layer that is not there": (one_layer(policy="HYBRID_DLRM 5"), "w.txt", "5", "0 to 0"),
        "layer without a policy": (one_layer(policy="HYBRID_CUSTOMIZED"), "w.txt:3", "policy of layer conv"),
        "first of two layers without a policy": (
            "HYBRID_CUSTOMIZED\n2\nconv -1 1 NONE 0 1 NONE 0 1 NONE 0 1\ndense -1 1 NONE 0 1 NONE 0 1 NONE 0 1 DATA\n",
            "policy of layer conv",
            "'dense'",
        ),
        "layer with an unknown policy": (
            one_layer("conv -1 1 NONE 0 1 NONE 0 1 NONE 0 1 MODLE", "HYBRID_CUSTOMIZED"),
            "w.txt:3",
            "policy of layer conv",
            "'MODLE'",
            "'MODEL'",
        ),
        "layer with a policy that needs the whole": (
            one_layer("conv -1 1 NONE 0 1 NONE 0 1 NONE 0 1 HYBRID_TRANSFORMER", "HYBRID_CUSTOMIZED"),
            "w.txt",
            "conv",
            "hybrid_transformer",
            "model",
        ),
    }
)
def test_a_bad_text_workload_is_refused_with_its_line(astra: Astra, tmp_path: Path, given: str, words: Words) -> None:
    write(tmp_path, workload=given)
    refused(astra(*FILES, "--json"), *words)


# -- Text system file of ASTRA-sim 1.0 ---------------------------------------------------------------------------------


@cases(
    {
        "unknown name": (SYSTEM + "colour: red\n", "s.txt:10", "'colour:'"),
        "misspelt name": (SYSTEM.replace("endpoint-delay", "endpoint-dely"), "s.txt:2", "'endpoint-dely:'", "'endpoint-delay:'"),
        "name without a colon": (SYSTEM.replace("endpoint-delay:", "endpoint-delay"), "s.txt:2", "'endpoint-delay'", "'endpoint-delay:'"),
        "value missing": (SYSTEM.replace("LIFO", ""), "s.txt:1", "scheduling-policy", "no value"),
        "last value missing": (SYSTEM + "boost-mode:", "s.txt:10", "boost-mode", "no value"),
        "name twice": (SYSTEM + "endpoint-delay: 3\n", "s.txt:10", "endpoint-delay", "line 2"),
        "number a word": (system(endpoint_delay="x"), "s.txt:2", "endpoint-delay", "'x'", "whole number"),
        "number negative": (system(endpoint_delay="-1"), "s.txt:2", "endpoint-delay", "'-1'", "at least 0"),
        "number a fraction": (system(endpoint_delay="1.5"), "s.txt:2", "endpoint-delay", "'1.5'", "whole number"),
        "number of 5000 digits": (system(endpoint_delay=HUGE), "s.txt:2", "endpoint-delay"),
        "splits 0": (system(preferred_dataset_splits="0"), "s.txt", "splits", "0", "at least 1"),
        "no chunk active": (system(active_chunks_per_dimension="0"), "s.txt", "active-chunks-per-dimension", "0", "at least 1"),
        "unknown scheduling policy": (system(scheduling_policy="RANDOM"), "s.txt:1", "scheduling-policy", "'RANDOM'", "LIFO"),
        "unknown optimization": (system(collective_optimization="best"), "s.txt:9", "collective-optimization", "'best'", "baseline"),
        "unknown order in a dimension": (
            SYSTEM + "intra-dimension-scheduling: RGB\n",
            "s.txt:10",
            "intra-dimension-scheduling",
            "'RGB'",
            "'RG'",
        ),
        "unknown order of dimensions": (
            SYSTEM + "inter-dimension-scheduling: up\n",
            "s.txt:10",
            "inter-dimension-scheduling",
            "'up'",
            "ascending",
        ),
        "latency of the bus a word": (SYSTEM + "L: far\n", "s.txt:10", "'far'", "number"),
        "unknown algorithm": (system(all_reduce_implementation="rng"), "s.txt", "'rng'", "'ring'"),
        "algorithm with a window it has not": (system(all_reduce_implementation="ring4"), "s.txt", "'ring4'", "'ring'"),
        "window of 0": (system(all_reduce_implementation="direct0"), "s.txt", "window", "0", "at least 1"),
        "more algorithms than dimensions": (system(all_gather_implementation="ring_direct"), "s.txt", "all_gather", "2", "1 dimensions"),
        "algorithm without a name": (system(all_reduce_implementation="ring_"), "s.txt", ("all_reduce", "all-reduce-implementation")),
        "algorithm behind one for all NPUs": (system(all_reduce_implementation="oneRing_ring"), "s.txt", "all_reduce", "one_ring"),
        "prose": ("hello world\n", "s.txt", "format"),
    }
)
def test_a_bad_text_system_is_refused_with_its_line(astra: Astra, tmp_path: Path, given: str, words: Words) -> None:
    write(tmp_path, system=given)
    refused(astra(*FILES, "--json"), *words)


def test_fewer_algorithms_than_dimensions_are_refused(astra: Astra, tmp_path: Path) -> None:
    write(tmp_path, network=two_dimensions())
    refused(astra(*FILES), "s.txt", "all_reduce", "1 algorithms", "2 dimensions")


@pytest.mark.parametrize("symmetry", [[], ["--no-symmetry"]], ids=["one for all", "every NPU"])
@cases(
    {
        "halving-doubling on 6": (("halvingDoubling", 6, "ALLREDUCE"), "halving_doubling", "6 ranks", "power of two"),
        "one halving-doubling on 6": (("oneHalvingDoubling", 6, "ALLREDUCE"), "halving_doubling", "6 ranks", "power of two"),
        "halving-doubling for all-to-all": (("halvingDoubling", 4, "ALLTOALL"), "halving_doubling", "all_to_all"),
        "double binary tree on 5": (("doubleBinaryTree", 5, "ALLREDUCE"), "double_binary_tree", "5 ranks", "power of two"),
    }
)
def test_an_algorithm_that_cannot_do_it_says_why(
    astra: Astra, tmp_path: Path, given: tuple[str, int, str], words: Words, symmetry: list[str]
) -> None:
    algorithm, units, collective = given
    text = system(all_reduce_implementation=algorithm, all_to_all_implementation=algorithm)
    write(tmp_path, system=text, network=network(units_count=[units]), workload=WORKLOAD.replace("ALLREDUCE", collective))
    done = astra(*FILES, "--json", *symmetry)
    refused(done, *words)
    holds(done.err, [("s.txt", "all-reduce", "all-to-all", "dense")])


def test_a_collective_smaller_than_its_splits_is_refused(astra: Astra) -> None:
    done = astra(*FILES, "--set", "workload.layers.1.weight_gradient.collective_bytes=3")
    refused(done, "3 bytes", "4 chunks", "splits")
    holds(done.err, ["dense"])


# -- JSON network of ASTRA-sim 1.0 -------------------------------------------------------------------------------------

REQUIRED = ("dimensions-count", "topologies-per-dim", "units-count", "links-count", "link-latency", "link-bandwidth")
LISTS = tuple(key for key, value in NETWORK.items() if isinstance(value, list))
NUMBERS = tuple(key for key in LISTS if key not in ("topologies-per-dim", "dimension-type"))


@pytest.mark.parametrize("key", REQUIRED)
def test_a_network_without_a_required_key_is_refused(astra: Astra, tmp_path: Path, key: str) -> None:
    write(tmp_path, network=json.dumps({name: value for name, value in NETWORK.items() if name != key}))
    refused(astra(*FILES), "n.json", key)


@pytest.mark.parametrize("key", LISTS)
@pytest.mark.parametrize("value", [None, True, 3, "x", {}, [], [1, 2]], ids=json.dumps)
def test_a_list_of_the_network_has_one_value_for_each_dimension(astra: Astra, tmp_path: Path, key: str, value: Any) -> None:
    write(tmp_path, network=json.dumps({**NETWORK, key: value}))
    refused(astra(*FILES), "n.json", key)


@pytest.mark.parametrize("key", NUMBERS)
@pytest.mark.parametrize("value", [None, True, "x", -1, [1], {}, math.nan, math.inf, -math.inf], ids=str)
def test_a_number_of_the_network_that_is_none_is_refused(astra: Astra, tmp_path: Path, key: str, value: Any) -> None:
    write(tmp_path, network=json.dumps({**NETWORK, key: [value]}))
    shown = repr(value) if not isinstance(value, float) else str(value)
    refused(astra(*FILES), "n.json", key if "units" not in key and "links" not in key else ("size", "links", key), shown)


@cases(
    {
        "no unit": ({"units_count": [0]}, ("units-count", "size"), "0", "at least 1"),
        "half a unit": ({"units_count": [1.5]}, "units-count", "1.5", "whole"),
        "no link": ({"links_count": [0]}, "links", "0", "at least 1"),
        "half a link": ({"links_count": [2.5]}, "links-count", "2.5", "whole"),
        "no bandwidth": ({"link_bandwidth": [0]}, "link-bandwidth", "0", "more than 0"),
        "no memory bandwidth": ({"hbm_bandwidth": [0]}, "hbm-bandwidth", "0", "more than 0"),
        "a ring with one link": ({"links_count": [1]}, "links", "1", "at least 2"),
        "too few links for all": ({"topologies_per_dim": ["FullyConnected"], "links_count": [2]}, "links", "2", "at least 3"),
        "an unknown topology": ({"topologies_per_dim": ["Torus"]}, "topologies-per-dim", "'Torus'", "Ring"),
        "a topology in small letters": ({"topologies_per_dim": ["ring"]}, "topologies-per-dim", "'ring'", "Ring"),
        "a list for a topology": ({"topologies_per_dim": [["Ring"]]}, "topologies-per-dim", "['Ring']", "Ring"),
        "an object for a topology": ({"topologies_per_dim": [{}]}, "topologies-per-dim", "{}", "Ring"),
        "an unknown key": ({"link_latencies": [1]}, "'link-latencies'", "link-latency"),
        "no dimensions": ({"dimensions_count": 0}, "dimensions-count", "0", "at least 1"),
        "a negative number of dimensions": ({"dimensions_count": -1}, "dimensions-count", "-1", "at least 1"),
        "a fraction of dimensions": ({"dimensions_count": 1.0}, "dimensions-count", "1.0", "whole"),
        "more dimensions than values": ({"dimensions_count": 2}, "topologies-per-dim", "1", "2 dimensions"),
        "dimensions without end": ({"dimensions_count": 10**30}, "topologies-per-dim", "1"),
    }
)
def test_a_network_that_cannot_be_built_is_refused(astra: Astra, tmp_path: Path, given: dict[str, Any], words: Words) -> None:
    write(tmp_path, network=network(**given))
    refused(astra(*FILES), "n.json", *words)


@pytest.mark.parametrize("topology", ["Ring", "Switch"])
@pytest.mark.parametrize("key", NUMBERS)
@pytest.mark.parametrize("value", [1e308, 10**30, 10**400, 1e-320], ids=["1e308", "10^30", "10^400", "1e-320"])
def test_extreme_numbers_of_a_network_give_a_whole_answer_or_an_error(
    astra: Astra, tmp_path: Path, topology: str, key: str, value: float
) -> None:
    changed = {**NETWORK, "topologies-per-dim": [topology], "hbm-scale": [1], key: [value]}
    write(tmp_path, network=json.dumps(changed))
    answered_or_refused(astra(*FILES, "--json"), "n.json")


# -- Experiment files --------------------------------------------------------------------------------------------------

WORK = "compute_ns = 1"


def layer(forward: str = WORK, weight_gradient: str = WORK) -> str:
    """A layer of a workload that is written out."""
    return f"{{name = 'conv', forward = {{{forward}}}, input_gradient = {{{WORK}}}, weight_gradient = {{{weight_gradient}}}}}"


LAYER = layer()
ALL_REDUCE = "compute_ns = 1000, collective = 'all_reduce'"


def layers(text: str) -> str:
    """An experiment whose workload is written out."""
    return f'system = "s.txt"\nnetwork = "n.json"\n[workload]\n{text}\n'


@cases(
    {
        "empty": ("", "workload"),
        "cut off": (EXPERIMENT + "[run\n", "line 4"),
        "a key twice": (EXPERIMENT + 'system = "s.txt"\n', "line 4"),
        "nested too deeply": ("a = " + "[" * 100_000, "nested"),
        "a number of 5000 digits": (EXPERIMENT + f"[run]\npasses = {HUGE}\n", "e.toml"),
        "unknown section": (EXPERIMENT + "[sistem]\nsplits = 1\n", "'sistem'", "system"),
        "unknown key": (EXPERIMENT + "passes = 2\n", "'passes'"),
        "name a number": (EXPERIMENT + "name = 3\n", "name", "3", "text"),
        "run a number": (EXPERIMENT + "run = 3\n", "run", "3", "table"),
        "run a list": (EXPERIMENT + "run = []\n", "run", "[]", "table"),
        "unknown option of the run": (EXPERIMENT + "[run]\npass = 2\n", "run", "'pass'", "'passes'"),
        "passes text": (EXPERIMENT + "[run]\npasses = '2'\n", "run", "passes", "'2'", "whole number"),
        "passes a fraction": (EXPERIMENT + "[run]\npasses = 2.0\n", "run", "passes", "2.0", "whole number"),
        "passes 0": (EXPERIMENT + "[run]\npasses = 0\n", "run", "passes", "0", "at least 1"),
        "scale not a number": (EXPERIMENT + "[run]\ncompute_scale = nan\n", "run", "compute_scale", "nan"),
        "scale infinite": (EXPERIMENT + "[run]\ncompute_scale = inf\n", "run", "compute_scale", "inf"),
        "symmetry a number": (EXPERIMENT + "[run]\nsymmetry = 1\n", "run", "symmetry", "1", "true or false"),
        "workload a number": ('workload = 3\nsystem = "s.txt"\nnetwork = "n.json"\n', "workload", "3"),
        "workload true": ('workload = true\nsystem = "s.txt"\nnetwork = "n.json"\n', "workload", "true"),
        "workload a list": ('workload = ["w.txt"]\nsystem = "s.txt"\nnetwork = "n.json"\n', "workload", "['w.txt']"),
        "plugin a number": ('workload = "w.txt"\nnetwork = "n.json"\n[system]\nplugin = 3\n', "system", "plugin", "3"),
        "unknown plugin": ('workload = "w.txt"\nnetwork = "n.json"\n[compute]\nplugin = "rofline"\n', "compute", "'rofline'", "roofline"),
        "file a number": ('workload = "w.txt"\nnetwork = "n.json"\n[system]\nfile = 3\n', "system", "file", "3"),
        "file with a plugin it is not for": (
            'system = "s.txt"\nnetwork = "n.json"\n[workload]\nfile = "w.txt"\nplugin = "collective"\nbytes = 64\n',
            "workload",
            "w.txt",
            "plugin",
        ),
        "splits text": ('workload = "w.txt"\nnetwork = "n.json"\n[system]\nsplits = "4"\n', "system", "splits", "'4'", "whole number"),
        "algorithm a number": ('workload = "w.txt"\nnetwork = "n.json"\n[system]\nall_reduce = 3\n', "system", "all_reduce", "3"),
        "algorithms of numbers": (
            'workload = "w.txt"\nnetwork = "n.json"\n[system]\nall_reduce = [3]\n',
            "system",
            "all_reduce",
            "3",
            "text",
        ),
        "no algorithms": ('workload = "w.txt"\nnetwork = "n.json"\n[system]\nall_reduce = []\n', "system", "all_reduce", "0 algorithms"),
        "no platform": ('workload = "w.txt"\nsystem = "s.txt"\nnetwork = "plugin:analytical"\n', "platform"),
        "platform a list": ('workload = "w.txt"\nsystem = "s.txt"\nplatform = [1]\n', "platform", "[1]"),
        "dimensions text": ('workload = "w.txt"\n[platform]\ndimensions = "x"\n', "platform", "dimensions", "'x'", "list"),
        "dimensions a number": ('workload = "w.txt"\n[platform]\ndimensions = 3\n', "platform", "dimensions", "3", "list"),
        "dimensions of numbers": ('workload = "w.txt"\n[platform]\ndimensions = [1]\n', "platform", "dimension 0", "1", "table"),
        "dimensions empty": ('workload = "w.txt"\n[platform]\ndimensions = []\n', "platform", "dimensions", "at least one"),
        "dimensions and a plugin": (
            f'workload = "w.txt"\n[platform]\nplugin = "ring"\n{PLATFORM}',
            "platform",
            "dimensions",
        ),
        "topology and a plugin": (
            'workload = "w.txt"\n[platform]\nplugin = "ring"\ntopology = "switch"\nsize = 4\nlinks = 2\nlink_bandwidth_gb_per_s = 1\n',
            "platform",
            "topology",
        ),
        "topology missing": (f'workload = "w.txt"\n{PLATFORM.replace("topology", "#")}', "platform", "dimension 0", "topology", "missing"),
        "topology a number": (f'workload = "w.txt"\n{PLATFORM.replace("ring", "3")}', "platform", "dimension 0", "'3'"),
        "size missing": (f'workload = "w.txt"\n{PLATFORM.replace("size", "#")}', "platform", "dimension 0", "size", "missing"),
        "size text": (f'workload = "w.txt"\n{PLATFORM.replace("4", "[4]")}', "platform", "dimension 0", "size", "[4]", "whole number"),
        "size 0": (f'workload = "w.txt"\n{PLATFORM.replace("4", "0")}', "platform", "dimension 0", "size", "0", "at least 1"),
        "both bandwidths": (f'workload = "w.txt"\n{PLATFORM}link_bandwidth_gib_per_s = 1\n', "platform", "dimension 0", "exactly one"),
        "loop missing": (layers(f"layers = [{LAYER}]"), "workload", "loop", "missing"),
        "loop a number": (layers(f"loop = 3\nlayers = [{LAYER}]"), "workload", "loop", "3", "text"),
        "layers missing": (layers("loop = 'data'"), "workload", "layers", "missing"),
        "layers empty": (layers("loop = 'data'\nlayers = []"), "workload", "layers", "at least one"),
        "layers a number": (layers("loop = 'data'\nlayers = 3"), "workload", "layers", "3", "list"),
        "layers of numbers": (layers("loop = 'data'\nlayers = [1]"), "workload", "layers", "1", "table"),
        "layer without a name": (layers("loop = 'data'\nlayers = [{}]"), "workload", "layers", "name", "missing"),
        "layer with an unknown pass": (layers("loop = 'data'\nlayers = [{name = 'a', forwrd = {}}]"), "layers", "'forwrd'", "'forward'"),
        "layer without times": (layers("loop = 'data'\nlayers = [{name = 'conv'}]"), "workload", "conv", "forward", "compute_ns"),
        "second layer with a word": (
            layers(f"loop = 'data'\nlayers = [{LAYER}, {layer('compute_ns = [7]')}]"),
            "workload",
            ("layers 1", "layers.1", "layer 1"),
            "forward",
            "compute_ns",
            "[7]",
        ),
        "layer with a negative time": (layers(f"loop = 'data'\nlayers = [{layer('compute_ns = -1')}]"), "compute_ns", "-1", "at least 0"),
        "layer with a collective of no bytes": (
            layers(f"loop = 'data'\nlayers = [{layer(WORK, ALL_REDUCE)}]"),
            "conv",
            "weight_gradient",
            "0 bytes",
        ),
        "options of a loop that has none": (
            layers(f"loop = 'data'\nlayers = [{LAYER}]\nloop_options = {{x = 1}}"),
            "data",
            "'x'",
            "no options",
        ),
        "options of a loop a list": (layers(f"loop = 'data'\nlayers = [{LAYER}]\nloop_options = []"), "loop_options", "[]", "table"),
        "option of a loop missing": (
            layers(f"loop = 'hybrid_transformer'\nlayers = [{LAYER}]"),
            "hybrid_transformer",
            "model_parallel_npus",
        ),
        "layer of a customised loop without one": (layers(f"loop = 'hybrid_customized'\nlayers = [{LAYER}]"), "conv", "loop"),
    }
)
def test_a_bad_experiment_is_refused_with_file_and_key(astra: Astra, tmp_path: Path, given: str, words: Words) -> None:
    write(tmp_path, experiment=given)
    done = astra("e.toml", "--json")
    refused(done, *words)
    if given and "platform" not in words:
        holds(done.err, ["e.toml"])


def test_a_file_of_an_experiment_is_looked_for_beside_it(astra: Astra, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "e.toml").write_text('workload = "w.txt"\nnetwork = "../n.json"\n')
    refused(astra("folder/e.toml"), "folder/w.txt", "No such file")


# -- Options of the command --------------------------------------------------------------------------------------------


@cases(
    {
        "nothing": ("", "section.key=value"),
        "no value": ("system.splits", "system.splits", "section.key=value"),
        "no dot": ("passes=3", "passes=3", "section.key=value"),
        "no key": ("system.=3", "system.=3", "section.key=value"),
        "an empty part of a key": ("system..splits=3", "''"),
        "an unknown section": ("nowhere.x=1", "'nowhere'", "system"),
        "a misspelt section": ("syste.splits=1", "'syste'", "'system'"),
        "an unknown key": ("system.splts=1", "s.txt", "'splts'", "'splits'"),
        "an unknown key of the run": ("run.pass=1", "run", "'pass'", "'passes'"),
        "a value of the wrong type": ("system.splits=many", "s.txt", "splits", "'many'", "whole number"),
        "no text for a number": ("system.splits=", "s.txt", "splits", "''", "whole number"),
        "a fraction for a whole number": ("system.splits=1.5", "s.txt", "splits", "'1.5'", "whole number"),
        "a number too small": ("system.splits=0", "s.txt", "splits", "0", "at least 1"),
        "a number of 5000 digits": (f"system.splits={HUGE}", "s.txt", "splits"),
        "not a number": ("run.comm_scale=nan", "run", "comm_scale", "nan"),
        "neither true nor false": ("run.symmetry=maybe", "run", "symmetry", "'maybe'", "true or false"),
        "a key of a value": ("system.splits.x=3", "'splits'", "4", "no keys"),
        "a position that is not there": ("platform.dimensions.1.size=5", "'1'", "0 to 0"),
        "a negative position": ("platform.dimensions.-1.size=5", "'-1'", "0 to 0"),
        "a word for a position": ("workload.layers.conv.name=x", "'conv'", "0 to 1"),
        "raised digits for a position": ("platform.dimensions.².size=5", "'²'", "0 to 0"),
        "a huge position": ("workload.layers.99999999999999999999.name=x", "0 to 1"),
        "a number for a table in a list": ("platform.dimensions.0=5", "n.json", "dimension 0", "'5'", "table"),
        "a number for a list": ("platform.dimensions=5", "n.json", "dimensions", "'5'", "list"),
        "a word for a list of tables": ("workload.layers=x", "w.txt", "layers", "'x'"),
        "no text for a list": ("workload.layers=", "w.txt", "layers", "at least one"),
        "a number for a table": ("workload.loop_options=3", "w.txt", "loop_options", "'3'", "table"),
        "two algorithms for one dimension": ("system.all_reduce=ring,ring", "s.txt", "all_reduce", "2 algorithms", "1 dimensions"),
        "no algorithm": ("system.all_reduce=", "s.txt", "all_reduce"),
    }
)
def test_a_bad_assignment_is_refused(astra: Astra, given: str, words: Words) -> None:
    refused(astra(*FILES, "--json", "--set", given), *words)


def test_an_assignment_that_reaches_into_an_object_is_refused(inputs: dict[str, Any]) -> None:
    inputs["memory"] = Constant(0)
    with pytest.raises(InputError, match="memory is an object"):
        astra_sim.simulate(**inputs, set=["memory.latency_ns=1"])


@cases(
    {
        "no name": ("plugin:", "'plugin:'", "plugin:NAME"),
        "no name but options": ("plugin:?bytes=8", "'plugin:?bytes=8'", "plugin:NAME"),
        "no value": ("plugin:collective?bytes", "'bytes'", "key=value"),
        "no key": ("plugin:collective?=8", "'=8'", "key=value"),
        "nothing between two": ("plugin:collective?bytes=8&&update_ns=1", "''", "key=value"),
        "a key twice": ("plugin:collective?bytes=8&bytes=16", "bytes", ("twice", "again", "more than once", "duplicate")),
        "another plugin": ("plugin:collective?bytes=8&plugin=layers", "plugin"),
        "a key of a value": ("plugin:collective?bytes=8&bytes.x=1", "'bytes'", "no keys"),
        "a required option missing": ("plugin:collective", "plugin:collective", "bytes", "missing"),
        "the wrong type": ("plugin:collective?bytes=many", "plugin:collective?bytes=many", "bytes", "'many'", "whole number"),
        "too small": ("plugin:collective?bytes=-1", "bytes", "-1", "at least 0"),
        "an unknown choice": ("plugin:collective?bytes=64&collective=all_in", "collective", "'all_in'", "all_reduce"),
        "a loop without layers": ("plugin:layers?loop=data", "plugin:layers?loop=data", "layers", "missing"),
    }
)
def test_a_bad_spec_is_refused(astra: Astra, given: str, words: Words) -> None:
    refused(astra(*FILES, "--json", "--workload", given), *words)


@cases(
    {
        "passes 0": (["--passes", "0"], "passes", "0", "at least 1"),
        "passes negative": (["--passes", "-1"], "passes", "-1", "at least 1"),
        "passes a word": (["--passes", "x"], "--passes", "'x'"),
        "passes a fraction": (["--passes", "1.5"], "--passes", "'1.5'"),
        "queues 0": (["--queues-per-dim", "0"], "queues-per-dim", "0", "at least 1"),
        "queues negative": (["--queues-per-dim", "-1"], "queues-per-dim", "-1", "at least 1"),
        "compute scale negative": (["--compute-scale", "-1"], "compute-scale", "-1", "at least 0"),
        "compute scale not a number": (["--compute-scale", "nan"], "compute-scale", "nan"),
        "compute scale infinite": (["--compute-scale", "inf"], "compute-scale", "inf"),
        "compute scale a word": (["--compute-scale", "x"], "--compute-scale", "'x'"),
        "comm scale 0": (["--comm-scale", "0"], "comm-scale", "0", "more than 0"),
        "comm scale negative": (["--comm-scale", "-1"], "comm-scale", "-1", "more than 0"),
        "comm scale not a number": (["--comm-scale", "nan"], "comm-scale", "nan"),
        "comm scale that leaves nothing": (["--comm-scale", "1e-10"], "w.txt", "dense", "0 bytes"),
        "injection scale negative": (["--injection-scale", "-1"], "injection-scale", "-1", "at least 0"),
        "injection scale not a number": (["--injection-scale", "nan"], "injection-scale", "nan"),
        "a second experiment": (["e.toml", "f.toml"], "f.toml"),
        "a value missing": (["--passes"], "--passes"),
    }
)
def test_a_bad_option_of_a_run_is_refused(astra: Astra, given: list[str], words: Words) -> None:
    refused(astra("run", *FILES, "--json", *given), *words)


@pytest.mark.parametrize("option_", ["--compute-scale", "--comm-scale", "--injection-scale"])
@pytest.mark.parametrize("value", ["1e-320", "1e20", "1e30", "1e38", "1e308", "1" + "0" * 300])
def test_extreme_scales_give_a_whole_answer_or_an_error(astra: Astra, tmp_path: Path, option_: str, value: str) -> None:
    answered_or_refused(astra(*FILES, "--json", option_, value))
    own = layers(f"loop = 'data'\nlayers = [{layer(WORK, ALL_REDUCE + ', collective_bytes = 4096')}]")
    write(tmp_path, experiment=own)
    answered_or_refused(astra("e.toml", "--json", option_, value))


@cases(
    {
        "time of a layer": ("workload.layers.0.forward.compute_ns=1e308", "w.txt"),
        "time of a layer, whole": ("workload.layers.0.forward.compute_ns=" + "9" * 400, "w.txt"),
        "bytes of a layer": ("workload.layers.0.weight_gradient.collective_bytes=" + "9" * 400, "w.txt"),
        "update time": ("workload.layers.0.update_ns=1e308", "w.txt"),
        "update time of the smallest": ("workload.layers.0.update_ns=1e-320", "w.txt"),
        "endpoint delay": ("system.endpoint_delay_ns=" + "9" * 45, "s.txt"),
        "active chunks": ("system.active_chunks_per_dimension=" + "9" * 400, "s.txt"),
        "splits": ("system.splits=" + "9" * 400, "splits"),
        "bandwidth of memory": ("memory.bandwidth_bytes_per_ns=1e-320", "memory"),
        "latency of memory": ("memory.latency_ns=1e308", "memory"),
        "latency of memory, whole": ("memory.latency_ns=" + "9" * 400, "memory"),
        "window": ("system.all_reduce=direct?window=" + "9" * 400, "s.txt"),
        "queues": ("run.queues_per_dim=" + "9" * 400, "queues_per_dim"),
    }
)
def test_extreme_options_give_a_whole_answer_or_an_error(astra: Astra, given: str, words: Words) -> None:
    answered_or_refused(astra(*FILES, "--json", "--set", given), *words)


@cases(
    {
        "a tiny peak": ("peak_tera_ops_per_s=1e-320",),
        "a tiny share of a tiny peak": ("peak_tera_ops_per_s=1e-320&efficiency=1e-300",),
        "a huge peak": ("peak_tera_ops_per_s=1e308",),
        "a tiny bandwidth": ("peak_tera_ops_per_s=1&memory_bandwidth_gb_per_s=1e-320",),
    }
)
def test_an_extreme_roofline_gives_a_whole_answer_or_an_error(astra: Astra, tmp_path: Path, given: str, words: Words) -> None:
    work = "operations = 1e30, memory_bytes = 1e30"
    write(tmp_path, experiment=layers(f"loop = 'data'\nlayers = [{layer(work, work).replace(WORK, work)}]"))
    answered_or_refused(astra("e.toml", "--json", "--compute", f"plugin:roofline?{given}"), *words)


def test_a_long_value_is_not_repeated_at_length(astra: Astra, tmp_path: Path) -> None:
    write(tmp_path, workload="DATA\n" + "x" * 100_000)
    done = astra(*FILES)
    refused(done, "w.txt:2", "number of layers")
    assert len(done.err) < 2000


# -- What would never end ----------------------------------------------------------------------------------------------


def bounded(folder: Path, *arguments: str) -> Outcome:
    """The command in a process of its own, which is stopped when it takes 1 GB of memory or 2 s of computing time."""
    return command(folder, *arguments, before=("sh", "-c", 'ulimit -v 1000000; ulimit -t 2; exec "$@"', "sh"))


def command(
    folder: Path, *arguments: str, env: Mapping[str, str] | None = None, before: Sequence[str] = (), stdout: int = subprocess.PIPE
) -> Outcome:
    """The command in a process of its own."""
    done = subprocess.run(
        [*before, sys.executable, "-m", "astra_sim", *arguments],
        cwd=folder,
        env={**os.environ, **(env or {})},
        stdout=stdout,
        stderr=subprocess.PIPE,
        check=False,
        timeout=60,
    )
    return Outcome(done.returncode, (done.stdout or b"").decode(errors="replace"), done.stderr.decode(errors="replace"))


def fully_connected(units: int) -> str:
    """A network in which every NPU has a link to every other."""
    return network(topologies_per_dim=["FullyConnected"], units_count=[units], links_count=[units])


@pytest.mark.skipif(sys.platform == "win32", reason="no limits here")
@cases(
    {
        "passes": ((["--passes", "1" + "0" * 30], {}), "passes"),
        "queues": ((["--queues-per-dim", "1000000000"], {}), "queues_per_dim"),
        "chunks": (
            (
                [],
                {
                    "system": system(preferred_dataset_splits=str(10**11)),
                    "workload": WORKLOAD.replace("1024", str(10**12)).replace("2048", str(10**12)),
                },
            ),
            "splits",
        ),
        "direct sends": (
            ([], {"system": system(all_reduce_implementation="direct"), "network": fully_connected(10**9)}),
            "direct",
            "ranks",
        ),
        "NPUs one by one": ((["--no-symmetry"], {"network": network(units_count=[10**12])}), "NPUs", str(10**12)),
        "nodes of a tree": (
            ([], {"system": system(all_reduce_implementation="doubleBinaryTree"), "network": network(units_count=[2**40])}),
            "double_binary_tree",
            "ranks",
        ),
    }
)
def test_what_would_never_end_is_refused(tmp_path: Path, given: tuple[list[str], dict[str, str]], words: Words) -> None:
    options, texts = given
    write(tmp_path, **texts)
    refused(bounded(tmp_path, *FILES, "--json", *options), *words)


# -- Python ------------------------------------------------------------------------------------------------------------


class BytesPath:
    """A path in bytes, which os.fspath gives back as such."""

    def __fspath__(self) -> bytes:
        return b"w.txt"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "value",
    [3, True, math.nan, b"w.txt", [], ["w.txt"], BytesPath(), "a\0b", "plugin:\0", "a\udc80", {3: 4}, {"plugin": 3}, {"file": 3}],
    ids=repr,
)
def test_what_is_no_component_is_refused(inputs: dict[str, Any], kind: str, value: Any) -> None:
    if kind == "network":
        inputs["platform"] = "n.json"
    with pytest.raises(InputError):
        astra_sim.simulate(**{**inputs, kind: value})


@pytest.mark.parametrize("name", ["passes", "queues_per_dim"])
@pytest.mark.parametrize("value", ["2", True, 2.0, 0, -1, [], math.nan, math.inf, 2j], ids=repr)
def test_what_is_no_count_is_refused(inputs: dict[str, Any], name: str, value: Any) -> None:
    with pytest.raises(InputError, match=name):
        astra_sim.simulate(**inputs, **{name: value})


@pytest.mark.parametrize("name", ["compute_scale", "comm_scale", "injection_scale"])
@pytest.mark.parametrize("value", ["2", True, -1, [], math.nan, math.inf, -math.inf, 2j], ids=repr)
def test_what_is_no_scale_is_refused(inputs: dict[str, Any], name: str, value: Any) -> None:
    with pytest.raises(InputError, match=name):
        astra_sim.simulate(**inputs, **{name: value})


@pytest.mark.parametrize("value", [10**400, 10**39], ids=["10^400", "10^39"])
@pytest.mark.parametrize("name", ["compute_scale", "comm_scale", "injection_scale"])
def test_a_whole_number_too_large_for_a_scale_is_refused(inputs: dict[str, Any], name: str, value: int) -> None:
    with pytest.raises(InputError):
        astra_sim.simulate(**inputs, **{name: value})


@pytest.mark.parametrize("name", ["rendezvous", "symmetry"])
@pytest.mark.parametrize("value", ["true", 1, 0, [], math.nan], ids=repr)
def test_what_is_neither_true_nor_false_is_refused(inputs: dict[str, Any], name: str, value: Any) -> None:
    with pytest.raises(InputError, match=name):
        astra_sim.simulate(**inputs, **{name: value})


@pytest.mark.parametrize("value", ["system.splits=3", [3], 3, [None], ["system.splits"]], ids=repr)
def test_what_is_no_list_of_assignments_is_refused(inputs: dict[str, Any], value: Any) -> None:
    with pytest.raises(InputError):
        astra_sim.simulate(**inputs, set=value)


@pytest.mark.parametrize("value", [3, b"e.toml", {}, {"workload": "w.txt"}, "a\0b", ".", "nowhere", ""], ids=repr)
def test_what_is_no_experiment_is_refused(inputs: dict[str, Any], value: Any) -> None:
    with pytest.raises(InputError):
        astra_sim.simulate(value, **inputs)
    with pytest.raises(InputError):
        astra_sim.load_experiment(value)


@cases(
    {
        "a run that is no table": ({"run": 3}, "run"),
        "sections that are no table": ({"sections": 3}, "sections"),
        "an unknown section": ({"sections": {"sistem": {}}}, "sistem"),
    }
)
def test_an_experiment_made_badly_is_refused(inputs: dict[str, Any], given: dict[str, Any], words: Words) -> None:
    with pytest.raises(InputError) as caught:
        astra_sim.simulate(astra_sim.Experiment(**given), **inputs)
    holds(str(caught.value), words)


# -- Output ------------------------------------------------------------------------------------------------------------


@cases(
    {
        "below a file": ("w.txt/reports", "w.txt/reports", "Not a directory"),
        "where nothing can be made": ("/proc/nowhere/reports", "/proc/nowhere/reports"),
        "a name too long": ("x" * 5000, "too long"),
    }
)
def test_an_output_folder_that_cannot_be_made_fails_the_run(astra: Astra, given: str, words: Words) -> None:
    done = astra(*FILES, "--json", "--output", given)
    assert done.status == 1
    no_answer(done.out)
    one_error(done.err)
    holds(done.err, ["cannot write", *words])


def test_a_file_is_no_output_folder(astra: Astra) -> None:
    refused(astra(*FILES, "--output", "w.txt"), "--output", "'w.txt'")


def test_reports_that_fail_leave_no_result(astra: Astra, tmp_path: Path) -> None:
    done = astra(*FILES, "--output", "reports", "--run-name", "x" * 300, "--json")
    assert done.status == 1
    no_answer(done.out)
    one_error(done.err)
    assert not (tmp_path / "reports" / "result.json").exists()


@pytest.mark.parametrize("name", ["a/b", "../b", "a,b", 'a"b', "a\nb", "[/red]", "日本"], ids=ascii)
def test_any_name_of_a_run_and_a_layer_reaches_tables_and_reports_or_is_refused(astra: Astra, tmp_path: Path, name: str) -> None:
    layer_name = name.replace("\n", "")
    write(tmp_path, workload=WORKLOAD.replace("conv", layer_name))
    done = astra(*FILES, "--output", "reports", "--run-name", name)
    if done.status:
        refused(done)
        return
    assert done.err == ""
    assert layer_name in done.out
    with (tmp_path / "reports" / "EndToEnd.csv").open(encoding="utf-8", newline="") as text:
        rows = list(csv.reader(text))
    assert len({len(row) for row in rows}) == 1
    assert rows[1][:2] == [layer_name, name]
    assert [path.parent for path in tmp_path.rglob("*_dimension_utilization.csv")] == [tmp_path / "reports"]


def test_names_do_not_depend_on_the_language_of_the_terminal(tmp_path: Path) -> None:
    write(tmp_path, workload=WORKLOAD.replace("conv", "日本"))
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    done = command(tmp_path, *FILES, "--output", "reports", env=plain)
    assert (done.status, done.err) == (0, "")
    assert "日本" in (tmp_path / "reports" / "EndToEnd.csv").read_text(encoding="utf-8")


def test_a_name_that_is_no_text_is_one_error_or_none(tmp_path: Path) -> None:
    write(tmp_path)
    done = command(tmp_path, *FILES, "--json", "--output", "reports", "--run-name", os.fsdecode(b"a\xff"))
    assert done.status == 0 or not done.out
    if done.status:
        one_error(done.err)


@pytest.mark.parametrize(
    "arguments",
    [FILES, (*FILES, "--json"), ("plugins",), ("plugins", "--json"), ("plugins", "show", "ring"), ("plugins", "check"), ("--help",)],
    ids=" ".join,
)
def test_a_reader_that_has_gone_is_no_error(tmp_path: Path, arguments: Sequence[str]) -> None:
    write(tmp_path)
    read, written = os.pipe()
    os.close(read)
    try:
        done = command(tmp_path, *arguments, stdout=written)
    finally:
        os.close(written)
    assert done.err == ""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
@pytest.mark.parametrize("arguments", [FILES, (*FILES, "--json"), ("plugins",)], ids=" ".join)
def test_an_output_that_is_full_is_one_error(tmp_path: Path, arguments: Sequence[str]) -> None:
    write(tmp_path)
    with open("/dev/full", "w") as full:
        done = command(tmp_path, *arguments, stdout=full.fileno())
    assert done.status == 1
    one_error(done.err)
    holds(done.err, ["No space left"])


# -- Plugins: what cannot be used --------------------------------------------------------------------------------------


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
HOOKS = (*COMPONENTS.values(), *CHOSEN_BY, "formats", "commands")


def choosing(inputs: dict[str, Any], hook: str) -> dict[str, Any]:
    """The arguments that choose the component `mine` of a hook."""
    if hook in CHOSEN_BY:
        return {**inputs, "set": [CHOSEN_BY[hook]]}
    kind = next(kind for kind, name in COMPONENTS.items() if name == hook)
    return {**inputs, "platform": "n.json", kind: "plugin:mine"}


@pytest.mark.parametrize("hook", HOOKS)
@cases(
    {
        "raises": (raises(RuntimeError("no luck")), "RuntimeError", "no luck"),
        "answers nothing": (lambda: None, "None"),
        "answers a number in a list": (lambda: [3], "3"),
    }
)
def test_a_hook_that_fails_is_reported_and_stops_nobody(inputs: dict[str, Any], hook: str, given: Callable[[], Any], words: Words) -> None:
    plugins = offering(**{hook: given})
    assert astra_sim.simulate(**inputs, plugins=plugins).finish_ns == 24896
    (info,) = [info for info in plugins.infos() if info.error is not None]
    assert info.name == "mine"
    holds(info.error or "", [f"astra_{hook}", *words])


@pytest.mark.parametrize("hook", [*COMPONENTS.values(), *CHOSEN_BY])
@pytest.mark.parametrize(
    "reference", ["nosuchmodule:thing", "os:nosuchthing", "os", "", ":", "os:name", "os:"], ids=lambda text: f"<{text}>"
)
def test_a_factory_that_cannot_be_loaded_is_named(inputs: dict[str, Any], hook: str, reference: str) -> None:
    provider = CollectiveProvider if hook == "collectives" else Provider
    plugins = offering(**{hook: lambda: [provider("mine", "A component of the tests", reference)]})
    with pytest.raises(PluginError, match="mine"):
        astra_sim.simulate(**choosing(inputs, hook), plugins=plugins)


@pytest.mark.parametrize("hook", [*COMPONENTS.values(), *CHOSEN_BY])
@pytest.mark.parametrize("error", [RuntimeError("no luck"), ImportError("no luck"), ValueError("no luck"), KeyError("no luck")], ids=repr)
def test_a_factory_that_fails_is_named_with_its_error(inputs: dict[str, Any], hook: str, error: Exception) -> None:
    plugins = offering(**{hook: lambda: mine(raises(error))})
    with pytest.raises(PluginError) as caught:
        astra_sim.simulate(**choosing(inputs, hook), plugins=plugins)
    holds(str(caught.value), ["mine", type(error).__name__, "no luck"])


@pytest.mark.parametrize("hook", [*COMPONENTS.values(), "collectives", "schedulers"])
@pytest.mark.parametrize("answer", [None, 3, [3], "x"], ids=repr)
def test_a_factory_that_makes_something_else_is_named(inputs: dict[str, Any], hook: str, answer: Any) -> None:
    plugins = offering(**{hook: lambda: mine(lambda *_: answer)})
    with pytest.raises(InputError, match="mine"):
        astra_sim.simulate(**choosing(inputs, hook), plugins=plugins)


@attrs.frozen
class Options:
    """Options of a component of the tests."""

    size: int = option(help="a size")


@cases(
    {
        "that cannot be loaded": ("nosuchmodule:Options", "nosuchmodule"),
        "that are a number": (3, "mine"),
        "that are no attrs class": (int, "mine"),
        "that are a function": (raises(RuntimeError("no luck")), "mine"),
        "of which one is missing": (Options, "size", "missing"),
    }
)
def test_options_of_a_plugin_that_cannot_be_used_are_named(inputs: dict[str, Any], given: Any, words: Words) -> None:
    plugins = offering(computes=lambda: mine(lambda _: Recorded(0), given))
    with pytest.raises(InputError) as caught:
        astra_sim.simulate(**inputs, compute="plugin:mine", plugins=plugins)
    holds(str(caught.value), words)


@cases(
    {
        "recognises raises": ((raises(RuntimeError("no luck")), raises(RuntimeError("no luck"))), "no luck"),
        "recognises cannot be loaded": (("nosuchmodule:a", "nosuchmodule:b"), "nosuchmodule"),
        "read raises": ((lambda text: True, raises(RuntimeError("no luck"))), "no luck"),
        "read answers nothing": ((lambda text: True, lambda text, path: None), "None"),
        "read answers no table of sections": ((lambda text: True, lambda text, path: {"network": 3}), "3"),
        "read answers other sections": ((lambda text: True, lambda text, path: {"colour": {}}), "colour"),
    }
)
@pytest.mark.parametrize("kind", ["network", "platform"])
def test_a_file_format_that_fails_is_named(inputs: dict[str, Any], kind: str, given: tuple[Any, Any], words: Words) -> None:
    recognises, read = given
    plugins = offering(formats=lambda: [FileFormat("aaa", "A format of the tests", ("network", "platform"), recognises, read)])
    arguments = {**inputs, "network": "plugin:analytical", "platform": "n.json"} if kind == "platform" else inputs
    Path("n.json").write_text("in a format of the tests")
    with pytest.raises(AstraError) as caught:
        astra_sim.simulate(**arguments, plugins=plugins)
    holds(str(caught.value), ["aaa", *words])


def test_a_plugin_registered_with_a_hook_of_other_arguments_is_refused() -> None:
    with pytest.raises(PluginError, match="mine"):
        offering(computes=lambda size: [])


# -- Plugins: what fails in a run --------------------------------------------------------------------------------------


class Recorded(Compute):
    """Every work takes so long."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def duration_ns(self, work: Work) -> float:
        return given_or_raised(self._answer)


class Constant(Memory):
    """Every access takes so long."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def access_ps(self, size: int, write: bool) -> int:
        return given_or_raised(self._answer)


class Flat(RouteDelayNetwork):
    """Every message takes so long."""

    def __init__(self, platform: Platform, answer: Any) -> None:
        super().__init__(platform)
        self._answer = answer

    def route_delay(self, dimension: int, hops: int, size: int) -> int:
        return given_or_raised(self._answer)


def given_or_raised(answer: Any) -> Any:
    """An answer, which is raised if it is an exception."""
    if isinstance(answer, Exception):
        raise answer
    return answer


@pytest.mark.parametrize("symmetry", [True, False], ids=["one for all", "every NPU"])
@pytest.mark.parametrize("kind", ["compute", "memory", "network"])
@pytest.mark.parametrize("answer", [-5, math.nan, math.inf, None, "x", RuntimeError("no luck")], ids=repr)
def test_a_model_that_answers_no_time_fails_the_run(inputs: dict[str, Any], kind: str, answer: Any, symmetry: bool) -> None:
    makers = {"compute": lambda: Recorded(answer), "memory": lambda: Constant(answer), "network": lambda platform: Flat(platform, answer)}
    plugins = offering(**{COMPONENTS[kind]: lambda: mine(makers[kind])})
    with pytest.raises(AstraError) as caught:
        astra_sim.simulate(**choosing(inputs, COMPONENTS[kind]), plugins=plugins, symmetry=symmetry)
    assert not isinstance(caught.value, DeadlockError)


class Post(EventNetwork):
    """Delivers a message 1 ns after it was sent, one at a time; `trouble` says what goes wrong."""

    def __init__(self, platform: Platform, trouble: str) -> None:
        super().__init__(platform)
        self._trouble = trouble
        self._under_way: list[tuple[int, int]] = []

    def inject(self, time: int, messages: Sequence[Message]) -> None:
        if self._trouble == "raises":
            raise RuntimeError("no luck")
        if self._trouble != "loses":
            self._under_way += [(time + 1000, number) for number, *_ in messages]

    def advance(self, until: int | None) -> Any:
        if not self._under_way or (until is not None and self._under_way[0][0] > until):
            return None
        time, number = self._under_way.pop(0)
        answers: dict[str, Any] = {
            "answers a number": 3,
            "invents a message": (time, [10**9]),
            "delivers twice": (time, [number, number]),
            "delivers in the past": (-1, [number]),
            "delivers text": (time, ["x"]),
        }
        return answers.get(self._trouble, (time, [number]))


def test_an_event_network_works_when_nothing_goes_wrong(inputs: dict[str, Any]) -> None:
    plugins = offering(networks=lambda: mine(lambda platform: Post(platform, "nothing")))
    assert astra_sim.simulate(**choosing(inputs, "networks"), plugins=plugins).finish_ns > 0


@pytest.mark.parametrize(
    "trouble", ["raises", "answers a number", "invents a message", "delivers twice", "delivers in the past", "delivers text"]
)
def test_an_event_network_that_breaks_its_contract_fails_the_run(inputs: dict[str, Any], trouble: str) -> None:
    plugins = offering(networks=lambda: mine(lambda platform: Post(platform, trouble)))
    with pytest.raises(AstraError):
        astra_sim.simulate(**choosing(inputs, "networks"), plugins=plugins)


def test_messages_that_a_network_loses_are_named_with_those_who_wait(inputs: dict[str, Any]) -> None:
    plugins = offering(networks=lambda: mine(lambda platform: Post(platform, "loses")))
    with pytest.raises(DeadlockError) as caught:
        astra_sim.simulate(**choosing(inputs, "networks"), plugins=plugins)
    holds(str(caught.value), ["cannot finish", "NPU 0 waits for a message of 128 bytes from NPU 3", "dense"])
    assert caught.value.exit_status == 1


@pytest.mark.parametrize("answer", ["x", None, -1, 10**9, RuntimeError("no luck")], ids=repr)
def test_an_order_that_answers_no_place_fails_the_run(inputs: dict[str, Any], answer: Any) -> None:
    def order(jobs: Sequence[Job], started: int, job: Job) -> int:
        return given_or_raised(answer)

    plugins = offering(schedulers=lambda: mine(lambda: order))
    with pytest.raises(AstraError):
        astra_sim.simulate(**choosing(inputs, "schedulers"), plugins=plugins)


def test_a_training_loop_that_breaks_off_fails_the_run(inputs: dict[str, Any]) -> None:
    plugins = offering(training_loops=lambda: mine(lambda program: program.compute(99, Pass.FORWARD)))
    with pytest.raises(AstraError, match="mine"):
        astra_sim.simulate(**choosing(inputs, "training_loops"), plugins=plugins)


# -- Plugins: schedules ------------------------------------------------------------------------------------------------


def with_algorithm(inputs: dict[str, Any], algorithm: Callable[[Request], Any], symmetry: bool) -> Result:
    """Run with a collective algorithm of the test."""
    plugins = offering(collectives=lambda: [CollectiveProvider("mine", "An algorithm of the tests", algorithm)])
    return astra_sim.simulate(**inputs, set=["system.all_reduce=mine"], plugins=plugins, symmetry=symmetry)


def everybody(*steps: Any, **more: Any) -> Callable[[Request], Schedule]:
    """An algorithm in which all ranks do the same."""
    return lambda request: Schedule.shared(request, steps, **more)


def in_a_ring(program: Callable[[int, int], RankProgram]) -> Callable[[Request], Schedule]:
    """An algorithm in which every rank has a program: of its next rank and the one before."""
    return lambda request: Schedule.per_rank(
        request, [program((i + 1) % request.ranks, (i - 1) % request.ranks) for i in range(request.ranks)]
    )


SOME = ["unnamed"]
"""Data of which only the bytes are known: they are not compared with what the collective needs."""


@pytest.mark.parametrize("symmetry", [True, False], ids=["one for all", "every NPU"])
@cases(
    {
        "receives what nobody sends": (in_a_ring(lambda up, down: RankProgram((receive(rank(down), 8),))), "rank 0", "sends 0 bytes"),
        "sends what nobody receives": (in_a_ring(lambda up, down: RankProgram((send(rank(up), 8),))), "rank 0", "sends"),
        "sends to itself": (everybody(exchange(shift(0), 8)), "itself"),
        "sends to itself around the ring": (everybody(exchange(shift(4), 8)), "itself"),
        "sends out of the group": (everybody(exchange(xor(8), 8)), "xor(8)", "4"),
        "sends another size than is received": (
            in_a_ring(lambda up, down: RankProgram((send(rank(up), 8, pieces=SOME), receive(rank(down), 16)))),
            "8 bytes",
            "16 bytes",
        ),
        "sends less than nothing": (everybody(exchange(shift(1), -8)), "-8"),
        "sends half a byte": (everybody(exchange(shift(1), 8.5)), "8.5"),
        "sends text": (everybody(exchange(shift(1), "8")), "'8'"),
        "repeats a step less than never": (everybody(exchange(shift(1), 8, times=-1)), "-1"),
        "starts with less than nothing": (everybody(exchange(shift(1), 8), starts=-1), "-1"),
        "leaves less than nothing": (everybody(exchange(shift(1), 8), output_bytes=-1), "-1"),
        "has steps of another kind": (everybody(3), "3"),
        "is for another number of ranks": (lambda request: Schedule(99, (RankProgram((exchange(shift(1), 8),)),), 8), "99", "4"),
        "has too few programs": (lambda request: Schedule.per_rank(request, [RankProgram(())] * 3), "3 programs", "4"),
    }
)
def test_a_schedule_that_contradicts_itself_is_refused(
    inputs: dict[str, Any], given: Callable[[Request], Any], words: Words, symmetry: bool
) -> None:
    with pytest.raises(InputError) as caught:
        with_algorithm(inputs, given, symmetry)
    holds(str(caught.value), words)


@pytest.mark.parametrize("symmetry", [True, False], ids=["one for all", "every NPU"])
@cases(
    {
        "too many tokens": (everybody(exchange(shift(1), 8, after=99, pieces=SOME)), "NPU 0", "99 tokens", "step 1 of 1"),
        "too many messages": (everybody(exchange(shift(1), 8, after_arrivals=99, pieces=SOME)), "NPU 0", "99 messages", "step 1 of 1"),
        "no token at the start": (everybody(exchange(shift(1), 8, pieces=SOME), starts=0), "NPU 0", "1 tokens", "step 1 of 1"),
        "each other": (
            in_a_ring(lambda up, down: RankProgram((receive(rank(down), 8, after=0), send(rank(up), 8, after=2, pieces=SOME)))),
            "NPU 0 waits for a message of 8 bytes from NPU",
        ),
    }
)
@pytest.mark.parametrize("units", [4, 32])
def test_a_schedule_that_waits_for_ever_fails_the_run_and_says_for_what(
    inputs: dict[str, Any], tmp_path: Path, given: Callable[[Request], Any], words: Words, symmetry: bool, units: int
) -> None:
    write(tmp_path, network=network(units_count=[units]))
    with pytest.raises(DeadlockError) as caught:
        with_algorithm(inputs, given, symmetry)
    holds(str(caught.value), ["cannot finish", *words])
    holds(str(caught.value), [("mine", "dense")])
    assert caught.value.exit_status == 1


@pytest.mark.parametrize("symmetry", [True, False], ids=["one for all", "every NPU"])
def test_an_algorithm_that_fails_is_named_with_its_error(inputs: dict[str, Any], symmetry: bool) -> None:
    with pytest.raises(PluginError) as caught:
        with_algorithm(inputs, raises(ZeroDivisionError("no luck")), symmetry)
    holds(str(caught.value), ["mine", "ZeroDivisionError", "no luck"])


def test_an_algorithm_that_is_not_what_it_should_be_says_so_once(inputs: dict[str, Any]) -> None:
    with pytest.raises(ScheduleError, match="not today"):
        with_algorithm(inputs, raises(ScheduleError("not today")), True)


# -- Plugins as they are installed -------------------------------------------------------------------------------------

IMPORTS = """
import click
from astra_sim import CollectiveProvider, Provider, hookimpl
from astra_sim.compute import Compute
from astra_sim.schedule import Schedule, exchange, shift


class Free(Compute):
    def duration_ns(self, work):
        return 0


def stuck(request):
    return Schedule.shared(request, [exchange(shift(1), 8, after=99, pieces=["unnamed"])])


@click.command()
def fails():
    raise RuntimeError("no luck")

"""
numbers = itertools.count()


@pytest.fixture
def installed(tmp_path: Path) -> Callable[..., dict[str, str]]:
    """Installs a distribution with a plugin called `mine`; returns the environment in which it is found."""

    def install(source: str, entry: str = "mine = {module}") -> dict[str, str]:
        write(tmp_path)
        number = next(numbers)
        folder = tmp_path / f"installed{number}"
        information = folder / "somebodys_plugin-0.1.dist-info"
        information.mkdir(parents=True)
        (folder / f"somebodys{number}.py").write_text(source)
        (information / "METADATA").write_text("Metadata-Version: 2.1\nName: somebodys-plugin\nVersion: 0.1\n")
        (information / "entry_points.txt").write_text("[astra_sim]\n" + entry.format(module=f"somebodys{number}") + "\n")
        return {"PYTHONPATH": os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])}

    return install


def hook(name: str, *components: str) -> str:
    """The source of a plugin with one hook."""
    return f"{IMPORTS}\n@hookimpl\ndef astra_{name}():\n    return [{', '.join(components)}]\n"


@cases(
    {
        "that cannot be imported": ("import nosuchmodule\n", "ModuleNotFoundError", "nosuchmodule"),
        "with a syntax error": ("def (\n", "SyntaxError"),
        "that raises": ("raise RuntimeError('no luck')\n", "RuntimeError", "no luck"),
        "that wants to stop everything": ("import sys\nsys.exit('no luck')\n", "no luck"),
        "whose hook raises": (
            f"{IMPORTS}\n@hookimpl\ndef astra_computes():\n    raise RuntimeError('no luck')\n",
            "RuntimeError",
            "no luck",
        ),
        "whose hook wants to stop everything": (
            f"{IMPORTS}\nimport sys\n@hookimpl\ndef astra_computes():\n    sys.exit('no luck')\n",
            "no luck",
        ),
        "whose hook takes other arguments": (f"{IMPORTS}\n@hookimpl\ndef astra_computes(size):\n    return []\n", "size"),
    }
)
def test_a_plugin_that_is_broken_is_reported_and_stops_nobody(
    tmp_path: Path, installed: Callable[..., dict[str, str]], given: str, words: Words
) -> None:
    env = installed(given)
    run = command(tmp_path, *FILES, "--json", env=env)
    assert (run.status, run.err) == (0, "")
    assert json.loads(run.out)["finish_ns"] == 24896
    listed = command(tmp_path, "plugins", "--json", env=env)
    assert (listed.status, listed.err) == (0, "")
    (broken,) = json.loads(listed.out)["broken"]
    assert (broken["name"], broken["distribution"]) == ("mine", "somebodys-plugin")
    holds(broken["error"], words)
    holds(command(tmp_path, "plugins", env=env).out, ["broken", "mine", "somebodys-plugin"])
    asked = command(tmp_path, *FILES, "--compute", "plugin:mine", "--json", env=env)
    assert asked.status == 2
    no_answer(asked.out)
    holds(asked.err, ["astra: error", "mine", "somebodys-plugin", *words])
    checked = command(tmp_path, "plugins", "check", "mine", env=env)
    assert checked.status == 1
    holds(checked.out, ["FAILED", "mine", *words])


@cases(
    {
        "a module that is not there": ("mine = nosuchmodule", "nosuchmodule"),
        "an object that is not there": ("mine = {module}:nosuchthing", "nosuchthing"),
        "something that is no name": ("mine = not a name!", "mine"),
    }
)
def test_an_entry_point_that_leads_nowhere_is_reported(
    tmp_path: Path, installed: Callable[..., dict[str, str]], given: str, words: Words
) -> None:
    env = installed("", given)
    (broken,) = json.loads(command(tmp_path, "plugins", "--json", env=env).out)["broken"]
    holds(f"{broken['name']}: {broken['error']}", words)
    assert command(tmp_path, *FILES, "--quiet", env=env) == (0, "", "")


def test_a_plugin_that_prints_does_not_spoil_json(tmp_path: Path, installed: Callable[..., dict[str, str]]) -> None:
    env = installed("print('Welcome to my plugin')\n")
    assert json.loads(command(tmp_path, *FILES, "--json", env=env).out)["finish_ns"] == 24896


@cases(
    {
        "that cannot be loaded": ("Provider('mine', 'A command', 'nosuchmodule:command')", "nosuchmodule"),
        "that is no command": ("Provider('mine', 'A command', 'os:getcwd')", "not a click command"),
    }
)
def test_a_broken_command_leaves_help_and_the_others_alone(
    tmp_path: Path, installed: Callable[..., dict[str, str]], given: str, words: Words
) -> None:
    env = installed(hook("commands", given))
    asked = command(tmp_path, "mine", env=env)
    refused(asked, "mine", *words)
    shown = command(tmp_path, "--help", env=env)
    assert (shown.status, shown.err) == (0, "")
    holds(shown.out, ["run", "plugins"])
    assert command(tmp_path, "plugins", "check", "mine", env=env).status == 1


def test_a_command_that_fails_is_one_error(tmp_path: Path, installed: Callable[..., dict[str, str]]) -> None:
    done = command(tmp_path, "mine", env=installed(hook("commands", "Provider('mine', 'A command', fails)")))
    assert done.status == 1
    no_answer(done.out)
    one_error(done.err)
    holds(done.err, ["mine", "RuntimeError", "no luck"])


@pytest.mark.parametrize("entry", ["aaa", "zzz"])
def test_a_name_that_is_already_taken_is_reported_and_takes_nothing_away(
    tmp_path: Path, installed: Callable[..., dict[str, str]], entry: str
) -> None:
    env = installed(hook("computes", "Provider('recorded', 'Everything is free', Free)"), entry + " = {module}")
    broken = json.loads(command(tmp_path, "plugins", "--json", env=env).out)["broken"]
    assert len(broken) == 1
    holds(f"{broken[0]['name']}: {broken[0]['error']}", ["'recorded'", entry, "compute_recorded"])
    done = command(tmp_path, *FILES, "--json", env=env)
    if done.status:
        refused(done, "'recorded'", entry, "compute_recorded")
    else:
        assert json.loads(done.out)["finish_ns"] == 24896


@pytest.mark.parametrize("summary", ["'[/red] text'", "3", "None"])
def test_a_summary_of_whatever_kind_does_not_break_the_list(tmp_path: Path, installed: Callable[..., dict[str, str]], summary: str) -> None:
    env = installed(hook("computes", f"Provider('mine', {summary}, Free)"))
    for arguments in (["plugins"], ["plugins", "--json"], ["plugins", "show", "recorded"]):
        done = command(tmp_path, *arguments, env=env)
        assert (done.status, done.err) == (0, "")
    assert "Traceback" not in command(tmp_path, "plugins", "show", "mine", env=env).err


@pytest.mark.parametrize("symmetry", [[], ["--no-symmetry"]], ids=["one for all", "every NPU"])
def test_a_run_that_cannot_finish_ends_with_status_1(tmp_path: Path, installed: Callable[..., dict[str, str]], symmetry: list[str]) -> None:
    env = installed(hook("collectives", "CollectiveProvider('stuck', 'Waits for ever', stuck)"))
    done = command(tmp_path, *FILES, "--json", "--set", "system.all_reduce=stuck", *symmetry, env=env)
    assert done.status == 1
    no_answer(done.out)
    one_error(done.err)
    holds(done.err, ["cannot finish", "NPU 0", "99 tokens"])


def test_the_command_refuses_in_a_process_of_its_own(tmp_path: Path) -> None:
    write(tmp_path, workload=one_layer(policy="DATUM"))
    refused(command(tmp_path, *FILES, "--json"), "w.txt:1", "'DATUM'", "'DATA'")


# -- Whatever the input ------------------------------------------------------------------------------------------------

CUSTOMISED = "HYBRID_CUSTOMIZED\n2\na -1 5 ALLREDUCE 64 5 NONE 0 5 ALLREDUCE 64 1 DATA\nb -1 5 ALLREDUCE 64 5 NONE 0 5 NONE 0 1 MODEL\n"
GOOD_TEXTS = {
    "workload": (
        WORKLOAD,
        two_layers(f"{RECOMPUTING} checkpoints: 1 0 checkpoint_initiates: 1 1").replace("NONE 0", "ALLREDUCE 64"),
        two_layers("HYBRID_DLRM 1").replace("NONE 0", "ALLTOALL 64"),
        CUSTOMISED,
    ),
    "system": (
        SYSTEM,
        SYSTEM + "intra-dimension-scheduling: FIFO\ninter-dimension-scheduling: roundRobin\nboost-mode: 0\nL: 1.5\n",
        system(all_reduce_implementation="halvingDoubling", all_to_all_implementation="direct2", collective_optimization="baseline"),
        system(all_reduce_implementation="doubleBinaryTree", scheduling_policy="FIFO"),
    ),
    "network": (network(), json.dumps(NETWORK, indent=1), network(topologies_per_dim=["Switch"], hbm_scale=[1])),
}
TEXT_WORDS = ("x", "NONE", "ALLTOALL", "DATA", "ring", "direct3", "null", "{", "]", '"', ":", "FullyConnected", "é", "\u2028", "-")
NUMBER_WORDS = ("-1", "0", "1", "3", "1.5", "-0.0", "1e308", "1e-320", "1e999", "NaN", "Infinity", str(10**17), str(10**30), "0x10", "1_0")


class Change(NamedTuple):
    """A way to spoil a text: what is done, at which share of its length, and with what."""

    kind: str
    place: float
    word: str


@st.composite
def changes(draw: st.DrawFn) -> list[Change]:
    kinds = ("number", "number", "number", "word", "drop", "repeat", "swap", "flip", "cut", "zero", "crlf", "mark")
    found = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(kinds))
        word = draw(st.sampled_from(NUMBER_WORDS if kind == "number" else TEXT_WORDS))
        found.append(Change(kind, draw(st.floats(0, 1, exclude_max=True)), word))
    return found


def spoil(text: str, change: Change) -> str:
    """A text with one change. Characters stand for bytes here."""
    words = re.findall(r"\s+|\"[^\"]*\"|[\[\]{},]|[^\s\[\]{},\"]+|\"", text)
    numbers = [index for index, word in enumerate(words) if re.fullmatch(r"-?[0-9.]+", word)]
    visible = [index for index, word in enumerate(words) if not word.isspace()]
    if not text or not visible:
        return change.word
    position = int(change.place * len(text))
    index = visible[int(change.place * len(visible))]
    match change.kind:
        case "cut":
            return text[:position]
        case "drop":
            return "".join(words[:index] + words[index + 1 :])
        case "repeat":
            return "".join([*words[: index + 1], " ", *words[index:]])
        case "word":
            return "".join([*words[:index], change.word, *words[index + 1 :]])
        case "number" if numbers:
            index = numbers[int(change.place * len(numbers))]
            return "".join([*words[:index], change.word, *words[index + 1 :]])
        case "swap":
            other = visible[-1 - int(change.place * len(visible))]
            words[index], words[other] = words[other], words[index]
            return "".join(words)
        case "flip":
            return text[:position] + chr(ord(text[position]) % 256 ^ 1 << position % 8) + text[position + 1 :]
        case "zero":
            return text[:position] + "\0" + text[position:]
        case "crlf":
            return text.replace("\n", "\r\n")
        case "mark":
            return "\xef\xbb\xbf" + text
    return text


@settings(max_examples=3000, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kind=st.sampled_from(sorted(GOOD_TEXTS)), which=st.integers(0, 3), done=changes())
def test_spoilt_files_give_an_answer_or_an_error_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, kind: str, which: int, done: list[Change]
) -> None:
    text = GOOD_TEXTS[kind][which % len(GOOD_TEXTS[kind])]
    for change in done:
        text = spoil(text, change)
    folder = tmp_path_factory.mktemp("spoilt")
    write(folder, **{kind: text.encode("latin-1", errors="replace") if "\xef\xbb\xbf" in text else text})
    try:
        result = astra_sim.simulate(workload=folder / "w.txt", system=folder / "s.txt", network=folder / "n.json")
    except AstraError as error:
        message = str(error)
    else:
        assert isinstance(result, Result)
        finite(result.to_dict())
        return
    assert 0 < len(message) < 4000


def test_every_error_has_an_exit_status() -> None:
    errors = importlib.import_module("astra_sim.errors")
    for error in vars(errors).values():
        if isinstance(error, type) and issubclass(error, AstraError):
            assert error.exit_status == (2 if issubclass(error, InputError) else 1)
