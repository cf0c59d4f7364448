"""The network `auto`: parts of a run on another network, and the bound of the error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest
from astra_sim import InputError, Result, RunError, simulate
from astra_sim.command.cli import astra
from astra_sim.graph import Communicate, Composite, Compute, ExecutionGraph, MemoryAccess, Operation, Pass, Wait
from astra_sim.platform import LogicalDimension
from astra_sim.schedule import Collective
from click.testing import CliRunner

pytest.importorskip("astra_sim_network_auto")

from astra_sim_network_auto.slices import slices_of

RING = "plugin:ring?size=8&links=2&link_bandwidth_gb_per_s=50&link_latency_ns=500"
MESH = "plugin:mesh?sizes=3,3&link_bandwidth_gb_per_s=50&link_latency_ns=500"
AWARE = "analytical?congestion=aware"


def layers(size: int, count: int = 3, loop: str = "data") -> dict[str, Any]:
    """Layers whose gradients are reduced while others are computed."""
    gradient = {"compute_ns": 20000, "collective": "all_reduce", "collective_bytes": size}
    one = {"forward": {"compute_ns": 10000}, "input_gradient": {"compute_ns": 10000}, "weight_gradient": gradient}
    return {"plugin": "layers", "loop": loop, "layers": [{"name": f"l{number}", **one} for number in range(count)]}


def both(target: str, error: str = "1%", **parts: Any) -> tuple[Result, Result]:
    """A run in parts, and the whole run on its target."""
    in_parts = simulate(network={"plugin": "auto", "target": target, "error": error}, **parts)
    return in_parts, simulate(network=f"plugin:{target}", **parts)


def test_a_slice_ends_where_nothing_is_under_way() -> None:
    reduce = Communicate((0,), Collective.ALL_REDUCE, 64, (0,), 0, Pass.FORWARD)
    operations: list[Operation] = [
        Compute((), 5),
        reduce,
        Compute((0,), 5),
        Wait((2,), (1,), 0, reduce.training_pass),
        Compute((3,), 5),
        Compute((4,), 5),
    ]
    result = [(part.begin, part.end) for part in slices_of(operations)]
    assert result == [(0, 3), (3, 4), (4, 5), (5, 6)]


@pytest.mark.parametrize("platform", [RING, "plugin:switch?size=8&link_bandwidth_gb_per_s=50&link_latency_ns=500"])
@pytest.mark.parametrize("system", ["plugin:astra1", "plugin:astra2"])
def test_a_network_that_forgets_gives_the_whole_run_exactly(platform: str, system: str) -> None:
    in_parts, whole = both(AWARE, workload=layers(1 << 18), platform=platform, system=system, passes=8)
    error = in_parts.figures["network_error"]
    assert in_parts.finish_ns == whole.finish_ns == error["lower_ns"] == error["upper_ns"]
    assert error["proved"]
    assert {part["basis"] for part in error["parts"]} == {"exact"}
    assert error["simulated_bytes"] * 3 < error["run_bytes"]
    assert [layer.weight_gradient for layer in in_parts.layers] == [layer.weight_gradient for layer in whole.layers]


@pytest.mark.parametrize("platform", [RING, MESH])
def test_the_whole_run_on_packets_lies_within_the_bound(platform: str) -> None:
    in_parts, whole = both("packet", "20%", workload=layers(100_000), platform=platform, passes=3)
    error = in_parts.figures["network_error"]
    assert error["lower_ns"] <= whole.finish_ns <= error["upper_ns"]
    assert error["lower_ns"] < error["upper_ns"]
    assert not error["proved"]


def test_a_run_of_one_part_is_the_whole_run() -> None:
    in_parts, whole = both("packet", workload="plugin:collective?collective=all_reduce&bytes=1MiB", platform=MESH)
    assert in_parts.finish_ns == whole.finish_ns
    assert [part["basis"] for part in in_parts.figures["network_error"]["parts"]] == ["whole"]
    assert in_parts.network["payload_bytes"] == whole.network["payload_bytes"]


def test_programs_that_differ_are_simulated_whole() -> None:
    dimension = LogicalDimension(8, 1, 0)
    graph = ExecutionGraph([Compute((), 1000)], (dimension,), ())
    late: dict[str, Any] = {"slow_npus": "3:2"}
    in_parts, whole = both("packet", workload=layers(1 << 16), platform=RING, **late)
    assert in_parts.finish_ns == whole.finish_ns
    assert in_parts.figures["network_error"]["width"] == 0
    assert simulate(workload=graph, platform=RING, network="plugin:auto").finish_ns == 1.0


def test_a_large_collective_is_continued_from_smaller_ones() -> None:
    parts: dict[str, Any] = {
        "workload": layers(1 << 30, 1),
        "platform": "plugin:switch?size=8&link_bandwidth_gb_per_s=50&link_latency_ns=500",
        "passes": 2,
    }
    whole = simulate(network=f"plugin:{AWARE}", **parts)
    network = {"plugin": "auto", "target": AWARE, "part_bytes": 1 << 30}
    continued = simulate(network=network, **parts)
    error = continued.figures["network_error"]
    assert [part["basis"] for part in error["parts"]] == ["continued"]
    assert error["lower_ns"] <= whole.finish_ns <= error["upper_ns"]
    assert error["width"] < 0.01
    assert continued.finish_ns == pytest.approx(whole.finish_ns, rel=1e-3)
    with pytest.raises(RunError, match="the bound of the makespan is an estimate, not proved, for 1 x all_reduce of 1073741824 bytes"):
        simulate(network=network, strict=True, **parts)


def test_strict_takes_what_is_proved_and_narrow() -> None:
    parts: dict[str, Any] = {"workload": layers(1 << 16), "platform": RING, "passes": 2, "strict": True}
    assert simulate(network={"plugin": "auto", "target": AWARE}, **parts).figures["network_error"]["proved"]
    with pytest.raises(RunError, match="is an estimate"):
        simulate(network="plugin:auto", **parts)
    assert simulate(network="plugin:auto?error=0.000001%", **parts).figures["network_error"]["parts"][0]["basis"] == "whole"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("auto?error=none", "error is 'none'; expected a share of the makespan above 0 and below 1, such as 1% or 0.01"),
        ("auto?error=200%", "error is '200%'; expected a share"),
        ("auto?target=analytical", "target is 'analytical', on which messages never wait for each other"),
        ("auto?target=auto", "'auto' is a network that is made of others; expected one that is not"),
        ("auto?target=packets", "there is no network plugin 'packets'; did you mean 'packet'"),
    ],
)
def test_what_cannot_be_is_an_error(spec: str, message: str) -> None:
    with pytest.raises(InputError, match=message.replace("?", r"\?")):
        simulate(workload=layers(64), platform=RING, network=f"plugin:{spec}")


def test_a_price_of_the_graph_takes_its_time_in_no_queue() -> None:
    one = Communicate((), Collective.ALL_REDUCE, 1 << 20, (0,), 0, Pass.FORWARD, priced_ps=5000)
    graph = ExecutionGraph([one, one], (LogicalDimension(8, 1, 0),), ("l",))
    for network in ("plugin:analytical", f"plugin:{AWARE}"):
        assert simulate(workload=graph, platform=RING, network=network).finish_ns == 5.0


def test_composites_and_memory_take_their_times() -> None:
    """A composite has collectives of its own, and what needs the unit of communication waits for collectives."""
    reduce = Communicate((), Collective.ALL_REDUCE, 1 << 16, (0,), 0, Pass.FORWARD)
    for other, basis in ((Composite((0,), [reduce]), "simulated"), (MemoryAccess((), 1 << 16), "whole")):
        graph = ExecutionGraph([reduce, other, attrs.evolve(reduce, after=(1,))], (LogicalDimension(8, 1, 0),), ())
        in_parts, whole = both(AWARE, "70%", workload=graph, platform=RING)
        assert in_parts.finish_ns == whole.finish_ns
        assert basis in {part["basis"] for part in in_parts.figures["network_error"]["parts"]}


def test_a_name_stands_for_a_component_in_a_file_of_another_folder(tmp_path: Path) -> None:
    path = tmp_path / "exp.toml"
    path.write_text(f'workload = "collective?bytes=4096"\nplatform = "{RING}"\nnetwork = "auto?error=2%"\n')
    assert simulate(path).figures["network_error"]["asked"] == 0.02


def test_an_explanation_lists_the_parts() -> None:
    parts: dict[str, Any] = {"workload": layers(1 << 16), "platform": RING, "passes": 2, "explain": "path"}
    explained = simulate(network={"plugin": "auto", "target": AWARE}, **parts)
    assert explained.explanation.to_dict()["network_error"] == explained.figures["network_error"]
    assert "network_error" not in simulate(network="plugin:analytical", **parts).explanation.to_dict()


def test_the_command_prints_the_error() -> None:
    workload = "plugin:collective?collective=all_reduce&bytes=1MiB"
    arguments = ["run", "--workload", workload, "--platform", RING, "--network", "auto?error=1%"]
    printed = CliRunner().invoke(astra, arguments, catch_exceptions=False).output
    assert "network error" in printed
    assert "+0.00% to +0.00% of the whole run on packet, proved" in printed
