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
    compiled = _core.Sharing(capacity)
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
    compiled = _core.Sharing(capacity)
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
    compiled = _core.Sharing([LARGEST - 1, LARGEST - 1])
    first = [compiled.add(1, None, [(0, 1)]) for _ in range(3)]
    compiled.settle()
    second = [compiled.add(1, None, [(1, 1)]) for _ in range(7)]
    compiled.settle()
    for number in second[:4]:
        compiled.remove(number)
    assert sorted(compiled.settle()) == sorted(second[4:])
    assert {compiled.rate(number) for number in (*first, *second[4:])} == {(LARGEST - 1) // 3}


def test_flows_of_lower_levels_are_left_alone() -> None:
    compiled = _core.Sharing([100 << 30, 300 << 30])
    slow = [compiled.add(1, None, [(0, 1), (1, 1)]) for _ in range(2)]
    fast = [compiled.add(1, None, [(1, 1)]) for _ in range(2)]
    compiled.settle()
    assert [compiled.rate(flow) >> 30 for flow in (*slow, *fast)] == [50, 50, 100, 100]
    compiled.remove(fast[0])
    assert compiled.settle() == [fast[1]]
    assert compiled.rate(fast[1]) >> 30 == 200


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: _core.Sharing([0]),
        lambda: _core.Sharing([8]).add(1, None, []),
        lambda: _core.Sharing([8]).add(0, None, [(0, 1)]),
        lambda: _core.Sharing([8]).add(1, 0, [(0, 1)]),
        lambda: _core.Sharing([8]).add(1, None, [(1, 1)]),
        lambda: _core.Sharing([8]).remove(0),
        lambda: _core.Sharing([8]).rate(-1),
    ],
)
def test_arguments_that_cannot_be_are_errors(wrong: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=r"a capacity|a flow|a weight"):
        wrong()
