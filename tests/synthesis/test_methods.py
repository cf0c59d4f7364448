"""Ways to make a plan, each by itself: matchings in time, programs of rounds, and exchanges dimension by dimension."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from astra_sim.commands import shared_plugins
from astra_sim.errors import InputError, ScheduleError
from astra_sim.schedule import Collective, RankProgram, Request, Schedule, exchange, rank, receive, send, shift
from astra_sim.schedule_bytes import Pairs, cut_of
from astra_sim.testing import check_schedule
from astra_sim_synthesis import _core, lower_bound, synthesize
from astra_sim_synthesis.edges import RankGraph, rank_graph
from astra_sim_synthesis.expanded import expanded
from astra_sim_synthesis.judge import Judge
from astra_sim_synthesis.matching import Matcher
from astra_sim_synthesis.proof import prove
from astra_sim_synthesis.synthesis import NETWORK

from devtools.tacos import TACOS, TacosCase, matching_as_tacos

LINK = "link_bandwidth_gb_per_s=50&link_latency_ns=500"
RING, TORUS, SWITCH = f"plugin:ring?size=6&links=2&{LINK}", f"plugin:torus?sizes=3,4&{LINK}", f"plugin:switch?size=6&{LINK}"
RAILS, MESH = "plugin:rail_optimized?servers=3&npus_per_server=4", f"plugin:mesh?sizes=3,4&{LINK}"


def graph_of(platform: Any) -> RankGraph:
    return rank_graph(Judge.of(platform, NETWORK, None, shared_plugins()).components.platform)


@pytest.mark.parametrize("case", TACOS, ids=lambda case: case.name)
def test_matchings_take_no_longer_than_those_of_tacos(case: TacosCase) -> None:
    """By its own model, and as short as its tests expect of the best of 20."""
    time_us, _ = matching_as_tacos(case)
    assert time_us <= case.time_us * (1 + 1e-6)


@pytest.mark.parametrize("platform", [RING, TORUS, MESH, SWITCH, RAILS])
@pytest.mark.parametrize("pieces", [1, 3])
def test_messages_of_a_matching_share_no_link_and_bring_what_is_there(platform: str, pieces: int) -> None:
    graph = graph_of(platform)
    size = 1e6
    matching = Matcher(graph).match(size, pieces)
    n = graph.ranks
    assert len(matching.edges) == n * (n - 1) * pieces
    there = {(piece // pieces, piece): 0.0 for piece in range(n * pieces)}
    free = np.zeros(len(graph.link_bandwidth))
    for number, piece, start, arrival in zip(matching.edges, matching.pieces, matching.starts, matching.arrivals, strict=True):
        edge = graph.edges[number]
        assert there[edge.source, piece] <= start + 1e-6
        assert (edge.target, piece) not in there
        there[edge.target, piece] = arrival
        assert arrival == pytest.approx(start + size / edge.bandwidth + edge.latency_ns)
        for link in edge.links:
            assert free[link] <= start + 1e-6
            free[link] = start + size / graph.link_bandwidth[link]
    assert matching.time_ns == max(matching.arrivals) >= matching.least_ns - 1e-6


def test_a_piece_that_cannot_get_everywhere_takes_for_ever() -> None:
    graph = graph_of(RING)
    one_way = RankGraph(graph.ranks, graph.link_bandwidth, tuple(edge for edge in graph.edges if edge.target != 2))
    assert Matcher(one_way).match(1e6, 1).time_ns == float("inf")


@pytest.mark.parametrize(
    ("change", "message"),
    [({0: 1}, "fewer than two ranks"), ({1: np.array([7], np.int32).tobytes()}, "rank that is not there"), ({4: b""}, "all links")],
)
def test_wrong_graphs_are_refused(change: dict[int, Any], message: str) -> None:
    numbers = [np.array(each, np.int32).tobytes() for each in ([0], [1], [0, 1], [0])]
    arguments: list[Any] = [2, *numbers, np.zeros(1).tobytes(), np.ones(1).tobytes(), 1, 1]
    for place, value in change.items():
        arguments[place] = value
    with pytest.raises(ValueError, match=message):
        _core.match(*arguments)


@pytest.mark.parametrize("collective", ["all_gather", "reduce_scatter", "all_reduce"])
@pytest.mark.parametrize("platform", [TORUS, MESH, RAILS])
def test_plans_of_matchings_are_proved(platform: str, collective: str) -> None:
    plan = synthesize(platform, collective, 1 << 20, method="matching")
    assert plan.method.startswith("matching in time")
    check_schedule(plan.designed, plan.request)
    assert plan.time_ns >= plan.bound.time_ns
    assert not plan.is_fallback


@pytest.mark.parametrize("collective", ["all_gather", "reduce_scatter", "all_reduce", "all_to_all"])
@pytest.mark.parametrize(
    "platform", [f"plugin:ring?size=4&links=2&{LINK}", f"plugin:mesh?sizes=2,2&{LINK}", f"plugin:switch?size=3&{LINK}"]
)
def test_programs_of_rounds_are_solved_and_proved(platform: str, collective: str) -> None:
    pytest.importorskip("highspy")
    plan = synthesize(platform, collective, 8 << 20, method="milp")
    check_schedule(plan.designed, plan.request)
    assert "rounds (the fewest for whole pieces)" in plan.method
    assert plan.gap is not None
    assert plan.gap < 0.02


def test_rounds_are_the_fewest_there_can_be() -> None:
    """By hand, for an all-to-all on a ring of 5: what a rank sends takes 2 * 1 + 2 * 2 links, of which each has 2: 3 rounds for a piece."""
    pytest.importorskip("highspy")
    plan = synthesize(f"plugin:ring?size=5&links=2&{LINK}", "all_to_all", 5 << 20, method="milp")
    assert plan.method == "MILP of 4 pieces a rank, outwards: 12 rounds (the fewest for whole pieces)"


def test_a_program_of_rounds_beats_the_matching_where_it_can(capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("highspy")
    times = [synthesize(f"plugin:mesh?sizes=2,3&{LINK}", "all_gather", 6 << 20, method=method).time_ns for method in ("milp", "trees")]
    assert times[0] <= times[1]
    assert capfd.readouterr().out == ""


def test_programs_of_rounds_are_for_few_ranks() -> None:
    with pytest.raises(InputError, match="there are 12 ranks; expected at most 8"):
        synthesize(TORUS, "all_gather", 1 << 20, method="milp")


def test_without_highspy_an_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "highspy", None)
    with pytest.raises(InputError, match=r"needs highspy.*pip install 'astra-sim-synthesis\[milp\]'"):
        synthesize(f"plugin:ring?size=4&links=2&{LINK}", "all_to_all", 1 << 20, method="milp")


@pytest.mark.parametrize(("method", "message"), [("best", "expected fastest or trees"), ("buckets", "by buckets")])
def test_methods_that_do_not_fit_are_errors(method: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        synthesize(SWITCH, "all_reduce", 1 << 20, method=method)


@pytest.mark.parametrize(
    ("platform", "gap"), [(f"plugin:torus?sizes=4,4,4&{LINK}", 0.01), (RAILS, 0.1), (f"plugin:torus?sizes=3,5&{LINK}", 0.2)]
)
def test_exchanges_dimension_by_dimension_are_near_the_bound(platform: str, gap: float) -> None:
    plan = synthesize(platform, "all_to_all", 64 << 20, method="exchanges")
    check_schedule(plan.designed, plan.request)
    assert plan.gap is not None
    assert plan.gap < gap


@pytest.mark.parametrize(
    ("platform", "size"),
    [
        (f"plugin:torus?sizes=14,12&{LINK}", 64 << 20),
        (f"plugin:mesh?sizes=12,14&{LINK}", 168),
        ("plugin:rail_optimized?servers=21", 1 << 24),
    ],
)
def test_exchanges_of_more_ranks_have_plans(platform: str, size: int) -> None:
    """168 ranks: too many for trees and paths. Where auto is faster, the file holds this plan."""
    plan = synthesize(platform, "all_to_all", size)
    assert "exchanges dimension by dimension" in plan.method
    check_schedule(plan.designed, plan.request)
    assert plan.bound.time_ns <= plan.time_ns <= plan.auto_ns
    assert plan.designed_ns < 1.3 * plan.bound.time_ns


def test_the_bound_of_a_long_torus_is_that_of_its_long_dimension() -> None:
    """By hand: on a ring of 16 half of the data go 4 links each way, so 16 ranks load a link with 16 * 4 / 2 parts of their data."""
    fabric = Judge.of(f"plugin:torus?sizes=4,16&{LINK}", NETWORK, None, shared_plugins()).components.platform.fabric()
    bound = lower_bound(fabric, 64, Collective.ALL_TO_ALL, 64 << 20)
    assert bound.time_ns == pytest.approx((64 << 20) / 50 * 64 * 4 / 2 / 64, rel=1e-5)


@pytest.mark.parametrize("sizes", ["4,4", "3,5", "12,14"])
def test_the_bound_of_a_mesh_is_that_of_its_halves(sizes: str) -> None:
    """By hand: across the middle of the longer dimension, each link carries what the two parts of its line's share exchange."""
    short, long = map(int, sizes.split(","))
    ranks, half = short * long, long // 2
    fabric = Judge.of(f"plugin:mesh?sizes={sizes}&{LINK}", NETWORK, None, shared_plugins()).components.platform.fabric()
    bound = lower_bound(fabric, ranks, Collective.ALL_TO_ALL, 64 << 20)
    crossing = short * half * short * (long - half) / short * (64 << 20) / ranks
    assert bound.time_ns == pytest.approx(crossing / 50, rel=1e-5)


def test_the_bound_of_leaves_of_unlike_size_is_that_of_a_full_one() -> None:
    """By hand: five leaves have 12 NPUs, the last has 4; over the four uplinks of a full one each NPU sends 52 parts of its data."""
    fabric = Judge.of(
        f"plugin:clos?npus=64&ports=16&oversubscription=3&{LINK}", NETWORK, None, shared_plugins()
    ).components.platform.fabric()
    bound = lower_bound(fabric, 64, Collective.ALL_TO_ALL, 64 << 20)
    assert bound.time_ns == pytest.approx(12 * 52 * (1 << 20) / (4 * 50), rel=1e-5)


def test_the_bound_of_a_small_fabric_is_its_best_flow(tmp_path: Path) -> None:
    """By hand: a chain of three, whose last link is a tenth as fast, and carries what two ranks send to the third."""
    path = tmp_path / "chain.csv"
    path.write_text("source,target,bandwidth_gb_per_s,latency_ns,both_ways\n0,1,100,0,true\n1,2,10,0,true\n")
    fabric = Judge.of(f"plugin:graph?file={path}", NETWORK, None, shared_plugins()).components.platform.fabric()
    assert lower_bound(fabric, 3, Collective.ALL_TO_ALL, 3000).time_ns == pytest.approx(200, rel=1e-5)


def test_exchanges_that_all_ranks_share_are_proved_by_one() -> None:
    request = Request(Collective.ALL_TO_ALL, 6, 6000)
    steps = [exchange(shift(k), 1000, after=1, pieces=[(0, k)]) for k in range(1, 6)]
    shared = Schedule.shared(request, steps)
    assert prove(shared, request) == prove(expanded(shared), request)
    wrong = Schedule.shared(request, [*steps[:-1], exchange(shift(5), 1000, after=1, pieces=[(0, 4)])])
    with pytest.raises(ScheduleError, match="does not hold the data"):
        prove(wrong, request)
    too_early = Schedule.shared(request, [exchange(shift(1), 1000, after=1, pieces=[(1, 2)]), *steps])
    with pytest.raises(ScheduleError, match="does not hold"):
        prove(too_early, request)


def test_pairs_of_pieces_are_those_that_they_stand_for() -> None:
    """Rank 0 sends what it has for both others to rank 1, which passes the rest on."""
    pairs = Pairs([0, 1], [1, 2])
    assert list(pairs) == [(0, 1), (0, 2), (1, 1), (1, 2)]
    assert len(pairs) == 4
    assert pairs[1] == (0, 2)
    request = Request(Collective.ALL_TO_ALL, 2, 20)
    programs = [
        RankProgram((send(rank(1 - r), 10, after=1, pieces=Pairs([r], [1 - r])), receive(rank(1 - r), 10, after=0))) for r in range(2)
    ]
    schedule = Schedule.per_rank(request, programs)
    assert cut_of(schedule) == 1
    check_schedule(schedule, request)
    assert prove(schedule, request).endswith("none added twice")
