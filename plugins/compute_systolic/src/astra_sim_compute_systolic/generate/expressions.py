"""Whole numbers written as arithmetic over named parameters, such as "3 * hidden"."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping

from astra_sim import InputError
from astra_sim.errors import suggestion

_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}
_MAX_LENGTH, _MAX_VALUE = 200, 1 << 62


def evaluate(text: str, parameters: Mapping[str, int], where: str) -> int:
    """The value of an expression of whole numbers, parameters, + - * // and brackets. Raises InputError."""
    try:
        if len(text) > _MAX_LENGTH:
            raise ValueError(f"more than {_MAX_LENGTH} characters")
        value = _value(ast.parse(text.strip(), mode="eval").body, parameters)
    except (SyntaxError, ValueError, ZeroDivisionError) as error:
        reason = "not an expression" if isinstance(error, SyntaxError) else str(error)
        raise InputError(f"{where}: {text!r}: {reason}; expected whole numbers, parameters, + - * // and brackets") from None
    return value


def _value(node: ast.expr, parameters: Mapping[str, int]) -> int:
    """The value of a node of an expression. Raises ValueError; also for parts that are too large, before a product of them is made."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        value = node.value
    elif isinstance(node, ast.Name):
        if node.id not in parameters:
            raise ValueError(f"there is no parameter {node.id!r} ({suggestion(node.id, parameters)})")
        value = parameters[node.id]
    elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        value = _OPERATORS[type(node.op)](_value(node.left, parameters), _value(node.right, parameters))
    else:
        raise ValueError("not an expression of whole numbers")
    if abs(value) > _MAX_VALUE:
        raise ValueError("the value is too large")
    return value
