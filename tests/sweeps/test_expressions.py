"""Expressions of sweeps and budgets: what they may say, and what is refused."""

from __future__ import annotations

import math
import pickle
from typing import Any

import pytest
from astra_sim import InputError
from astra_sim_sweep.expressions import Expression
from hypothesis import given
from hypothesis import strategies as st

SCOPE: dict[str, Any] = {
    "batch": 64,
    "dp": 8,
    "pp": 4,
    "share": 0.25,
    "network": "plugin:packet",
    "system.splits": 16,
    "platform.dimensions.1.size": 32,
    "result": {"layers": [{"compute_ns": 7}], "cost": None},
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("batch / (dp * pp)", 2),
        ("batch / 3", 64 / 3),
        ("-batch // 3 + 2 ** dp % 7", -22 + 4),
        ("min(dp, pp, 9) + max(dp, pp)", 12),
        ("ceil(batch / 7) - floor(2.5) + abs(-1) + round(1.6)", 10 - 2 + 1 + 2),
        ("log2(batch)", 6),
        ("log2(6)", math.log2(6)),
        ("dp * pp == 32 and not batch < 64 or false", True),
        ("1 <= pp <= 4 < dp", True),
        ("'torus' if network != 'plugin:packet' else 'ring'", "ring"),
        ("network in ['plugin:packet', 'plugin:analytical']", True),
        ("dp not in (1, 2)", True),
        ("system.splits + platform.dimensions[1].size", 48),
        ("result.layers[0].compute_ns", 7),
        ("result['layers'][0]['compute_ns'] * share", 1.75),
    ],
)
def test_the_value_of_an_expression(text: str, value: Any) -> None:
    expression = Expression(text, "here")
    for each in (expression, pickle.loads(pickle.dumps(expression))):
        assert each.value(SCOPE) == value
        assert type(each.value(SCOPE)) is type(value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not an expression"),
        ("batch +", "not an expression"),
        ("__import__('os').system('ls')", "has no place in an expression"),
        ("open('f')", "open() is not one of the functions min, max, abs"),
        ("[x for x in y]", "has no place in an expression"),
        ("lambda: 1", "has no place in an expression"),
        ("(1).real", "is not a name"),
        ("f'{dp}'", "has no place in an expression"),
        ("dp is 8", "has no place in an expression"),
        ("ceil(1, 2)", "ceil() has 2 arguments; expected 1"),
        ("1j", "has no place in an expression"),
        ("x" * 2000, "more than 1000 characters"),
        ("(" * 300 + ")" * 300, "not an expression"),
    ],
)
def test_what_is_no_expression_is_refused_when_it_is_read(text: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        Expression(text, "sweep.toml: derive: key")
    assert str(caught.value).startswith("sweep.toml: derive: key: ")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1 / (dp - 8)", "division by zero"),
        ("1e308 * dp", "the value is too large"),
        ("network * 3", "'plugin:packet' is not a number"),
        ("dp and true", "8 is not true or false"),
        ("2 ** 100000", "the value is too large"),
        ("9 ** 9 ** 9", "the value is too large"),
        ("(2 ** 1000) * (2 ** 1000)", "the value is too large"),
        ("(-8) ** 0.5", "not a real number"),
        ("10.0 ** 400", "the value is too large"),
        ("log2(0)", "here: 'log2(0)'"),
        ("network < 3", "'plugin:packet' is not a number"),
        ("dp in network", "'plugin:packet' is not a list"),
        ("bath", "there is no 'bath'; did you mean 'batch'?"),
        ("result.layers[1]", "there is no 'result.layers.1'; expected a position from 0 to 0"),
        ("result.cost.usd", "there is no 'result.cost.usd': its parent is None"),
    ],
)
def test_what_has_no_value_says_why(text: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        Expression(text, "here").value(SCOPE)
    assert words.lower() in str(caught.value).lower()


def test_a_condition_is_true_or_false() -> None:
    assert Expression("dp == 8", "here").holds(SCOPE) is True
    with pytest.raises(InputError, match="the value is 8; expected true or false"):
        Expression("dp", "here").holds(SCOPE)


def test_names_are_checked_before_a_run() -> None:
    Expression("batch + system.splits", "here").check_names(list(SCOPE))
    with pytest.raises(InputError, match=r"there is no 'bacth'; did you mean 'batch'\?"):
        Expression("bacth + 1", "here").check_names(list(SCOPE))


@given(a=st.integers(-1000, 1000), b=st.integers(-1000, 1000), c=st.floats(-1e6, 1e6))
def test_arithmetic_is_that_of_python(a: int, b: int, c: float) -> None:
    scope = {"a": a, "b": b, "c": c}
    for text in ("a + b * c", "a - b - c", "(a + 1) * (b - 2)", "-a * c + abs(b)", "max(a, b, c) - min(a, b)"):
        assert Expression(text, "here").value(scope) == eval(text, {}, scope)
    if b:
        assert Expression("a / b", "here").value(scope) == a / b
        assert isinstance(Expression("a / b", "here").value(scope), int) is (a % b == 0)
