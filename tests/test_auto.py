"""`auto` takes the algorithm that is fastest on the links of a dimension, and says what it took."""

from __future__ import annotations

import re
from typing import Any

import astra_sim
import attrs
import pytest
from astra_sim.context import Algorithm
from astra_sim.platform import Dimension, Platform, is_power_of_two
from astra_sim.schedule import Collective, Request, Schedule
from astra_sim_systems import names
from astra_sim_systems.busiest_link import are_switched, wiring_of
from astra_sim_systems.choice import Automatic, Forecast, fastest, forecasts_of, time_ns
from support.platforms import LINK, platform_of

BASIC = [
    *(f"ring?size={size}&links=2" for size in (8, 12, 16)),
    *(f"switch?size={size}" for size in (6, 8, 12, 16)),
    *(f"fully_connected?size={size}&links={size - 1}" for size in (6, 8, 16)),
]
MEBIBYTE = 1 << 20
AWARE = "analytical?congestion=aware&switching=cut_through"


def run(spec: str, size: int, network: str = "analytical", collective: str = "all_reduce", **chosen: str) -> astra_sim.Result:
    asked = "&".join(f"{key}={value}" for key, value in chosen.items())
    return astra_sim.simulate(
        workload=f"plugin:collective?collective={collective}&bytes={size}",
        platform=f"plugin:{spec}&{LINK}",
        network=f"plugin:{network}",
        system=f"plugin:astra1?{asked}",
    )


def picked(spec: str, size: int, **more: Any) -> str:
    (chosen,) = run(spec, size, **more).algorithms
    assert chosen.reason.startswith("auto")
    return chosen.algorithm


# -- What the busiest link carries --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "around", "halving", "at_once"),
    [
        # Each NPU sends (n - 1) / n of the data over its link of 50 bytes/ns.
        ("switch?size=8", 7 / 8, 7 / 8, 7 / 8),
        ("fat_tree?arity=2&levels=3", 7 / 8, 7 / 8, 7 / 8),
        ("clos?npus=64&ports=16&rails=8", 63 / 64, 63 / 64, 63 / 64),
        ("clos?npus=128&ports=8&levels=3", 127 / 128, 127 / 128, None),
        # Partners at distance d share the links between them: 1/2 + 2/4 + 4/8, half of it each way where both are as long.
        ("ring?size=8&links=2", 7 / 8, 1 / 2 + 2 / 4 + 2 / 8, (1 + 2 + 3 + 4 / 2) / 8),
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
    found = {each.spec: each.ns_per_byte * 50 for each in forecasts_of(platform_of(f"{spec}&{LINK}"), 0, False)}
    expected = {names.ANY_NUMBER: around, names.POWERS_OF_TWO: halving, names.ALL_AT_ONCE: at_once}
    assert found == pytest.approx({name: value for name, value in expected.items() if value is not None})


def test_npus_at_one_leaf_are_one_class() -> None:
    wiring = wiring_of(platform_of(f"clos?npus=1024&rails=8&{LINK}").dimensions[0])
    assert wiring is not None
    assert (len(wiring.members), len(wiring.class_of)) == (32, 1024)


def test_the_busiest_link_is_that_of_the_congestion_aware_network() -> None:
    """Long messages from all NPUs at once take as long as the busiest link is busy, where routes are spread evenly."""
    size = 1 << 26
    for spec, algorithm in (
        ("clos?npus=32&ports=8", names.ANY_NUMBER),
        ("clos?npus=36&ports=8&oversubscription=3", names.ANY_NUMBER),
        ("clos?npus=32&ports=8&rails=4", names.POWERS_OF_TWO),
        ("hyperx?sizes=16", names.POWERS_OF_TWO),
    ):
        platform = platform_of(f"{spec}&{LINK}")
        forecast = next(each for each in forecasts_of(platform, 0, False) if each.spec == algorithm)
        request = Request(Collective.ALL_REDUCE, platform.npus, size, 1)
        found = run(spec, size, "analytical?congestion=aware&switching=cut_through", all_reduce=algorithm).finish_ns
        assert found == pytest.approx(time_ns(forecast, request, 10.0), rel=0.02)


# -- What is taken ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", BASIC)
def test_the_forecast_of_long_messages_is_the_rule_of_the_basic_topologies(spec: str) -> None:
    """The rule by the name of the topology is what the links say; on rings of up to 6, messages to all at once would use both ways."""
    platform = platform_of(f"{spec}&{LINK}")
    request = Request(Collective.ALL_REDUCE, platform.npus, 1 << 34, 1)
    by_name = names.default_algorithm(Collective.ALL_REDUCE, platform.dimensions[0])
    assert fastest(forecasts_of(platform, 0, False), request, 2000.0) == by_name.partition("?")[0]
    (chosen,) = run(spec, MEBIBYTE).algorithms
    assert (chosen.algorithm, chosen.reason) == (by_name.partition("?")[0], "auto")


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
        ("clos?npus=60&ports=16", "direct", "ring"),
        ("clos?npus=120&ports=16", "direct", "ring"),
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
@pytest.mark.parametrize("size", [1 << 12, 1 << 20, 1 << 28])
def test_a_formula_without_a_nic_is_not_believed_that_all_can_be_sent_at_once(spec: str, size: int) -> None:
    """Messages to all others would take as long as one of them."""
    assert picked(spec, size) != names.ALL_AT_ONCE
    assert run(spec, size).audit == []


def test_what_is_picked_on_one_network_is_not_remembered_on_another() -> None:
    spec = "hyperx?sizes=4,4&npus=4"
    for network, at_once in ((AWARE, True), ("analytical", False)) * 2:
        assert (picked(spec, 1 << 12, network=network) == names.ALL_AT_ONCE) == at_once


def test_all_that_choices_follow_from_is_their_content() -> None:
    """Plans are kept by it from run to run."""
    made = Automatic("auto", False, 1, True, False, lambda request: Schedule.shared(request, []))
    others: dict[str, Any] = {
        "platform": platform_of(f"switch?size=8&{LINK}"),
        "dimension": 1,
        "step_ns": 1.0,
        "messages_wait": False,
        "candidates": {"x": made},
    }
    own = {field.name for field in attrs.fields(Automatic)} - {field.name for field in attrs.fields(Algorithm)}
    assert {name for name in own if not name.startswith("_")} == others.keys()
    for name, value in others.items():
        assert attrs.evolve(made, **{name: value}).content != made.content


@pytest.mark.parametrize(
    ("spec", "expected"),
    [("mesh?sizes=8", "direct"), ("fat_tree?arity=2&levels=3", "direct"), ("clos?npus=32&ports=8", "direct"), ("switch?size=8", "direct")],
)
def test_all_to_all_goes_straight(spec: str, expected: str) -> None:
    assert picked(spec, MEBIBYTE, collective="all_to_all") == expected


@pytest.mark.parametrize("size", [1 << 12, 1 << 16, 1 << 26])
@pytest.mark.parametrize(
    "spec",
    [
        "mesh?sizes=16",
        "fat_tree?arity=4&levels=3",
        "fat_tree?arity=2&levels=4",
        "clos?npus=60&ports=16",
        "clos?npus=64&ports=16",
        "clos?npus=64&ports=16&planes=2",
        "clos?npus=64&ports=16&rails=8",
        "clos?npus=64&ports=16&oversubscription=3",
        "clos?npus=64&ports=8&levels=3",
        "dragonfly?routers=4&npus=4&global_links=1&groups=4",
        "dragonfly_plus?leaves=4&npus=4&groups=4",
        "hyperx?sizes=16",
        "hyperx?sizes=4,4&npus=4",
    ],
)
@pytest.mark.parametrize("collective", ["all_reduce", "all_gather"])
def test_auto_is_about_as_fast_as_the_best(spec: str, size: int, collective: str) -> None:
    """1.3 at most: where latency and bytes count alike, messages at once may be better by that, and are not trusted so far."""
    asked = [names.ANY_NUMBER, names.ALL_AT_ONCE]
    if is_power_of_two(platform_of(f"{spec}&{LINK}").npus):
        asked.append(names.POWERS_OF_TWO)
    best = min(run(spec, size, AWARE, collective, **{collective: name}).finish_ns for name in asked)
    assert run(spec, size, AWARE, collective).finish_ns <= 1.3 * best


@pytest.mark.parametrize(
    "spec",
    ["fat_tree?arity=4&levels=3", "clos?npus=64&ports=16&rails=8", "hyperx?sizes=4,4&npus=4", "dragonfly_plus?leaves=4&npus=4&groups=4"],
)
def test_short_messages_take_as_long_as_foretold(spec: str) -> None:
    """On links with contention, and with one route for each pair: latencies of the ways that messages take, not of the longest."""
    platform = platform_of(f"{spec}&{LINK}")
    request = Request(Collective.ALL_REDUCE, platform.npus, 1 << 16, 1)
    for forecast in forecasts_of(platform, 0, False):
        found = run(spec, 1 << 16, AWARE, all_reduce=forecast.spec).finish_ns
        assert found == pytest.approx(time_ns(forecast, request, 10.0), rel=0.15)


def test_several_logical_dimensions_meet_on_the_links() -> None:
    """Of 8 NPUs at each leaf with 4 links up, those of a dimension within a leaf have all of their links, those across half of them."""
    platform = platform_of(f"clos?npus=64&ports=12&oversubscription=2&logical_dims=8,8&{LINK}")
    within, across = (forecasts_of(platform, number, False) for number in (0, 1))
    assert [each.ns_per_byte * 50 for each in within] == pytest.approx([7 / 8] * 3)
    # All eight NPUs of a leaf send to another leaf at once, over four links.
    assert [each.ns_per_byte * 50 for each in across] == pytest.approx([2 * 7 / 8] * 3)


def test_messages_at_once_must_be_faster_though_they_meet() -> None:
    """By 100 ns a step, and bytes that take half as long again; of more than 63, only with less to carry than others."""
    request = Request(Collective.ALL_REDUCE, 16, 1000, 1)
    ring, direct = Forecast("ring", 15, 1.0), Forecast("direct", 15, 1.0, at_once=True)
    assert fastest([ring, direct], request, 100.0) == "direct"
    assert fastest([ring, direct], request, 30.0) == "ring"  # 15 * 30 + 1000 < 30 + 1500
    assert fastest([direct], request, 30.0) == "direct"
    many = Request(Collective.ALL_REDUCE, 128, 1000, 1)
    halving, ring = Forecast("halving_doubling", 7, 1.0), Forecast("ring", 127, 1.0)
    assert fastest([ring, halving, Forecast("direct", 127, 1.0, at_once=True)], many, 1000.0) == "halving_doubling"
    assert fastest([ring, halving, Forecast("direct", 127, 0.6, at_once=True)], many, 1000.0) == "direct"
    assert fastest([ring, Forecast("direct", 127, 1.0, at_once=True)], many, 1000.0) == "direct"


def test_of_equal_times_the_fewest_messages() -> None:
    request = Request(Collective.ALL_GATHER, 16, 1000, 1)
    assert fastest([Forecast("ring", 15, 1.0), Forecast("halving_doubling", 4, 1.0)], request, 0.0) == "halving_doubling"
    assert time_ns(Forecast("ring", 15, 1.0), request, 10.0) == 15 * 10 + 16 * 1000


# -- What it says -------------------------------------------------------------------------------------------------------


def test_results_say_what_was_taken_and_why() -> None:
    (chosen,) = run("clos?npus=64&ports=16&oversubscription=3", 1 << 20, AWARE).to_dict()["algorithms"]
    assert {key: chosen[key] for key in ("dimension", "collective", "algorithm", "bytes")} == {
        "dimension": 0,
        "collective": "all_reduce",
        "algorithm": "halving_doubling",
        "bytes": 1 << 20,
    }
    assert re.fullmatch(
        r"auto: halving_doubling [\d.]+ us in 6 messages, ring [\d.]+ us in 63 messages, direct [\d.]+ us in 63 messages", chosen["reason"]
    )
    (asked,) = run("clos?npus=64&ports=16", 1 << 20, all_reduce="direct").algorithms
    assert (asked.algorithm, asked.reason) == ("direct", "")
    (other,) = run("clos?npus=1040", 1 << 20).algorithms
    assert (other.algorithm, other.reason) == ("ring", "auto: 1040 ranks are no power of two")


@pytest.mark.parametrize(
    ("spec", "switched", "all_reduce", "all_to_all"),
    [
        ("mesh?sizes=4096", False, "ring", "ring"),
        ("clos?npus=65536&rails=8&levels=3", True, "halving_doubling", "direct"),
        ("clos?npus=49152&rails=8&levels=3", True, "ring", "direct"),
    ],
)
def test_a_graph_that_is_too_large_goes_by_the_rule_of_a_ring_or_a_switch(
    spec: str, switched: bool, all_reduce: str, all_to_all: str
) -> None:
    platform = platform_of(f"{spec}&{LINK}")
    assert forecasts_of(platform, 0, False) == ()
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
