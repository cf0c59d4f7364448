"""Layers that repeat, as one line."""

from __future__ import annotations

import pytest
from astra_sim.report.repeated_layers import fold
from hypothesis import given
from hypothesis import strategies as st


def labels(names: list[str], figures: list[int] | None = None) -> list[str]:
    own = figures or [0] * len(names)
    return [each.label for each in fold(names, lambda first, other: own[first] == own[other])]


def blocks(count: int) -> list[str]:
    return [f"block{number}.{part}" for number in range(count) for part in ("norm", "attention", "mlp")]


def test_blocks_are_folded_layer_by_layer() -> None:
    assert labels(["embedding", *blocks(12), "head"]) == [
        "embedding",
        "12 x block*.norm",
        "12 x block*.attention",
        "12 x block*.mlp",
        "head",
    ]
    assert labels(["block"] * 12) == ["12 x block"]


def test_numbers_that_do_not_differ_stay() -> None:
    assert labels([f"stage2.block{number}.conv1" for number in range(5)]) == ["5 x stage2.block*.conv1"]


def test_what_differs_is_not_folded() -> None:
    names = [f"conv{number}" for number in range(6)]
    assert labels(names, [1, 1, 1, 1, 2, 3]) == ["4 x conv*", "conv4", "conv5"]
    assert labels(["a", "b", "c", "d", "e"]) == ["a", "b", "c", "d", "e"]


def test_blocks_within_a_block_are_folded_as_the_longer_one() -> None:
    names = [name for block in range(4) for name in ("norm", "norm", "norm", "norm", f"mlp{block}")]
    assert labels(names) == ["4 x norm"] * 4 + ["4 x mlp*"]


@pytest.mark.parametrize("count", [1, 2])
def test_few_repetitions_stay(count: int) -> None:
    assert labels(blocks(count)) == blocks(count)
    assert labels(["conv1", "conv2", "conv3"]) == ["conv1", "conv2", "conv3"]  # two lines are not worth it


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3), st.integers(0, 1)), max_size=40))
def test_every_layer_is_in_one_line_and_lines_have_what_is_alike(layers: list[tuple[str, int, int]]) -> None:
    names, figures = [f"{letter}{number}" for letter, number, _ in layers], [figure for *_, figure in layers]
    folded = fold(names, lambda first, other: figures[first] == figures[other])
    assert sorted(place for each in folded for place in each.places) == list(range(len(layers)))
    for each in folded:
        assert len({(names[place][0], figures[place]) for place in each.places}) == 1
        assert each.label == names[each.places[0]] or each.label.startswith(f"{len(each.places)} x ")


def test_many_layers_are_folded_soon() -> None:
    names = [f"layer{number}" for number in range(20_000)]
    calls = 0

    def alike(first: int, other: int) -> bool:
        nonlocal calls
        calls += 1
        return first % 7 == other % 7

    assert len(fold(names, alike)) == 7 + 20_000 % 7
    assert calls < 100 * len(names)
