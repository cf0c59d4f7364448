"""`auto` takes the algorithm that is fastest on the links of a dimension, and says what it took."""

from __future__ import annotations

import contextlib
import math
import random
import re
from collections.abc import Callable
from typing import Any

import astra_sim
import attrs
import pytest
from astra_sim import CollectiveProvider, PluginError, hookimpl
from astra_sim.context import Algorithm
from astra_sim.errors import ScheduleError
from astra_sim.fabric import RouteRules
from astra_sim.fabric.links import LinkChange
from astra_sim.platform import Dimension, Group, Platform
from astra_sim.schedule import Collective, PeerRun, RankProgram, Request, Schedule, exchange, receive, send, shift, xor
from astra_sim.setup.changed_links import with_changed_links
from astra_sim.setup.plugins import Plugins
from astra_sim_systems import names
from astra_sim_systems.busiest_link import AlikeGroups, are_switched, loads_of, wiring_of
from astra_sim_systems.choice import AutoAlgorithm, CostEstimate, at_once, fastest, forecast
from astra_sim_systems.rounds import rounds_of
from astra_sim_systems.rounds_by_size import ScheduleRounds, UnknownBytes, rounds_for, scheduled
from support.components import components_of
from support.platforms import LINK, platform_of

MEBIBYTE = 1 << 20
AWARE = "analytical?congestion=aware&switching=cut_through"


def run(spec: str, size: int, network: str = "analytical", collective: str = "all_reduce", **chosen: str) -> astra_sim.Result:
    return astra_sim.simulate(
        workload=f"plugin:collective?collective={collective}&bytes={size}",
        platform=f"plugin:{spec}&{LINK}",
        network=f"plugin:{network}",
        system={"plugin": "astra1", **chosen},
    )


def picked(spec: str, size: int, **more: Any) -> str:
    (chosen,) = run(spec, size, **more).algorithms
    assert chosen.reason.startswith("auto")
    return chosen.algorithm


def rounds_in(schedule: Schedule) -> ScheduleRounds:
    """The rounds of a schedule."""
    rounds = scheduled(schedule)
    assert rounds is not None
    return rounds


def forecasts_of(
    platform: Platform, number: int, request: Request, held_bytes: float = 0.0, step_ns: float = 10.0
) -> dict[str, CostEstimate]:
    """The forecasts of the algorithms that can carry out a request in a dimension."""
    loads = loads_of(platform, platform.logical_dimensions()[number])
    assert loads is not None
    context = components_of(platform=platform, workload="plugin:collective?bytes=1024").system.context  # type: ignore[attr-defined]
    cost_estimates = {}
    for spec in names.CANDIDATES:
        try:
            result = forecast(spec, rounds_in(context.algorithm(spec, "test").schedule(request)), loads, step_ns, held_bytes)
        except ScheduleError:
            continue
        if result is not None:
            cost_estimates[spec] = result
    return cost_estimates


# -- What the busiest link carries -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "around", "halving", "at_once"),
    [
        # Each NPU sends (n - 1) / n of the data over its link of 50 bytes/ns.
        ("switch?size=8", 7 / 8, 7 / 8, 7 / 8),
        ("fat_tree?arity=2&levels=3", 7 / 8, 7 / 8, 7 / 8),
        ("clos?npus=64&ports=16&rails=8", 63 / 64, 63 / 64, 63 / 64),
        ("clos?npus=128&ports=8&levels=3", 127 / 128, 127 / 128, 127 / 128),
        # Partners at distance d share the links between them: 1/2 + 2/4 + 4/8.
        ("ring?size=8&links=2", 7 / 8, 1 / 2 + 2 / 4 + 4 / 8, (1 + 2 + 3 + 4) / 8),
        ("mesh?sizes=8", 7 / 8, 1 / 2 + 2 / 4 + 4 / 8, 4 * 4 / 8),
        ("fully_connected?size=8&links=7", 7 / 8, 7 / 8, 1 / 8),
        # Of 12 NPUs at a leaf with 4 links up, the first 8 partners are at it: 3 times the data on the links up for the others.
        ("clos?npus=48&ports=16&oversubscription=3", 47 / 48, None, 12 * 36 / 4 / 48),
        # A message takes one plane; those to all others take both.
        ("clos?npus=64&ports=64&planes=2", 63 / 64, 63 / 64, 63 / 128),
        # Around the rows of a HyperX, messages to the next row meet others at its end.
        ("hyperx?sizes=4,4&npus=2", 2 * 31 / 32, 1 / 2 + 2 * (1 / 4 + 1 / 8 + 1 / 16 + 1 / 32), 31 / 32),
    ],
)
def test_the_bytes_of_the_busiest_link(spec: str, around: float, halving: float | None, at_once: float | None) -> None:
    platform = platform_of(f"{spec}&{LINK}")
    request = Request(Collective.REDUCE_SCATTER, platform.npus, platform.npus << 20)
    result = {name: each.busy_ns * 50 / request.bytes for name, each in forecasts_of(platform, 0, request).items()}
    result.pop(names.BOTH_DIRECTIONS)
    expected = {names.RING: around, names.HALVING_DOUBLING: halving, names.DIRECT: at_once}
    assert result == pytest.approx({name: value for name, value in expected.items() if value is not None})


def test_npus_at_one_leaf_are_one_class() -> None:
    wiring = wiring_of(platform_of(f"clos?npus=1024&rails=8&{LINK}").dimensions[0])
    assert wiring is not None
    assert (len(wiring.members), len(wiring.class_of)) == (32, 1024)


def test_the_busiest_link_is_that_of_the_congestion_aware_network() -> None:
    """Long messages from all NPUs at once take as long as the busiest link is busy, where routes are spread evenly."""
    size = 1 << 26
    for spec, algorithm in (
        ("clos?npus=32&ports=8", names.RING),
        ("clos?npus=36&ports=8&oversubscription=3", names.RING),
        ("clos?npus=32&ports=8&rails=4", names.HALVING_DOUBLING),
        ("hyperx?sizes=16", names.HALVING_DOUBLING),
    ):
        platform = platform_of(f"{spec}&{LINK}")
        foretold = forecasts_of(platform, 0, Request(Collective.ALL_REDUCE, platform.npus, size))[algorithm]
        result = run(spec, size, "analytical?congestion=aware&switching=cut_through", all_reduce=algorithm).finish_ns
        assert result == pytest.approx(foretold.time_ns, rel=0.02)


# -- Selected algorithms -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1 << 10, 1 << 20, 1 << 30])
def test_a_fat_tree_of_128_takes_few_messages(size: int) -> None:
    result = run("fat_tree?arity=2&levels=7", size)
    assert [(each.dimension, each.collective, each.algorithm) for each in result.algorithms] == [(0, "all_reduce", "halving_doubling")]
    assert result.messages == 2 * 7 * 128
    assert run("fat_tree?arity=2&levels=7", size, all_reduce="direct").messages == 2 * 127 * 128


@pytest.mark.parametrize(
    ("spec", "short", "long"),
    [
        ("mesh?sizes=16", "halving_doubling", "ring"),
        ("mesh?sizes=12", "direct", "ring"),
        ("dragonfly?routers=4&npus=4&global_links=2&groups=8", "halving_doubling", "ring"),
        ("dragonfly?routers=4&npus=4&global_links=1", "direct", "ring"),
        ("clos?npus=64&ports=16", "direct", "halving_doubling"),
        ("clos?npus=64&ports=16&oversubscription=3", "direct", "ring"),
        ("clos?npus=60&ports=16", "direct", "direct"),
        ("clos?npus=120&ports=16", "direct", "direct"),
        ("clos?npus=128&ports=16", "halving_doubling", "halving_doubling"),
        ("clos?npus=1024&rails=8", "halving_doubling", "halving_doubling"),
        ("dragonfly_plus?leaves=4&npus=4&groups=4", "direct", "ring"),
        ("hyperx?sizes=4,4&npus=4", "direct", "direct"),
    ],
)
def test_what_is_taken_depends_on_the_fabric_and_the_size(spec: str, short: str, long: str) -> None:
    assert picked(spec, 1 << 12, network=AWARE) == short
    assert picked(spec, 1 << 32, network=AWARE) == long


@pytest.mark.parametrize("spec", ["clos?npus=60&ports=16", "clos?npus=64&ports=16&planes=2", "hyperx?sizes=4,4&npus=4"])
@pytest.mark.parametrize("size", [1 << 20, 1 << 28])
def test_a_formula_without_a_nic_is_not_believed_that_all_can_be_sent_at_once(spec: str, size: int) -> None:
    """Messages to all others would take as long as one of them."""
    assert picked(spec, size) != names.DIRECT
    assert run(spec, size).audit == []


@pytest.mark.parametrize("spec", ["clos?npus=60&ports=16", "hyperx?sizes=4,4&npus=4", "switch?size=72"])
def test_a_formula_is_believed_of_messages_that_are_mostly_latency(spec: str) -> None:
    """That they leave over one link costs less than the latency of one of them."""
    assert picked(spec, 1 << 12) == names.DIRECT
    assert run(spec, 1 << 12).audit == []
    fastest = min(run(spec, 1 << 12, network=AWARE, all_reduce=each).finish_ns for each in ("ring", "direct"))
    assert run(spec, 1 << 12, network=AWARE, all_reduce=names.DIRECT).finish_ns <= 1.1 * fastest


def test_what_is_picked_on_one_network_is_not_remembered_on_another() -> None:
    spec = "hyperx?sizes=4,4&npus=4"
    for network, is_direct in ((AWARE, True), ("analytical", False)) * 2:
        assert (picked(spec, 1 << 28, network=network) == names.DIRECT) == is_direct


def test_auto_goes_by_the_routes_of_the_network() -> None:
    """On a HyperX destinations of different switches have links of their own; a hash lets their messages meet."""
    spec = "hyperx?sizes=4,4&npus=4"
    assert picked(spec, 1 << 28, network="flow") == names.DIRECT
    assert picked(spec, 1 << 28, network="flow?routing=hash") == names.RING


def test_all_that_choices_follow_from_is_their_content() -> None:
    """Plans are kept by it from run to run."""
    auto_algorithm = AutoAlgorithm("auto", False, 1, True, False, lambda request: Schedule.shared(request, []))
    others: dict[str, Any] = {
        "platform": platform_of(f"switch?size=8&{LINK}"),
        "step_ns": 1.0,
        "messages_wait": False,
        "held_bytes": 1.0,
        "route_rules": RouteRules("never"),
        "candidates": {"x": auto_algorithm},
    }
    own = {field.name for field in attrs.fields(AutoAlgorithm)} - {field.name for field in attrs.fields(Algorithm)}
    assert {name for name in own if not name.startswith("_")} == others.keys()
    for name, value in others.items():
        assert attrs.evolve(auto_algorithm, **{name: value}).content != auto_algorithm.content


@pytest.mark.parametrize(
    ("spec", "expected"),
    [("mesh?sizes=8", "direct"), ("fat_tree?arity=2&levels=3", "direct"), ("clos?npus=32&ports=8", "direct"), ("switch?size=8", "direct")],
)
def test_all_to_all_goes_straight(spec: str, expected: str) -> None:
    assert picked(spec, MEBIBYTE, collective="all_to_all") == expected


@pytest.mark.parametrize(
    ("spec", "network", "collective", "size", "expected"),
    [
        ("gb200_nvl72", "flow", "all_reduce", 1 << 16, ["direct"]),
        (f"ring?size=16&links=2&{LINK}", "flow", "all_to_all", 1 << 20, ["direct"]),
        (f"torus?sizes=8,8&{LINK}", "flow", "all_to_all", 1 << 20, ["direct", "direct"]),
        (f"switch?size=12&{LINK}", "analytical?congestion=aware", "all_reduce", 1 << 16, ["direct"]),
        ("rail_optimized?servers=4&npus_per_server=4", "flow", "all_reduce", 1 << 16, ["direct", "direct", "direct"]),
        (f"hyperx?sizes=4,4&{LINK}", "flow", "all_reduce", 1 << 16, ["direct"]),
        (f"dragonfly?routers=4&npus=1&global_links=1&{LINK}", "flow", "all_gather", 1 << 12, ["direct"]),
        (f"mesh?sizes=8&{LINK}", "flow", "all_reduce", 1 << 16, ["direct"]),
    ],
)
def test_short_messages_go_straight_on_all_topologies(spec: str, network: str, collective: str, size: int, expected: list[str]) -> None:
    result = astra_sim.simulate(
        workload=f"plugin:collective?collective={collective}&bytes={size}", platform=f"plugin:{spec}", network=f"plugin:{network}"
    )
    assert [chosen.algorithm for chosen in result.algorithms] == expected
    assert all(chosen.reason.startswith("auto: direct ") for chosen in result.algorithms)


FABRICS = (
    "ring?size=8&links=2",
    "switch?size=12",
    "fully_connected?size=6&links=5",
    "torus?sizes=4,4",
    "mesh?sizes=8",
    "fat_tree?arity=2&levels=3",
    "clos?npus=16&ports=8",
    "clos?npus=24&ports=8&oversubscription=3",
    "clos?npus=32&ports=16&planes=2",
    "dragonfly?routers=4&npus=1&global_links=1",
    "hyperx?sizes=4,4",
)


@pytest.mark.parametrize("network", ["analytical?congestion=aware", AWARE, "flow", "roce"])
@pytest.mark.parametrize("collective", ["all_reduce", "all_gather", "all_to_all"])
@pytest.mark.parametrize("spec", FABRICS)
def test_auto_is_about_as_fast_as_the_best(spec: str, collective: str, network: str) -> None:
    for size in (1 << 12, 1 << 19):
        times = []
        for name in names.CANDIDATES:
            with contextlib.suppress(ScheduleError):
                times.append(run(spec, size, network, collective, **{collective: name}).finish_ns)
        assert run(spec, size, network, collective).finish_ns <= 1.3 * min(times)


@pytest.mark.parametrize(
    "spec",
    ["fat_tree?arity=4&levels=3", "clos?npus=64&ports=16&rails=8", "hyperx?sizes=4,4&npus=4", "dragonfly_plus?leaves=4&npus=4&groups=4"],
)
def test_short_messages_take_as_long_as_foretold(spec: str) -> None:
    """On links with contention, and with one route for each pair: where messages meet that could take other ways, up to a third more."""
    platform = platform_of(f"{spec}&{LINK}")
    for name, foretold in forecasts_of(platform, 0, Request(Collective.ALL_REDUCE, platform.npus, 1 << 16)).items():
        if name != names.BOTH_DIRECTIONS:
            assert run(spec, 1 << 16, AWARE, all_reduce=name).finish_ns == pytest.approx(foretold.time_ns, rel=0.35)


def test_nodes_that_hold_messages_are_waited_for() -> None:
    """At a switch that passes messages on whole, the last of all messages waits once, and each of a chain does."""
    platform = platform_of(f"switch?size=8&{LINK}")
    request = Request(Collective.ALL_GATHER, 8, 50_000)
    through, whole = forecasts_of(platform, 0, request), forecasts_of(platform, 0, request, math.inf)
    assert whole["direct"].time_ns - through["direct"].time_ns == pytest.approx(1000)
    assert whole["ring"].time_ns - through["ring"].time_ns == pytest.approx(7 * 1000)


def test_several_logical_dimensions_meet_on_the_links() -> None:
    """Of 8 NPUs at each leaf with 4 links up, those of a dimension within a leaf have all of their links, those across half of them."""
    platform = platform_of(f"clos?npus=64&ports=12&oversubscription=2&logical_dims=8,8&{LINK}")
    request = Request(Collective.REDUCE_SCATTER, 8, 8 << 20)
    within, across = (forecasts_of(platform, number, request) for number in (0, 1))
    straight = ("ring", "halving_doubling", "direct")
    assert [within[name].busy_ns * 50 / request.bytes for name in straight] == pytest.approx([7 / 8] * 3)
    # All eight NPUs of a leaf send to another leaf at once, over four links.
    assert [across[name].busy_ns * 50 / request.bytes for name in straight] == pytest.approx([2 * 7 / 8] * 3)


def test_a_part_of_a_ring_is_a_line() -> None:
    """Four neighbours of a ring of 8 have no link from the last to the first: what goes around them crosses the others."""
    ring = platform_of(f"ring?size=8&links=2&{LINK}")
    (part, _), _ = ring.split_for_group(4)
    whole, line = loads_of(ring, ring.logical_dimensions()[0]), loads_of(ring, part)
    assert whole is not None
    assert line is not None
    schedule = Schedule.shared(Request(Collective.ALL_GATHER, 4, 1000), [exchange(shift(1), 1000)])
    around, along = (forecast("x", rounds_in(schedule), loads, 0.0, 0.0) for loads in (whole, line))
    assert around is not None
    assert along is not None
    assert (around.time_ns, along.time_ns) == (500 + 20, 1500 + 20)


def test_groups_across_dimensions_are_looked_at_on_the_links_of_all() -> None:
    """Those of a diagonal of a torus are two links from each other, one in each dimension."""
    loads = loads_of(platform_of(f"torus?sizes=4,4&{LINK}"), Group((0, 5, 10, 15)))
    assert loads is not None
    schedule = Schedule.shared(Request(Collective.ALL_GATHER, 4, 1000), [exchange(shift(1), 1000)])
    result = forecast("x", rounds_in(schedule), loads, 0.0, math.inf)
    assert result is not None
    assert result.time_ns == pytest.approx(1000 + 2 * 20)


@pytest.mark.parametrize(
    ("spec", "members", "expected"),
    [
        ("ring?size=8&links=2", (5, 7, 1), (0, 2, 4)),
        ("switch?size=8", (5, 7, 1), (0, 2, 4)),
        ("mesh?sizes=8", (5, 7, 1), (5, 7, 1)),
        ("mesh?sizes=8", (0, 3), (0, 3)),
        ("mesh?sizes=8", (5, 6, 3), (3, 4, 1)),
        ("mesh?sizes=4,8", (13, 14, 21), (5, 6, 13)),
        ("mesh?sizes=4,8", (12, 14, 21), (4, 6, 13)),
        ("torus?sizes=4,4", (6, 10, 3), (0, 4, 13)),
        ("clos?npus=32&ports=16", (5, 7, 1), (5, 7, 1)),
    ],
)
def test_groups_are_moved_where_all_places_are_alike(spec: str, members: tuple[int, ...], expected: tuple[int, ...]) -> None:
    assert AlikeGroups(platform_of(f"{spec}&{LINK}")).first(Group(members)) == Group(expected)


def test_groups_are_not_moved_where_a_link_differs() -> None:
    ring = platform_of(f"ring?size=8&links=2&{LINK}")
    slower = with_changed_links(ring, [LinkChange(0, 1, bandwidth=0.5)])
    for group in (Group((5, 6)), Group((0, 1))):
        assert (AlikeGroups(ring).first(group), AlikeGroups(slower).first(group)) == (Group((0, 1)), group)


def test_groups_are_not_moved_on_a_line_with_another_link() -> None:
    line, group = platform_of(f"mesh?sizes=9&{LINK}"), Group((5, 6))
    slower = with_changed_links(line, [LinkChange(0, 1, bandwidth=0.5)])
    assert (AlikeGroups(line).first(group), AlikeGroups(slower).first(group)) == (Group((1, 2)), group)


@pytest.mark.parametrize("rules", [RouteRules(), RouteRules("always", "first"), RouteRules("if_needed", "all")])
@pytest.mark.parametrize("spec", ["mesh?sizes=30", "mesh?sizes=9,7", "mesh?sizes=5,5,4"])
def test_groups_that_are_moved_on_lines_have_the_very_same_loads(spec: str, rules: RouteRules) -> None:
    platform, moves = platform_of(f"{spec}&{LINK}"), 0
    for seed in range(30):
        group = Group(tuple(random.Random(seed).sample(range(platform.npus), 3)))
        other = AlikeGroups(platform).first(group)
        moves += other != group
        own, moved = loads_of(platform, group, rules), loads_of(platform, other, rules)
        assert own is not None
        assert moved is not None
        for pattern in (PeerRun(shift(1)), PeerRun(shift(2)), PeerRun(shift(1), 2, 1)):
            here, there = own.load(pattern), moved.load(pattern)
            assert here is not None
            assert there is not None
            assert (here.longest, here.mean, here.different) == (there.longest, there.mean, there.different)
    assert moves >= 3


@pytest.mark.parametrize("rules", [RouteRules(), RouteRules("always", "first"), RouteRules("if_needed", "all")])
@pytest.mark.parametrize("spec", ["ring?size=8&links=2", "ring?size=9&links=2", "torus?sizes=4,4", "torus?sizes=4,3"])
def test_groups_that_are_moved_have_the_same_loads(spec: str, rules: RouteRules) -> None:
    platform = platform_of(f"{spec}&{LINK}")
    for first, second, third in ((1, 2, 5), (7, 3, 0), (6, 2, 4), (3, 7, 5)):
        group = Group((first, second, third))
        nearest = AlikeGroups(platform).first(group)
        assert nearest != group
        own, moved = loads_of(platform, group, rules), loads_of(platform, nearest, rules)
        assert own is not None
        assert moved is not None
        for pattern in (PeerRun(shift(1)), PeerRun(shift(2)), PeerRun(shift(1), 2, 1)):
            here, there = own.load(pattern), moved.load(pattern)
            assert here is not None
            assert there is not None
            for one, other in ((here.longest, there.longest), (here.mean, there.mean)):
                assert one == pytest.approx(other)
            assert sorted(here.different) == [pytest.approx(each) for each in sorted(there.different)]


def test_many_messages_at_once_must_relieve_the_links() -> None:
    """Of more than 63, those of the others being fewer."""
    few, many = CostEstimate("halving_doubling", 100.0, 50.0, 14, 1), CostEstimate("direct", 50.0, 49.9, 254, 127)
    assert fastest([few, many]) is few
    assert fastest([few, attrs.evolve(many, busy_ns=40.0)]).spec == "direct"
    assert fastest([attrs.evolve(few, messages=254), many]) is many
    assert fastest([few, attrs.evolve(many, messages=126, at_once=63)]).spec == "direct"


def test_of_about_equal_times_the_fewest_messages() -> None:
    ring, halving = CostEstimate("ring", 100.0, 90.0, 15, 1), CostEstimate("halving_doubling", 104.0, 90.0, 4, 1)
    assert fastest([ring, halving]) is halving
    assert fastest([ring, attrs.evolve(halving, time_ns=106.0)]) is ring
    assert fastest([ring, attrs.evolve(ring, spec="direct", time_ns=99.0)]).spec == "direct"


# -- Rounds ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "collective", "expected"),
    [
        ("ring", Collective.ALL_REDUCE, [(14, 1)]),
        ("ring?directions=2", Collective.ALL_GATHER, [(7, 2)]),
        ("ring", Collective.ALL_TO_ALL, [(28, 1)]),
        ("halving_doubling", Collective.REDUCE_SCATTER, [(1, 1)] * 3),
        ("direct", Collective.ALL_REDUCE, [(2, 7)]),
        ("direct?window=3", Collective.ALL_GATHER, [(1, 3), (1, 3), (1, 1)]),
    ],
)
def test_rounds_of_schedules(spec: str, collective: Collective, expected: list[tuple[int, int]]) -> None:
    """How often each different round comes, and how many messages of a rank it has."""
    context = components_of(platform=f"plugin:switch?size=8&{LINK}", workload="plugin:collective?bytes=1024").system.context  # type: ignore[attr-defined]
    schedule = context.algorithm(spec, "test").schedule(Request(collective, 8, 8 << 10))
    rounds = rounds_of(schedule)
    assert rounds is not None
    assert [(times, at_once(round_)) for round_, times in rounds.items()] == expected


def test_rounds_of_ranks_that_do_different_things() -> None:
    """Rank 0 sends to 1, which sends to 2 when it has got that."""
    first, second = (
        RankProgram((send(shift(1), 10),)),
        RankProgram((receive(shift(-1), 10, after=0), send(shift(1), 20, after=1)), starts=0),
    )
    last = RankProgram((receive(shift(-1), 20, after=0),), starts=0)
    rounds = rounds_of(Schedule.per_rank(Request(Collective.ALL_REDUCE, 3, 10), [first, second, last]))
    assert rounds is not None
    assert [[(each.pattern, each.bytes) for each in sends] for sends in rounds] == [[(((0, 1),), 10)], [(((1, 2),), 20)]]


def test_a_schedule_that_waits_for_ever_has_no_rounds() -> None:
    request = Request(Collective.ALL_REDUCE, 4, 10)
    assert rounds_of(Schedule.shared(request, [exchange(xor(1), 10, after=2)])) is None
    assert rounds_of(Schedule.per_rank(request, [RankProgram((send(shift(1), 10, after=5),))] * 4)) is None


def algorithm_of(make: Callable[[Request], Schedule]) -> tuple[Algorithm, list[Any]]:
    """An algorithm, and the bytes of all requests that it gets."""
    asked: list[Any] = []

    def counted(request: Request) -> Schedule:
        asked.append(request.bytes)
        return make(request)

    return Algorithm("counted", False, 1, True, False, counted), asked


@pytest.mark.parametrize("collective", list(Collective))
@pytest.mark.parametrize("spec", [*names.CANDIDATES, "direct?window=3"])
@pytest.mark.parametrize("ranks", [2, 3, 8, 12])
def test_rounds_follow_from_the_bytes(spec: str, collective: Collective, ranks: int) -> None:
    """They are those of the schedule for each size, in the same order, and the algorithm is not asked for most sizes."""
    context = components_of(platform=f"plugin:switch?size=8&{LINK}", workload="plugin:collective?bytes=1024").system.context  # type: ignore[attr-defined]
    own = context.algorithm(spec, "test")
    algorithm, asked = algorithm_of(own.schedule)
    with contextlib.suppress(ScheduleError):
        own.schedule(Request(collective, ranks, 64))
        algorithm, asked = algorithm_of(own.unchecked)
        for size in (1000, 0, 1, 31, 47, 12345, 1 << 20, (1 << 39) + 7):
            for direction in (1, -1):
                request = Request(collective, ranks, size, direction)
                found, expected = rounds_for(algorithm, request), scheduled(own.schedule(request))
                assert found is not None
                assert expected is not None
                assert ([*found.rounds.items()], found.messages) == ([*expected.rounds.items()], expected.messages)
        assert [type(size) for size in asked] == [int, int, UnknownBytes, UnknownBytes]


@pytest.mark.parametrize(
    "size_of",
    [
        lambda size: max(size, 100),
        lambda size: size or 1,
        lambda size: size + (size == 100),
        lambda size: {100: 100}.get(size, size),
        lambda size: int(f"{size}"),
        lambda size: int(size / 3) + size,
        lambda size: size // (size + 1) + size,
        lambda size: len(range(size)),
    ],
)
def test_an_algorithm_that_looks_at_the_bytes_is_asked_for_each_size(size_of: Callable[[int], int]) -> None:
    algorithm, asked = algorithm_of(lambda request: Schedule.shared(request, [exchange(shift(1), size_of(request.bytes), times=3)]))
    sizes = [400, 300, 200, 100]
    for size in sizes:
        found = rounds_for(algorithm, Request(Collective.ALL_GATHER, 4, size))
        assert found is not None
        assert [sends.bytes for (sends,) in found.rounds] == [size_of(size)]
    assert [size for size in asked if type(size) is int] == sizes


def test_rounds_of_very_large_collectives_are_those_of_schedules() -> None:
    """A schedule may be refused as too large, which the algorithm alone does not know."""
    algorithm, asked = algorithm_of(lambda request: Schedule.shared(request, [exchange(shift(1), request.bytes, times=3)]))
    for size in (10, 20, 30):
        rounds_for(algorithm, Request(Collective.ALL_GATHER, 4, size))
    with pytest.raises(ScheduleError, match=r"expected less than 2\^63"):
        rounds_for(algorithm, Request(Collective.ALL_GATHER, 4, 1 << 62))
    assert asked[-1] == 1 << 62


# -- Algorithms of others ----------------------------------------------------------------------------------------------


def swing(request: Request) -> Schedule:
    """An all-gather in one step: too good to be left out, and of the right number of bytes."""
    if request.collective is not Collective.ALL_GATHER:
        raise request.unsupported("swing", "it only gathers")
    return Schedule.shared(request, [exchange(shift(k), request.bytes, after=1) for k in range(1, request.ranks)])


def with_others(automatic: bool) -> Plugins:
    class Others:
        @hookimpl
        def astra_collectives(self) -> list[CollectiveProvider]:
            return [CollectiveProvider("swing", "An algorithm of others", swing, automatic=automatic)]

    plugins = Plugins()
    plugins.register(Others(), "others")
    return plugins


@pytest.mark.parametrize("automatic", [True, False])
def test_an_algorithm_of_others_may_be_taken_where_it_says_so(automatic: bool) -> None:
    def chosen(collective: str) -> str:
        (result,) = astra_sim.simulate(
            workload=f"plugin:collective?collective={collective}&bytes=65536",
            platform=f"plugin:mesh?sizes=64&{LINK}",
            network=f"plugin:{AWARE}",
            plugins=with_others(automatic),
        ).algorithms
        assert ("swing" in result.reason) == (automatic and collective == "all_gather")
        return result.algorithm

    assert chosen("all_reduce") != "swing"
    chosen("all_gather")


def test_an_algorithm_that_auto_cannot_take_may_not_say_so() -> None:
    with pytest.raises(PluginError, match="'x' is automatic; expected one that runs in a dimension"):
        CollectiveProvider("x", "", swing, automatic=True, whole_platform=True)


# -- Reported reasons --------------------------------------------------------------------------------------------------


def test_results_say_what_was_taken_and_why() -> None:
    (chosen,) = run("clos?npus=64&ports=16&oversubscription=3", 1 << 20, AWARE).to_dict()["algorithms"]
    assert {key: chosen[key] for key in ("dimension", "collective", "algorithm", "bytes")} == {
        "dimension": 0,
        "collective": "all_reduce",
        "algorithm": "halving_doubling",
        "bytes": 1 << 20,
    }
    first, *others = chosen["reason"].removeprefix("auto: ").split(", ")
    assert re.fullmatch(r"halving_doubling [\d.]+ us in 12 messages", first)
    assert [each.split()[0] for each in others] == ["ring", "ring?directions=2", "direct"]
    (asked,) = run("clos?npus=64&ports=16", 1 << 20, all_reduce="direct").algorithms
    assert (asked.algorithm, asked.reason) == ("direct", "")
    (other,) = run("clos?npus=1040", 1 << 20).algorithms
    assert other.algorithm == "ring"


@pytest.mark.parametrize(
    ("spec", "switched", "all_reduce", "all_to_all"),
    [
        ("mesh?sizes=4096", False, "ring", "direct"),
        ("clos?npus=65536&rails=8&levels=3", True, "halving_doubling", "direct"),
        ("clos?npus=49152&rails=8&levels=3", True, "ring", "direct"),
    ],
)
def test_a_graph_that_is_too_large_goes_by_the_rule_of_a_ring_or_a_switch(
    spec: str, switched: bool, all_reduce: str, all_to_all: str
) -> None:
    platform = platform_of(f"{spec}&{LINK}")
    assert loads_of(platform, platform.logical_dimensions()[0]) is None
    assert are_switched(platform.dimensions[0]) == switched
    for kind, expected in ((Collective.ALL_REDUCE, all_reduce), (Collective.ALL_TO_ALL, all_to_all)):
        assert names.without_forecast(kind, platform.npus, switched) == expected


@pytest.mark.parametrize("spec", ["mesh?sizes=16", "mesh?sizes=4,4"])
@pytest.mark.parametrize("network", ["flow", "analytical?congestion=aware&switching=cut_through", "packet"])
def test_an_all_to_all_that_goes_straight_is_no_slower_than_one_between_neighbours(spec: str, network: str) -> None:
    def finish_ns(**system: str) -> float:
        workload = f"plugin:collective?collective=all_to_all&bytes={1 << 20}"
        platform, asked = f"plugin:{spec}&{LINK}", {"plugin": "astra2", **system}
        return float(astra_sim.simulate(workload=workload, platform=platform, network=f"plugin:{network}", system=asked).finish_ns)

    assert finish_ns() == finish_ns(all_to_all="direct") < finish_ns(all_to_all="ring")


def test_topologies_without_links_go_by_the_rule_of_a_ring() -> None:
    class Unknown:
        name, size = "unknown", 8

        def hops(self, source: int, destination: int) -> int:
            return 1

        def is_symmetric(self, peer: object) -> bool:
            return True

        def links_per_message(self) -> int:
            return 1

        def links_per_npu(self) -> int:
            return 1

    platform = Platform((Dimension(Unknown(), 8, 1, 50.0, 500.0),))
    result = astra_sim.simulate(workload="plugin:collective?collective=all_reduce&bytes=1024", platform=platform)
    assert [chosen.algorithm for chosen in result.algorithms] == ["ring"]


def test_a_graph_that_is_too_large_is_taken_for_a_switch() -> None:
    (chosen,) = run("clos?npus=16384&rails=8&levels=3", 1 << 20).algorithms
    assert (chosen.algorithm, chosen.reason) == ("halving_doubling", "auto: the graph is too large to look at, or not known")


@pytest.mark.parametrize("symmetry", [True, False])
@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_what_is_taken_does_not_depend_on_how_it_is_simulated(engine: str, symmetry: bool) -> None:
    sizes = [1 << 12, 1 << 24]
    ways: list[dict[str, Any]] = [{}, {"engine": engine, "symmetry": symmetry}]
    spec = f"plugin:clos?npus=32&ports=16&oversubscription=3&{LINK}"
    for size in sizes:
        results = [
            astra_sim.simulate(workload=f"plugin:collective?collective=all_reduce&bytes={size}", platform=spec, **how) for how in ways
        ]
        assert results[0].finish_ns == results[1].finish_ns
        assert results[0].algorithms == results[1].algorithms
