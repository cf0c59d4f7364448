"""Inputs that ask for too much are refused before anything is built, and what can be fast is."""

from __future__ import annotations

import random
import resource
import subprocess
from pathlib import Path

import pytest
from astra_sim import InputError
from astra_sim.platform import Platform
from astra_sim.shapes import Convolution, Gemm, Shape
from astra_sim_compute_systolic import traffic
from astra_sim_compute_systolic.array import Dataflow, Srams, SystolicArray
from astra_sim_compute_systolic.scale_sim_files import read_configuration
from astra_sim_compute_systolic.stalls import simulate_stalls, simulate_without_stalls
from astra_sim_platforms.shortest_paths import shortest_paths
from astra_sim_platforms.topologies import DragonflyOptions, dragonfly
from support import warm

LINK = "&link_bandwidth_gb_per_s=32&link_latency_ns=10"
COLLECTIVE = ("--workload", "plugin:collective?bytes=1000")
PACKET = (*COLLECTIVE, "--network", "plugin:packet")
RING = f"plugin:ring?size=4&links=2{LINK}"
CASES = {
    "a torus of two thousand million NPUs": (
        (*PACKET, "--platform", f"plugin:torus?sizes=1000000000,2{LINK}"),
        "the platform has 2000000000 NPUs; expected at most 262144 where messages wait for each other",
    ),
    "a torus of two million links": (
        (*PACKET, "--platform", f"plugin:torus?sizes=32,32,16,16{LINK}"),
        "the platform has 2097152 links, too many for flits; expected at most 2000000",
    ),
    "many NPUs fully connected": (
        (*PACKET, "--platform", f"plugin:fully_connected?size=100000&links=99999{LINK}"),
        "the platform has 9999900000 links, too many for flits; expected at most 2000000",
    ),
    "traffic on a large torus": (
        ("traffic", "--platform", f"plugin:torus?sizes=1000000000,2{LINK}", "--rate", "0.1"),
        "the platform has 2000000000 NPUs, too many for flits; expected at most 262144",
    ),
    "a Garnet torus of many NPUs": (
        (*COLLECTIVE, "--network", "plugin:packet?preset=garnet", "--platform", "plugin:torus3d?npus=100000000&packages=10000"),
        "100000000 NPUs; expected at most 262144 where messages wait for each other",
    ),
    "a long mesh": ((*COLLECTIVE, "--platform", f"plugin:mesh?sizes=1000000000{LINK}"), "a mesh of 1000000000 NPUs; expected at most 4096"),
    "a large dragonfly": (
        (*COLLECTIVE, "--platform", f"plugin:dragonfly?routers=256&npus=256&global_links=256{LINK}"),
        "a dragonfly of 4295032832 NPUs; expected at most 4096",
    ),
    "many periods": (
        ("traffic", "--platform", RING, "--rate", "0.1", "--periods", "1000000000"),
        "periods is 1000000000; expected a whole number from 1 to 100000",
    ),
    "a rate of many digits": (("traffic", "--platform", RING, "--rate", "1" * 50_000 + "x"), "--rate 111"),
}


LIMITS = {"RLIMIT_CPU": 15, "RLIMIT_AS": 1 << 30}
"""Seconds and bytes that a command may take."""


def limited(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command with little time and memory."""

    def set_limits() -> None:
        for name, most in LIMITS.items():
            resource.setrlimit(getattr(resource, name), (most, most))

    command = [warm.astra(), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, preexec_fn=set_limits)


def refused(folder: Path, *arguments: str) -> str:
    """What the command says, in little time and memory, of an input that is wrong."""
    done = limited(folder, *arguments)
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.splitlines()) == 1
    return done.stderr


def test_commands_here_have_the_limits(tmp_path: Path) -> None:
    names = ", ".join(f"resource.getrlimit(resource.{name})" for name in LIMITS)
    (tmp_path / "tell.py").write_text(f"import resource\nraise RuntimeError(repr([{names}]))\n")
    said = limited(tmp_path, "-p", "tell.py", "plugins").stderr
    assert repr([(most, most) for most in LIMITS.values()]) in said


@pytest.mark.parametrize(("arguments", "words"), CASES.values(), ids=CASES)
def test_a_limit_is_named_at_once(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    assert words in refused(tmp_path, *arguments)


# -- YAML --------------------------------------------------------------------------------------------------------------

NETWORK = "topology: [Ring]\nnpus_count: [4]\nbandwidth: [50]\nlatency: [500]\n"


def doubled(first: str, following: str, levels: int) -> str:
    """Values each of which holds the one before several times."""
    return NETWORK + first + "".join(following.format(after=level, before=level - 1) for level in range(1, levels))


YAML = {
    "aliases": (
        doubled("a0: &a0 [x,x,x,x]\n", "a{after}: &a{after} [*a{before},*a{before},*a{before},*a{before}]\n", 12),
        "values, aliases",
    ),
    "merge keys": (doubled("a0: &a0 {x: 1}\n", "a{after}: &a{after} {{<<: [*a{before},*a{before},*a{before}]}}\n", 15), "values, aliases"),
    "a value in itself": ("topology: &a [*a]\n", ":1: a value that contains itself"),
    "a long number": (
        "topology: [Ring]\nnpus_count: [" + "1:" * 100_000 + "1]\n",
        ":2: a value of 200001 characters; expected at most 1000",
    ),
    "a long file": (NETWORK + "# comment\n" * 200_000, "2000064 characters are too many for a network file; expected at most 1048576"),
    "many keys": ("topology: [Ring]\n" + "".join(f"k{n}: 1\n" for n in range(6000)), "12004 values, aliases written out, are too many"),
}


@pytest.mark.parametrize(("text", "words"), YAML.values(), ids=YAML)
def test_a_small_file_of_yaml_does_not_become_large(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "n.yml").write_text(text)
    result = refused(tmp_path, *COLLECTIVE, "--network", "n.yml")
    assert "n.yml" in result
    assert words in result
    assert len(result) < 300


def test_aliases_have_their_use(tmp_path: Path) -> None:
    (tmp_path / "n.yml").write_text("topology: [Ring, Ring]\nnpus_count: &n [4, 4]\nbandwidth: [50, 50]\nlatency: *n\n")
    command = [warm.astra(), *COLLECTIVE, "--network", "n.yml", "--json"]
    assert '"npus": 16' in subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout


# -- SCALE-Sim's configurations ----------------------------------------------------------------------------------------

CFG = """[general]
run_name = a  b
[architecture_presets]
ArrayHeight : 8
ArrayWidth =  4
IfmapSramSzkB: 4
FilterSramSzkB: 4
OfmapSramSzkB: 4
Bandwidth: 10
Dataflow: os
[run_presets]
InterfaceBandwidth: CALC
"""


@pytest.mark.parametrize("line", ["a{}b", "ArrayHeight{}", "{}b", "a\t{}\tb"])
def test_blanks_in_a_configuration_take_no_time(tmp_path: Path, line: str) -> None:
    (tmp_path / "c.cfg").write_text("[architecture_presets]\n" + line.format(" " * 500_000) + "\n")
    (tmp_path / "t.csv").write_text("Layer, M, N, K,\none, 1, 1, 1,\n")
    assert "c.cfg" in refused(tmp_path, "systolic", "--config", "c.cfg", "--topology", "t.csv", "--gemm")


def test_blanks_around_keys_and_values_mean_nothing() -> None:
    read = read_configuration(CFG.replace("ArrayHeight :", "ArrayHeight \t  :   "), "c.cfg")
    assert (read.name, read.array) == ("a  b", SystolicArray(8, 4, Dataflow.OUTPUT_STATIONARY))


# -- Systolic arrays ---------------------------------------------------------------------------------------------------

SRAMS = Srams(6 << 20, 6 << 20, 2 << 20)
LARGE = {
    "a long fold": (128, "ws", Gemm(m=10_000_000, n=128, k=128), 10, "takes 10000382 cycles; expected at most 8388608"),
    "many folds": (8, "os", Gemm(m=10_000_000, n=128, k=128), 10, "20000000 folds of 142 cycles; expected at most 1048576"),
    "many long folds": (8, "ws", Gemm(m=8_000_000, n=512, k=512), 10, "4096 folds of 8000022 cycles; expected at most 536"),
    "a last tile of which much is missing": (128, "ws", Gemm(m=1_000_000, n=128, k=1), 10, "127000000 elements are missing"),
    "a large operand": (128, "ws", Gemm(m=1_000_000, n=128, k=256), None, "256000000 elements is too large"),
    "an operand that is demanded often": (128, "os", Gemm(m=16_384, n=16_384, k=4096), None, "elements demanded over all folds"),
}


@pytest.mark.parametrize(("side", "dataflow", "shape", "bandwidth", "words"), LARGE.values(), ids=LARGE)
def test_a_layer_that_is_too_large_is_refused(side: int, dataflow: str, shape: Gemm, bandwidth: int | None, words: str) -> None:
    array = SystolicArray(side, side, Dataflow(dataflow))
    srams = Srams(1 << 16, 1 << 16, 1 << 16)
    with pytest.raises(InputError, match=words):
        simulate_without_stalls(array, shape, srams) if bandwidth is None else simulate_stalls(array, shape, srams, bandwidth)


@pytest.mark.parametrize("seed", range(60))
def test_blocks_do_not_change_what_is_fetched(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(seed)
    array = SystolicArray(draw.randint(1, 12), draw.randint(1, 12), draw.choice(list(Dataflow)))
    side = draw.randint(1, 4)
    convolution = Convolution(
        input_height=draw.randint(side, 12), input_width=draw.randint(side, 12), filter_height=side, filter_width=side,
        channels=draw.randint(1, 4), filters=draw.randint(1, 9), stride=draw.randint(1, side),
    )  # fmt: skip
    shapes: list[Shape] = [convolution, Gemm(m=draw.randint(1, 60), n=draw.randint(1, 60), k=draw.randint(1, 60))]
    shape = draw.choice(shapes)
    sizes = draw.randint(100, 1000), draw.randint(100, 1000)
    at_once = traffic.operand_traffic(array, shape, *sizes)
    monkeypatch.setattr(traffic, "_BLOCK", 40)
    assert traffic.operand_traffic(array, shape, *sizes) == at_once


# -- Ways through graphs -----------------------------------------------------------------------------------------------


def searched(nodes: int, destinations: int, ends: list[tuple[int, int]], costs: list[int]) -> tuple[list[int], list[int]] | None:
    """Links and distances by definition; None where there is no way."""
    far = sum(costs) + 1
    distance = [[0 if a == b else far for b in range(destinations)] for a in range(nodes)]
    for _ in range(nodes):
        for (source, target), cost in zip(ends, costs, strict=True):
            for b in range(destinations):
                distance[source][b] = min(distance[source][b], distance[target][b] + cost)
    if any(distance[a][b] >= far for a in range(destinations) for b in range(destinations)):
        return None
    links = []
    for a in range(nodes):
        for b in range(destinations):
            ways = [(t, n) for n, (s, t) in enumerate(ends) if s == a and distance[t][b] + costs[n] == distance[a][b] < far and a != b]
            links.append(min(ways)[1] if ways else -1)
    return links, [-1 if d >= far else d for row in distance for d in row]


@pytest.mark.parametrize("largest", [1, 3])
@pytest.mark.parametrize("seed", range(100))
def test_ways_are_the_shortest_and_lead_over_the_lowest_numbers(seed: int, largest: int) -> None:
    draw = random.Random(seed)
    nodes = draw.randint(2, 9)
    destinations = draw.randint(1, nodes)
    ends = draw.sample([(a, b) for a in range(nodes) for b in range(nodes) if a != b], draw.randint(1, nodes * (nodes - 1)))
    costs = [draw.randint(1, largest) for _ in ends]
    right = searched(nodes, destinations, ends, costs)
    if right is None:
        with pytest.raises(InputError, match="there is no route from NPU"):
            shortest_paths(nodes, destinations, ends, "graph", costs=costs)
    else:
        assert shortest_paths(nodes, destinations, ends, "graph", costs=costs) == right


def test_only_distances_that_are_asked_for_are_searched() -> None:
    (dimension,) = dragonfly(DragonflyOptions(routers=37, link_bandwidth_gb_per_s=32.0))
    platform = Platform((dimension,))
    assert [platform.route(0, npu).hops for npu in (1, 36, 37, 1405)] == [dimension.topology.hops(0, npu) for npu in (1, 36, 37, 1405)]
    assert list(dimension.topology._rows) == [0]  # type: ignore[attr-defined]
