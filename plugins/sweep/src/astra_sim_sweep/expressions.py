"""Small expressions over named values, such as `batch / (dp * pp)`: allowed in an experiment file, and no other Python."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from astra_sim import InputError
from astra_sim.errors import suggestion

_LONGEST = 1000
_MOST_BITS = 1024
"""Whole numbers of more bits are an error, so that no expression takes long."""

Scope = Mapping[str, Any]
"""Values by name. A name with dots, such as `network.payload_bytes`, is a key of its own, or leads through tables and lists."""

_Code = Callable[[Scope], Any]


class Expression:
    """An expression over names, read once and evaluated often.

    It has numbers, text, lists, names, + - * / // % **, comparisons, `in`, `and`, `or`, `not`, `A if B else C`, and the functions min, max,
    abs, round, ceil, floor and log2. `/` of integers is an integer if it divides. A name may have dots, and positions
    in brackets. Raises InputError, which begins with `where`, for anything else.
    """

    def __init__(self, text: str, where: str) -> None:
        self.text = text
        self.where = where
        self._names: dict[str, tuple[str, _Code]] = {}
        try:
            if len(text) > _LONGEST:
                raise ValueError(f"more than {_LONGEST} characters")
            self._code = self._read(ast.parse(text.strip(), mode="eval").body)
        except (SyntaxError, RecursionError, MemoryError):
            raise self._error("not an expression") from None
        except ValueError as error:
            raise self._error(str(error)) from None

    def __reduce__(self) -> tuple[Any, ...]:
        return Expression, (self.text, self.where)

    @property
    def names(self) -> set[str]:
        """The names in it, with dots for brackets."""
        return set(self._names)

    def parts(self, scope: Scope) -> dict[str, Any]:
        """The values of the names in it, by name as it is written there. Raises InputError if there is none."""
        try:
            return {written: look_up(scope) for written, look_up in self._names.values()}
        except LookupError as error:
            raise self._error(str(error.args[0])) from None

    def value(self, scope: Scope) -> Any:
        """The value for the names in `scope`. Raises InputError if there is none."""
        try:
            return self._code(scope)
        except ZeroDivisionError:
            raise self._error("division by zero") from None
        except OverflowError:
            raise self._error("the value is too large") from None
        except (ValueError, LookupError) as error:
            raise self._error(str(error.args[0] if error.args else error)) from None

    def holds(self, scope: Scope) -> bool:
        """Whether a condition is true. Raises InputError if its value is not true or false."""
        value = self.value(scope)
        if not isinstance(value, bool):
            raise self._error(f"the value is {value!r}; expected true or false")
        return value

    def check_names(self, known: Sequence[str]) -> None:
        """Raise InputError if a name is not known."""
        for name in sorted(self.names):
            if name not in known:
                raise self._error(f"there is no {name!r}; {suggestion(name, known)}")

    def _error(self, reason: str) -> InputError:
        return InputError(f"{self.where}: {self.text!r}: {reason}")

    def _read(self, node: ast.expr) -> _Code:
        """The evaluator of a node. Raises ValueError for one that is not allowed in an expression."""
        match node:
            case ast.Constant(value=bool() | int() | float() | str() as value):
                return lambda _: value
            case ast.Name(id="true" | "false" as name):
                return lambda _: name == "true"
            case ast.Name() | ast.Attribute() | ast.Subscript():
                return self._name(node)
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                codes = [self._read(part) for part in parts]
                return lambda scope: [code(scope) for code in codes]
            case ast.BinOp(left=left, op=operation, right=right) if type(operation) in _BINARY:
                return _binary(_BINARY[type(operation)], self._read(left), self._read(right))
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Not() as sign, operand=operand):
                return _unary(sign, self._read(operand))
            case ast.BoolOp() | ast.IfExp() | ast.Compare():
                return self._read_condition(node)
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS and arguments:
                return _call(name, [self._read(argument) for argument in arguments])
            case ast.Call(func=ast.Name(id=name)):
                raise ValueError(f"{name}() is not one of the functions {', '.join(_FUNCTIONS)} of numbers")
        raise ValueError(f"{ast.unparse(node)!r} has no place in an expression")

    def _read_condition(self, node: ast.expr) -> _Code:
        """The evaluator of a node of true and false. Raises ValueError for a comparison of another kind."""
        match node:
            case ast.BoolOp(op=operation, values=parts):
                codes = [self._read(part) for part in parts]
                whole = all if isinstance(operation, ast.And) else any
                return lambda scope: whole(_truth(code(scope)) for code in codes)
            case ast.IfExp(test=test, body=body, orelse=other):
                condition, then, otherwise = self._read(test), self._read(body), self._read(other)
                return lambda scope: then(scope) if _truth(condition(scope)) else otherwise(scope)
            case ast.Compare(left=left, ops=operations, comparators=others) if all(type(each) in _COMPARISONS for each in operations):
                codes = [self._read(part) for part in (left, *others)]
                return _comparison(codes, [_COMPARISONS[type(each)] for each in operations])
        raise ValueError(f"{ast.unparse(node)!r} has no place in an expression")

    def _name(self, node: ast.expr) -> _Code:
        """The lookup of a name: as a whole (`a.b.0` may be a column), else step by step through tables and lists."""
        path: list[str | int] = []
        part = node
        while not isinstance(part, ast.Name):
            match part:
                case ast.Attribute(value=inner, attr=name):
                    path.append(name)
                case ast.Subscript(value=inner, slice=ast.Constant(value=int() | str() as position)):
                    path.append(position)
                case _:
                    raise ValueError(f"{ast.unparse(node)!r} is not a name")
            part = inner
        path.append(part.id)
        path.reverse()
        whole = ".".join(map(str, path))

        def look_up(scope: Scope) -> Any:
            return scope[whole] if whole in scope else _walk(scope, path)

        self._names[whole] = ast.unparse(node), look_up
        self._names[whole] = ast.unparse(node), look_up
        return look_up


def _unary(sign: ast.unaryop, code: _Code) -> _Code:
    if isinstance(sign, ast.Not):
        return lambda scope: not _truth(code(scope))
    return (lambda scope: -_number(code(scope))) if isinstance(sign, ast.USub) else (lambda scope: _number(code(scope)))


def shown(value: Any) -> str:
    """A value for people."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.10g}"


def _walk(scope: Scope, path: Sequence[str | int]) -> Any:
    """The value at the end of a path through tables and lists. Raises LookupError, naming the first step that leads nowhere."""
    value: Any = scope
    for number, step in enumerate(path):
        so_far = ".".join(map(str, path[: number + 1]))
        if isinstance(value, Mapping):
            if step not in value:
                raise LookupError(f"there is no {so_far!r}; {suggestion(step, map(str, value))}")
        elif isinstance(value, list):
            if not isinstance(step, int) or not 0 <= step < len(value):
                raise LookupError(f"there is no {so_far!r}; expected a position from 0 to {len(value) - 1}")
        else:
            raise LookupError(f"there is no {so_far!r}: its parent is {value!r}")
        value = value[step]
    return value


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{value!r} is not a number")
    return value


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is not true or false")
    return value


def _binary(operation: Callable[[Any, Any], Any], left: _Code, right: _Code) -> _Code:
    """The evaluator of an operation on two numbers; its value must be real and not too large."""

    def evaluate(scope: Scope) -> Any:
        one, other = _number(left(scope)), _number(right(scope))
        value = operation(one, other)
        if isinstance(value, complex):
            raise ValueError("the value is not a real number")
        if isinstance(value, float) and not math.isfinite(value) and math.isfinite(one) and math.isfinite(other):
            raise ValueError("the value is too large")
        if isinstance(value, int) and value.bit_length() > _MOST_BITS:
            raise ValueError("the value is too large")
        return value

    return evaluate


def _divide(left: Any, right: Any) -> Any:
    """A quotient: a whole number of whole numbers if there is one."""
    if isinstance(left, int) and isinstance(right, int) and right and left % right == 0:
        return left // right
    return left / right


def _power(base: Any, exponent: Any) -> Any:
    if isinstance(base, int) and isinstance(exponent, int) and base.bit_length() * abs(exponent) > 2 * _MOST_BITS:
        raise ValueError("the value is too large")
    return base**exponent


def _comparison(codes: Sequence[_Code], operations: Sequence[Callable[[Any, Any], bool]]) -> _Code:
    """The evaluator of a chain such as a < b < c, from the left to the first comparison that does not hold."""

    def evaluate(scope: Scope) -> bool:
        left = codes[0](scope)
        for code, operation in zip(codes[1:], operations, strict=True):
            right = code(scope)
            if not operation(left, right):
                return False
            left = right
        return True

    return evaluate


def _ordered(operation: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    return lambda left, right: operation(_number(left), _number(right))


def _is_in(value: Any, among: Any) -> bool:
    if not isinstance(among, (list, tuple)):
        raise ValueError(f"{among!r} is not a list")
    return value in among


def _call(name: str, arguments: Sequence[_Code]) -> _Code:
    function, most = _FUNCTIONS[name]
    if most is not None and len(arguments) > most:
        raise ValueError(f"{name}() has {len(arguments)} arguments; expected {most}")
    return lambda scope: function(*(_number(argument(scope)) for argument in arguments))


def _log2(value: Any) -> Any:
    """A logarithm: a whole number of a power of two."""
    exact = isinstance(value, int) and value > 0 and value & (value - 1) == 0
    return value.bit_length() - 1 if exact else math.log2(value)


def _least(*values: Any) -> Any:
    return min(values)


def _most(*values: Any) -> Any:
    return max(values)


_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _divide,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: _ordered(operator.lt),
    ast.LtE: _ordered(operator.le),
    ast.Gt: _ordered(operator.gt),
    ast.GtE: _ordered(operator.ge),
    ast.In: _is_in,
    ast.NotIn: lambda value, among: not _is_in(value, among),
}
_FUNCTIONS: dict[str, tuple[Callable[..., Any], int | None]] = {
    "min": (_least, None),
    "max": (_most, None),
    "abs": (abs, 1),
    "round": (round, 1),
    "ceil": (math.ceil, 1),
    "floor": (math.floor, 1),
    "log2": (_log2, 1),
}
"""Functions, and how many arguments they take; None: any number."""
