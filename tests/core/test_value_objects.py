"""Value objects: they compare, hash and print as classes of attrs do."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import attrs
import pytest
from astra_sim.value_objects import ValueObject
from hypothesis import given
from hypothesis import strategies as st


@attrs.frozen
class Plain:
    number: Any
    _hidden: Any = 0
    items: Any = attrs.field(default=(), eq=tuple)
    note: Any = attrs.field(default="", eq=False, repr=False)


@attrs.frozen(eq=False, repr=False)
class Shared(ValueObject):
    number: Any
    _hidden: Any = 0
    items: Any = attrs.field(default=(), eq=tuple)
    note: Any = attrs.field(default="", eq=False, repr=False)


@attrs.frozen(eq=False, repr=False)
class Further(Shared):
    last: int = 0


@attrs.frozen(eq=False, repr=False)
class Single(ValueObject):
    number: int


@attrs.frozen(eq=False, repr=False)
class Empty(ValueObject):
    pass


NUMBERS = st.sampled_from([0, 0.0, 1, True, "a", None])
ITEMS = st.sampled_from([(), [], (1,), [1]])
VALUES = st.tuples(NUMBERS, st.integers(0, 1), ITEMS, st.text(max_size=1))


@given(VALUES, VALUES)
def test_value_objects_compare_hash_and_print_as_attrs_does(first: tuple[Any, ...], second: tuple[Any, ...]) -> None:
    plain, shared = (Plain(*first), Plain(*second)), (Shared(*first), Shared(*second))
    assert (shared[0] == shared[1]) is (plain[0] == plain[1])
    assert (shared[0] != shared[1]) is (plain[0] != plain[1])
    assert repr(shared[0]) == repr(plain[0]).replace("Plain", "Shared")
    if shared[0] == shared[1]:
        assert hash(shared[0]) == hash(shared[1])
    assert shared[0] == copy.deepcopy(shared[0]) == pickle.loads(pickle.dumps(shared[0]))


def test_classes_differ_with_equal_values() -> None:
    assert Shared(1) != Further(1)
    assert Further(1, last=1) != Further(1)
    assert repr(Further(1)) == "Further(number=1, _hidden=0, items=(), last=0)"
    assert Single(1) == Single(1) != Single(2)
    assert len({Empty(), Empty(), Single(1), Single(1)}) == 2
    assert Single(1) != 1


def test_values_that_cannot_be_hashed_are_refused() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(Shared([]))
