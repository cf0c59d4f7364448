"""Collectives designed for a fabric: proofs, bounds, gaps, and the command."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim.command import cli
from astra_sim.errors import InputError
from astra_sim.testing import check_schedule
from astra_sim_synthesis import synthesize
from astra_sim_synthesis.buckets import Torus, orders_of_parts
from astra_sim_synthesis.msccl_file import msccl_xml
from astra_sim_synthesis.mscclpp_file import mscclpp_json
from click.testing import CliRunner

LINK = "link_bandwidth_gb_per_s=50&link_latency_ns=500"
RING, TORUS, SWITCH = f"plugin:ring?size=8&links=2&{LINK}", f"plugin:torus?sizes=4,4&{LINK}", f"plugin:switch?size=16&{LINK}"
RAILS = "plugin:rail_optimized?servers=2&npus_per_server=4"


def printed(*arguments: str) -> str:
    return CliRunner().invoke(cli.astra, ["synthesize", *arguments], catch_exceptions=False, standalone_mode=False).stdout


@pytest.mark.parametrize("collective", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"])
@pytest.mark.parametrize("platform", [RING, TORUS, SWITCH, RAILS])
def test_large_plans_are_near_the_bound_and_proved(platform: str, collective: str) -> None:
    plan = synthesize(platform, collective, 64 << 20)
    check_schedule(plan.designed, plan.request)
    assert plan.bound.time_ns <= plan.time_ns <= plan.auto_ns
    assert plan.gap is not None
    assert plan.gap == pytest.approx(plan.time_ns / plan.bound.time_ns - 1)
    assert plan.gap < (0.15 if platform == RAILS and collective == "all_to_all" else 0.05)


@pytest.mark.parametrize("platform", ["ring?size=16&links=2", "torus?sizes=4,4"])
def test_an_all_to_all_over_neighbours_uses_both_ways_round(platform: str) -> None:
    """Straight messages to the opposite rank of a ring go the same way round, which leaves links idle."""
    plan = synthesize(f"plugin:{platform}&{LINK}", "all_to_all", 64 << 20)
    assert plan.method.startswith("exchanges over neighbours" if platform.startswith("ring") else "exchanges dimension by dimension")
    assert plan.gap is not None
    assert plan.gap < 0.025
    assert plan.auto_ns > 1.1 * plan.time_ns


@pytest.mark.parametrize("collective", ["all_gather", "reduce_scatter", "all_reduce"])
def test_large_tori_have_plans_of_buckets(collective: str) -> None:
    """Beyond the ranks for which trees are packed: 13 x 13 NPUs, all links at once; latency is what is left."""
    plan = synthesize(f"plugin:torus?sizes=13,13&{LINK}", collective, 1 << 30)
    assert plan.method == "buckets in all dimensions at once"
    assert plan.gap is not None
    assert plan.gap < 0.01


@pytest.mark.parametrize(
    ("sizes", "bandwidths"), [((4, 4), (1.0, 1.0)), ((8, 4), (1.0, 1.0)), ((4, 4, 8), (2.0, 1.0, 1.0)), ((3, 5), (1.0, 4.0))]
)
def test_parts_share_the_links_of_all_dimensions(sizes: tuple[int, ...], bandwidths: tuple[float, ...]) -> None:
    """By hand: an order loads a dimension by (its size - 1) times the sizes before it; at best all links are busy all the time."""
    strides = tuple(math.prod(sizes[:place]) for place in range(len(sizes)))
    orders = orders_of_parts(Torus(sizes, strides, bandwidths), 8)
    assert orders is not None
    loads = [0.0] * len(sizes)
    for order in orders:
        before = 1
        for dimension in order:
            loads[dimension] += (sizes[dimension] - 1) * before / bandwidths[dimension] / len(orders)
            before *= sizes[dimension]
    least = (math.prod(sizes) - 1) / sum(bandwidths)
    assert max(loads) >= least * (1 - 1e-9)
    assert max(loads) < 1.1 * least


def test_a_torus_has_twice_the_links_that_auto_uses_at_a_time() -> None:
    plan = synthesize(TORUS, "all_reduce", 64 << 20)
    assert plan.auto_ns > 1.9 * plan.time_ns


def test_a_run_takes_what_the_plan_says() -> None:
    plan = synthesize(TORUS, "all_reduce", 1 << 20)
    run = astra_sim.simulate(
        workload="plugin:collective?collective=all_reduce&bytes=1MiB",
        platform=TORUS,
        network="plugin:analytical?congestion=aware&switching=cut_through",
        system="plugin:astra1?all_reduce=synthesized&endpoint_delay_ns=0",
    )
    assert run.finish_ns == pytest.approx(plan.time_ns, rel=0.02)


def test_the_file_is_read_by_msccl(tmp_path: Path) -> None:
    path = tmp_path / "plan.xml"
    results = json.loads(printed("--platform", RING, "--bytes", "1MiB", "--output", str(path), "--json"))
    run: dict[str, Any] = {
        "workload": "plugin:collective?collective=all_reduce&bytes=1MiB",
        "platform": RING,
        "network": "plugin:analytical?congestion=aware&switching=cut_through",
    }
    result = astra_sim.simulate(**run, system=f"plugin:astra1?all_reduce=msccl?file={path}")
    assert result.finish_ns >= results["plans"][0]["bound_ns"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--platform", RING, "--bytes", "0"], "expected at least 1 byte"),
        (["--platform", "plugin:rings", "--bytes", "1MiB"], "rings"),
    ],
)
def test_what_is_wrong_is_named(arguments: list[str], words: str) -> None:
    with pytest.raises(InputError, match=words):
        printed(*arguments)


LINKS = {"link_bandwidth_gb_per_s": 50, "link_latency_ns": 500}


@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"])
def test_files_of_both_formats_do_what_the_plan_does(kind: str, tmp_path: Path) -> None:
    """On a platform of two dimensions, over all NPUs; the plan of MSCCL++ has a signal for each message."""
    platform = {"dimensions": [{**LINKS, "topology": "mesh", "sizes": [3]}, {**LINKS, "topology": "ring", "size": 2, "links": 2}]}
    run: dict[str, Any] = {
        "workload": f"plugin:collective?collective={kind}&bytes=60000",
        "platform": platform,
        "network": "plugin:analytical?congestion=aware&switching=cut_through",
    }
    plan = synthesize(platform, kind, 60000)
    finishes, messages = [], []
    for name, write in (("msccl", msccl_xml), ("mscclpp", mscclpp_json)):
        path = tmp_path / f"plan.{name}"
        path.write_text(write(plan.designed, plan.request, "plan"))
        result = astra_sim.simulate(**run, system={"plugin": "astra1", kind: f"one_{name}?file={path}", "endpoint_delay_ns": 0})
        finishes.append(result.finish_ns)
        messages.append(result.messages)
    assert finishes[1] == pytest.approx(finishes[0], rel=0.002)
    assert messages[1] == 2 * messages[0]


def total_ns(platform: str, all_reduce: str | list[str], workload: dict[str, Any] | None = None) -> float:
    """The time of a run whose all-reduces have that algorithm."""
    run = astra_sim.simulate(
        workload=workload or {"plugin": "collective", "collective": "all_reduce", "bytes": 1 << 20},
        platform=platform,
        network="plugin:analytical?congestion=aware&switching=cut_through",
        system={"plugin": "astra2", "all_reduce": all_reduce},
    )
    return run.finish_ns


@pytest.mark.parametrize("platform", [TORUS, RAILS])
def test_auto_designs_collectives_over_all_npus_when_asked(platform: str) -> None:
    designed = total_ns(platform, "auto?synthesize=true")
    assert designed == total_ns(platform, "synthesized") < total_ns(platform, "auto")
    assert total_ns(platform, "auto?synthesize=false") == total_ns(platform, "auto")


def test_auto_with_synthesis_leaves_collectives_of_some_npus_to_auto(tmp_path: Path) -> None:
    """`synthesized` alone refuses them."""
    layer = "-1 5 ALLREDUCE 65536 5 NONE 0 5 NONE 0 5"
    (tmp_path / "of_some.txt").write_text(f"HYBRID_MODEL_DATA\n1\nlayer {layer}\n")
    of_some = {"plugin": "layers", "file": str(tmp_path / "of_some.txt")}
    assert total_ns(TORUS, "auto?synthesize=true", of_some) == total_ns(TORUS, "auto", of_some)


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ("auto?synthesize=maybe", "synthesize"),
        ("auto?other=1", "other"),
        ("auto?", r"expected auto, or auto\?synthesize=true"),
        (["auto?synthesize=true", "auto"], "for the whole platform"),
    ],
)
def test_options_of_auto_are_checked(chosen: str | list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        total_ns(TORUS, chosen)


def test_a_plan_goes_around_a_link_that_is_down() -> None:
    """`auto` keeps its rings, whose messages then share the links of the way round."""
    torus = f"plugin:torus?sizes=3,3&{LINK}&without.links=0:1"
    plan = synthesize(torus, "all_reduce", 16 << 20)
    check_schedule(plan.designed, plan.request)
    assert plan.gap is not None
    assert plan.gap < 0.05
    assert plan.auto_ns > 1.5 * plan.time_ns
