"""Max-min fair shares: the definition, in Python and in C++."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("astra_sim_network_flow")

from astra_sim_network_flow import _core, sharing

Story = tuple[list[int], list[list[int | sharing.SharedFlow]]]
"""Capacities, and groups of flows that come (a Flow) and go (a number that says which)."""

EvenStory = tuple[list[int], list[tuple[list[list[int]], list[int]]]]
"""Capacities, and groups of flows that come (their links) and go (numbers that say which)."""

LARGEST = 1 << 50
FULL_WEIGHT = 1 << 50
NEAR = 1e-8
PARTS = st.sampled_from([Fraction(1), Fraction(1, 2), Fraction(1, 4), Fraction(1, 20), Fraction(3, 4)])


@st.composite
def flows(draw: st.DrawFn, links: int, weighted: bool) -> sharing.SharedFlow:
    used = draw(st.lists(st.integers(0, links - 1), min_size=1, max_size=4, unique=True))
    weight = Fraction(draw(st.integers(1 << 40, FULL_WEIGHT)) if weighted else 1)
    bound = draw(st.none() | st.integers(1 << 44, LARGEST).map(Fraction))
    return sharing.SharedFlow({link: draw(PARTS) if weighted else Fraction(1) for link in used}, weight, bound)


@st.composite
def stories(draw: st.DrawFn) -> Story:
    weighted = draw(st.booleans())
    capacity = draw(st.lists(st.integers(1 << 44, LARGEST) | st.sampled_from([LARGEST, LARGEST // 2]), min_size=1, max_size=6))
    step = st.one_of(flows(len(capacity), weighted), flows(len(capacity), weighted), st.integers(0, 20))
    return capacity, draw(st.lists(st.lists(step, min_size=1, max_size=4), min_size=1, max_size=8))


def weights(flow: sharing.SharedFlow) -> list[tuple[int, int]]:
    return [(link, max(1, round(flow.weight * part))) for link, part in flow.links.items()]


def as_compiled(flow: sharing.SharedFlow) -> sharing.SharedFlow:
    """The flow with the parts that whole weights leave of it."""
    return sharing.SharedFlow({link: Fraction(weight) / flow.weight for link, weight in weights(flow)}, flow.weight, flow.bound)


@given(stories())
@settings(max_examples=120, deadline=None)
def test_rates_that_are_computed_piece_by_piece_are_those_of_all_flows_at_once(
    story: Story,
) -> None:
    capacity, groups = story
    compiled = _core.WeightedSharing(capacity)
    there: dict[int, sharing.SharedFlow] = {}
    for group in groups:
        for step in group:
            if isinstance(step, int):
                if there:
                    gone = sorted(there)[step % len(there)]
                    compiled.remove(gone)
                    del there[gone]
            else:
                number = compiled.add(int(step.weight), None if step.bound is None else int(step.bound), weights(step))
                there[number] = as_compiled(step)
        compiled.settle()
        expected = sharing.max_min([Fraction(each) for each in capacity], list(there.values()))
        assert [compiled.rate(number) for number in there] == [pytest.approx(float(rate), rel=NEAR) for rate in expected]


@given(stories())
@settings(max_examples=80, deadline=None)
def test_no_flow_can_have_more_without_taking_from_one_of_a_level_as_low(story: Story) -> None:
    capacity, groups = story
    all_flows = [as_compiled(step) for group in groups for step in group if not isinstance(step, int)]
    if not all_flows:
        return
    compiled = _core.WeightedSharing(capacity)
    numbers = [compiled.add(int(flow.weight), None if flow.bound is None else int(flow.bound), weights(flow)) for flow in all_flows]
    compiled.settle()
    for rates, spare in (
        (sharing.max_min([Fraction(each) for each in capacity], all_flows), Fraction(0)),
        ([Fraction(compiled.rate(number)) for number in numbers], Fraction(NEAR)),
    ):
        check_bottlenecks([Fraction(each) for each in capacity], all_flows, rates, spare)


def check_bottlenecks(capacity: list[Fraction], all_flows: list[sharing.SharedFlow], rates: list[Fraction], spare: Fraction) -> None:
    """No link carries more than it can. Each flow has its bound, or a full link on which no level is higher than its own."""
    levels = [rate / flow.weight for flow, rate in zip(all_flows, rates, strict=True)]
    carried = [sum(flow.links.get(link, 0) * rate for flow, rate in zip(all_flows, rates, strict=True)) for link in range(len(capacity))]
    assert all(load <= limit * (1 + spare) for load, limit in zip(carried, capacity, strict=True))
    for flow, rate, level in zip(all_flows, rates, levels, strict=True):
        bounded = flow.bound is not None and rate >= flow.bound * (1 - spare)
        full = [link for link in flow.links if carried[link] >= capacity[link] * (1 - spare)]
        highest = [max(at for other, at in zip(all_flows, levels, strict=True) if link in other.links) for link in full]
        assert bounded or any(level >= top * (1 - spare) for top in highest)


def test_flows_that_are_alike_have_the_very_same_rate_whatever_came_before() -> None:
    compiled = _core.WeightedSharing([LARGEST - 1, LARGEST - 1])
    first = [compiled.add(1, None, [(0, 1)]) for _ in range(3)]
    compiled.settle()
    second = [compiled.add(1, None, [(1, 1)]) for _ in range(7)]
    compiled.settle()
    for number in second[:4]:
        compiled.remove(number)
    assert sorted(compiled.settle()) == sorted(second[4:])
    assert {compiled.rate(number) for number in (*first, *second[4:])} == {(LARGEST - 1) // 3}


def test_flows_of_lower_levels_are_left_alone() -> None:
    compiled = _core.WeightedSharing([100 << 30, 300 << 30])
    slow = [compiled.add(1, None, [(0, 1), (1, 1)]) for _ in range(2)]
    fast = [compiled.add(1, None, [(1, 1)]) for _ in range(2)]
    compiled.settle()
    assert [compiled.rate(flow) >> 30 for flow in (*slow, *fast)] == [50, 50, 100, 100]
    compiled.remove(fast[0])
    assert compiled.settle() == [fast[1]]
    assert compiled.rate(fast[1]) >> 30 == 200


@st.composite
def even_stories(draw: st.DrawFn) -> EvenStory:
    capacity = draw(st.lists(st.integers(1 << 44, LARGEST) | st.sampled_from([LARGEST, LARGEST // 2]), min_size=1, max_size=12))
    link = st.integers(0, len(capacity) - 1)
    come = st.lists(link, min_size=1, max_size=5, unique=True)
    group = st.tuples(st.lists(come, max_size=20), st.lists(st.integers(0, 200), max_size=12))
    return capacity, draw(st.lists(group, min_size=1, max_size=15))


@given(even_stories())
@settings(max_examples=150, deadline=None)
def test_flows_of_equal_weights_have_the_very_same_rates_group_by_group_and_one_by_one(story: EvenStory) -> None:
    capacity, groups = story
    even, weighted = _core.EvenSharing(capacity), _core.WeightedSharing(capacity)
    there: dict[int, list[int]] = {}
    rates: dict[int, int] = {}
    for come, go in groups:
        for links in come:
            number = even.add(links)
            assert weighted.add(1, None, [(link, 1) for link in links]) == number
            there[number] = links
        for each in go:
            if there:
                gone = sorted(there)[each % len(there)]
                even.remove(gone)
                weighted.remove(gone)
                del there[gone]
                rates.pop(gone, None)
        told = {number: even.rate(number) for number in even.settle()}
        weighted.settle()
        rates |= told
        assert rates == {number: weighted.rate(number) for number in there}
        assert rates == {number: even.rate(number) for number in there}
    expected = sharing.max_min(
        [Fraction(each) for each in capacity], [sharing.SharedFlow(dict.fromkeys(links, Fraction(1))) for links in there.values()]
    )
    assert [rates[number] for number in there] == [pytest.approx(float(rate), rel=NEAR) for rate in expected]


def test_flows_of_a_link_that_carried_more_than_it_can_get_what_others_leave() -> None:
    """Rates are 1 at least, so links 1 and 2 take more of link 0 than their levels say: its other flows have a lower one."""
    even = _core.EvenSharing([51, 24, 7])
    first = [even.add([0, 1]) for _ in range(40)]
    second = [even.add([0, 2]) for _ in range(10)]
    alone = [even.add([0]) for _ in range(2)]
    even.settle()
    assert {even.rate(number) for number in (*first, *second, *alone)} == {1}
    for number in first:
        even.remove(number)
    even.settle()
    assert [even.rate(number) for number in (*second, *alone)] == [1] * 10 + [20] * 2


def test_a_group_is_looked_at_again_after_many_of_its_flows_have_gone() -> None:
    """The links that no flow of a group crosses any more are forgotten: the list of those that it crosses is made anew."""
    count = 64
    shared = 0
    even = _core.EvenSharing([LARGEST // 2, *([LARGEST] * count)])
    numbers = [even.add([shared, link]) for link in range(1, count + 1)]
    even.settle()
    for number in numbers[4:]:
        even.remove(number)
    even.settle()
    new = even.add([shared, 3])
    even.settle()
    alone = even.add([count])
    even.settle()
    assert [even.rate(number) for number in (*numbers[:4], new)] == [LARGEST // 2 // 5] * 5
    assert even.rate(alone) == LARGEST


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: _core.WeightedSharing([0]),
        lambda: _core.WeightedSharing([8]).add(1, None, []),
        lambda: _core.WeightedSharing([8]).add(0, None, [(0, 1)]),
        lambda: _core.WeightedSharing([8]).add(1, 0, [(0, 1)]),
        lambda: _core.WeightedSharing([8]).add(1, None, [(1, 1)]),
        lambda: _core.EvenSharing([0]),
        lambda: _core.EvenSharing([8]).add([]),
        lambda: _core.EvenSharing([8]).add([1]),
        lambda: _core.EvenSharing([8]).remove(0),
        lambda: _core.WeightedSharing([8]).remove(0),
        lambda: _core.WeightedSharing([8]).rate(-1),
    ],
)
def test_arguments_that_cannot_be_are_errors(wrong: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=r"a capacity|a flow|a weight"):
        wrong()
