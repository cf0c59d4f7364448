"""What the command line and errors say: of every input, on every stream, and where a run cannot finish."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim import AstraError, InputError, PluginError, Provider, RunError, hookimpl
from astra_sim._boundary import MAX_PICOSECONDS, picoseconds
from astra_sim.errors import DeadlockError, in_figures, printable, warn
from astra_sim.graph import Compute, ExecutionGraph, NpuProgram, Send
from astra_sim.network import EventNetwork, advance
from astra_sim.platform import LogicalDimension
from astra_sim.schedule import rank
from astra_sim.setup.plugins import Plugins
from support import warm
from support.components import components_of

RING = "plugin:ring?size=2&links=2&link_bandwidth_gb_per_s=1&link_latency_ns=100"


@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_a_send_that_waits_for_its_unit_is_not_said_to_wait_for_a_receive(engine: str) -> None:
    """Under the rendezvous protocol a send waits for its receive; the next one waits for the communication of its NPU to be free."""
    sends = (Send((), rank(1), 64, 1, name="first"), Send((), rank(1), 64, 2, name="second"))
    others = (NpuProgram((Compute((), 1000),), (1,)),)
    graph = ExecutionGraph(sends, (LogicalDimension(2, 1, 0),), (), None, others)
    with pytest.raises(DeadlockError) as caught:
        astra_sim.simulate(workload=graph, platform=RING, system="plugin:astra2", rendezvous=True, engine=engine)
    first, second = caught.value.waiting
    assert first == "NPU 0: operation 0 (send of 64 bytes, 'first') waits for a receive of NPU 1 with tag 1"
    assert second == "NPU 0: operation 1 (send of 64 bytes, 'second') waits for operation 0 (send of 64 bytes, 'first')"


# -- Numbers -----------------------------------------------------------------------------------------------------------

NINES = "9" * 400
RUN: dict[str, Any] = {"workload": "plugin:collective?bytes=4096", "platform": RING}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"set": [f"system.splits={NINES}"]}, "splits: '99999999999999999999'... has 400 digits; expected at most 300"),
        ({"set": [f"system.endpoint_delay_ns={NINES}.5"]}, "has 402 digits"),
        ({"passes": 10**400}, "run: passes: 10^400 is out of range; expected numbers from 1e-12 to below 2^62"),
        ({"compute_scale": -(10**400)}, "compute_scale: -10^400 is out of range"),
        ({"workload": {"plugin": "collective", "bytes": 10**5000}}, "bytes: 10^5000 is out of range"),
    ],
)
def test_a_number_of_many_digits_is_said_to_be_one(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        astra_sim.simulate(**{**RUN, **arguments})


FILES = {
    "workload.toml": 'loop = "data"\n[[layers]]\nname = "conv"\nforward = {{ compute_ns = {} }}\n',
    "platform.toml": '[[dimensions]]\ntopology = "ring"\nsize = {}\nlinks = 2\nlink_bandwidth_gb_per_s = 1\n',
    "network.yml": "topology: [ Ring ]\nnpus_count: [ 4 ]\nbandwidth: [ {} ]\nlatency: [ 500.0 ]\n",
    "system.txt": "scheduling-policy: LIFO\nendpoint-delay: 10\npreferred-dataset-splits: 4\nL: {}\n",
    "memory.json": '{{"memory-type": "NO_MEMORY_EXPANSION", "remote-mem-latency": {}}}',
}


@pytest.mark.parametrize("digits", [40, 400, 5000])
@pytest.mark.parametrize("name", FILES)
def test_a_number_of_many_digits_in_a_file_is_refused_in_words(tmp_path: Path, name: str, digits: int) -> None:
    (tmp_path / name).write_text(FILES[name].format("9" * digits))
    run: dict[str, Any] = {**RUN, name.partition(".")[0]: tmp_path / name}
    if name == "network.yml":  # it brings its platform
        del run["platform"]
    with pytest.raises(InputError) as caught:
        astra_sim.simulate(**run)
    assert not re.search("Overflow|too large to|int_max_str|failed", str(caught.value))
    assert name in str(caught.value)


@pytest.mark.parametrize(
    ("number", "text"), [(12, "12"), (10**15, "1e+15"), (1.5, "1.5"), (-(10**309), "-10^309"), (10**400, "10^400"), (math.inf, "inf")]
)
def test_numbers_have_few_figures_in_messages(number: float, text: str) -> None:
    assert in_figures(number) == text


@pytest.mark.parametrize("time", [MAX_PICOSECONDS + 1, 1e30, math.inf, 10**400])
def test_a_time_that_is_too_long_is_said_with_the_limit_in_seconds(time: float) -> None:
    with pytest.raises(InputError, match=r"^the delay is \S+ s; at most 9223372\.036854775807 s \(106\.75 days\) can be simulated$"):
        picoseconds(time, "the delay")


@pytest.mark.parametrize("time", [-1, math.nan, "1", None, True, -(10**400)])
def test_what_is_no_time_is_refused(time: Any) -> None:
    with pytest.raises(PluginError, match="expected a time of at least 0"):
        picoseconds(time, "the delay")


@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_a_run_that_is_too_long_says_the_limit_in_seconds(engine: str) -> None:
    graph = ExecutionGraph((Compute((), 2**62), Compute((0,), 2**62)), (LogicalDimension(2, 1, 0),), ())
    with pytest.raises(RunError, match=r"longer than can be simulated, 9223372\.036854775807 s \(106\.75 days\)"):
        astra_sim.simulate(workload=graph, platform=RING, engine=engine)


# -- Results of networks -----------------------------------------------------------------------------------------------


class Nothing(EventNetwork):
    """Says for ever that no message arrives now."""

    _time = 0

    def inject(self, time: int, messages: Any) -> None:
        self._time = time

    def advance(self, until: int | None) -> tuple[int, list[int]] | None:
        return self._time, []


@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_a_network_that_delivers_nothing_for_ever_is_refused(engine: str) -> None:
    plugins = Plugins()
    hook = staticmethod(hookimpl(lambda: [Provider("nothing", "-", Nothing)], specname="astra_networks"))
    plugins.register(type("Mine", (), {"astra_networks": hook})(), "mine")
    with pytest.raises(
        PluginError,
        match=r"network Nothing: advance returned \(\d+, \[\]\); expected None, or a time and the numbers of at least one message",
    ):
        astra_sim.simulate(**RUN, network="plugin:nothing", plugins=plugins, engine=engine)


def test_advance_of_one_message_is_taken() -> None:
    network = Nothing(components_of(**RUN).platform)
    network.advance = lambda until: (7, [1])  # type: ignore[method-assign]
    assert advance(network, 5, None) == (7, [1], ())


def test_a_mesh_with_a_dimension_of_one_has_congestion_too() -> None:
    mesh = "plugin:mesh?sizes={}&link_bandwidth_gb_per_s=1&link_latency_ns=10"
    network = "plugin:analytical?congestion=aware"
    for engine in ("python", "compiled"):
        one, without = (
            astra_sim.simulate(workload=RUN["workload"], platform=mesh.format(sizes), network=network, engine=engine)
            for sizes in ("2,1,2", "2,2")
        )
        assert one.finish_ns == without.finish_ns


# -- Control characters ------------------------------------------------------------------------------------------------

RED = "\x1b[31mred\x07\x9b\u202e"
ESCAPED = r"\x1b[31mred\x07\x9b\u202e"


def test_control_characters_of_an_input_are_escaped() -> None:
    assert printable("a\nb c\u00a0d \u00e9 \u65e5") == "a\nb c\u00a0d \u00e9 \u65e5"
    assert printable(RED) == ESCAPED
    assert str(AstraError(RED)) == ESCAPED
    assert DeadlockError("stuck", [RED]).waiting == [ESCAPED]
    with pytest.warns(match=re.escape(ESCAPED)):
        warn(RED)
    with pytest.raises(InputError, match=re.escape(f"there is no platform plugin '{ESCAPED}")) as caught:
        astra_sim.simulate(workload=RUN["workload"], platform=f"plugin:{RED}")
    assert str(caught.value).count("plugin:") == 1
    assert len(str(AstraError("\u2028" * 5000))) < 1300


def test_names_of_an_input_do_not_command_the_terminal() -> None:
    done = astra(*ARGUMENTS, "--run-name", RED)
    assert "\x1b[31m" not in done.stdout
    assert ESCAPED in done.stdout


# -- The command -------------------------------------------------------------------------------------------------------

ARGUMENTS = tuple(word for kind, value in RUN.items() for word in (f"--{kind}", value))


def astra(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([warm.astra(), *arguments], capture_output=True, text=True, timeout=60, check=False)


def astra_in_a_new_python(*arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run the command where streams, imports, or what Python does as it ends matter."""
    options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "timeout": 60, **more}
    return subprocess.run([sys.executable, "-m", "astra_sim", *arguments], check=False, **options)


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("--workload", "plugin:nosuch", "--platform", RING), 2, "there is no workload plugin 'nosuch'"),
        (("nosuch.toml",), 2, "No such file"),
        (("run", "--nosuch"), 2, "No such option '--nosuch'"),
        (("run", *ARGUMENTS, "--passes", "x"), 2, "'x' is not a valid integer"),
        (("compare", "nosuch.toml"), 2, "No such file"),
        (("plugins", "show", "nosuch"), 2, "there is no component 'nosuch'"),
        (("traffic", "--platform", RING, "--rate", "0.1", "--seed", "-1"), 2, "seed is -1; expected a whole number from 0 to 2^63 - 1"),
        ((*ARGUMENTS, "--output", "/dev/null/reports"), 1, "cannot write /dev/null/reports: Not a directory"),
        (("--set", f"system.x={RED}", *ARGUMENTS), 2, "unknown key 'x'"),
    ],
)
def test_errors_are_json_too(arguments: tuple[str, ...], status: int, message: str) -> None:
    done = astra(*arguments, "--json")
    assert done.returncode == status
    table = json.loads(done.stdout)
    assert set(table) == {"error"}
    assert message in table["error"]
    assert table["error"] in done.stderr
    assert "Traceback" not in done.stderr


def test_without_json_errors_are_on_standard_error_alone() -> None:
    done = astra("nosuch.toml")
    assert (done.returncode, done.stdout) == (2, "")


def closing(*streams: int) -> Callable[[], None]:
    """Closes streams in the new process, before it runs."""

    def close() -> None:
        for stream in streams:
            os.close(stream)

    return close


@pytest.mark.parametrize("streams", [(1,), (2,), (0, 1, 2), (1, 2)])
@pytest.mark.parametrize("arguments", [(*ARGUMENTS, "--json"), ARGUMENTS, ("plugins",), ("--help",)])
def test_a_closed_stream_is_nobody_who_reads(arguments: tuple[str, ...], streams: tuple[int, ...]) -> None:
    done = astra_in_a_new_python(*arguments, preexec_fn=closing(*streams))
    assert (done.returncode, done.stderr) == (0, "")
    assert (done.stdout == "") is (1 in streams)


def test_reports_are_whole_where_standard_output_is_closed(tmp_path: Path) -> None:
    """A file must not get the number of the closed stream, and with it what is printed."""
    done = astra_in_a_new_python(*ARGUMENTS, "--output", str(tmp_path), preexec_fn=closing(0, 1, 2))
    assert done.returncode == 0
    assert json.loads((tmp_path / "result.json").read_text())["npus"] == 2


@pytest.mark.parametrize("arguments", [("nosuch.toml",), ("run", "--nosuch"), (*ARGUMENTS, "--json"), ("--help",)])
def test_a_reader_that_is_gone_is_no_traceback(arguments: tuple[str, ...]) -> None:
    ends = os.pipe()
    os.close(ends[0])
    try:
        gone = astra_in_a_new_python(*arguments, stdout=ends[1])
        both = astra_in_a_new_python(*arguments, stdout=ends[1], stderr=ends[1])
    finally:
        os.close(ends[1])
    assert gone.returncode == both.returncode == (2 if any("nosuch" in word for word in arguments) else 1)
    assert "Traceback" not in gone.stderr
    assert "Exception ignored" not in gone.stderr


INTERRUPTING = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
"""


@pytest.mark.parametrize(
    "name", ["click", "astra_sim.command.cli", "astra_sim._boundary", "pluggy", "astra_sim.api", "astra_sim_collectives.plugin"]
)
def test_an_interrupt_while_python_imports_is_one_line(tmp_path: Path, name: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTING.format(name=name))
    done = astra_in_a_new_python(*ARGUMENTS, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert (done.returncode, done.stdout, done.stderr.lstrip("\n")) == (130, "", "astra: interrupted\n")


def test_a_plugin_that_cannot_be_imported_shows_its_own_frames_alone(tmp_path: Path) -> None:
    information = tmp_path / "somebodys-0.1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: somebodys\nVersion: 0.1\n")
    (information / "entry_points.txt").write_text("[astra_sim]\nbroken = outer\n")
    (tmp_path / "outer.py").write_text("import inner\n")
    (tmp_path / "inner.py").write_text("import nosuchmodule\n")
    done = astra_in_a_new_python("--workload", "plugin:broken", "--platform", RING, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert done.returncode == 2
    assert "No module named 'nosuchmodule'" in done.stderr
    assert "inner.py" in done.stderr
    assert "importlib" not in done.stderr
    assert "plugins.py" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("x.dot",), "x.dot: TARGET is missing; expected a name with an extension that names the format (.et)"),
        (("x.dot", "y.dot"), "y.dot: the format is not clear from the name; expected an extension (.et) or --to chakra"),
        (("x.toml",), "x.toml: TARGET is missing; expected a name with an extension that names the format (.txt, .toml, .json, .et)"),
    ],
)
def test_convert_says_what_it_can_write(arguments: tuple[str, ...], message: str) -> None:
    assert astra("convert", *arguments).stderr == f"astra: error: {message}\n"
