"""The boundary to plugins: their exceptions and invalid results become errors that name them."""

from __future__ import annotations

import contextlib
import functools
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from types import CodeType, FunctionType
from typing import Any, ClassVar, TypeVar

import attrs

from astra_sim._deprecation import adopt_former_names
from astra_sim.errors import AstraError, InputError, PluginError, in_figures
from astra_sim.value_objects import ValueObject

MAX_PICOSECONDS = 2**63 - 1
"""Times are 64-bit numbers: a bit over 106 days."""

LONGEST_TIME = "9223372.036854775807 s (106.75 days)"
"""The condition, as messages phrase it."""


class Lazily:
    """A text that is made only if it is needed: in the message of an error."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[], str]) -> None:
        self._make = make

    def __str__(self) -> str:
        return self._make()


def call(what: str | Lazily, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a plugin's function. Its exceptions become a PluginError that begins with `what`.

    That holds for SystemExit too, which would end the run silently. KeyboardInterrupt is the user's, and passes.
    """
    try:
        return function(*arguments)
    except (AstraError, MemoryError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise PluginError(f"{what} failed: {describe_exception(error)}") from error


@contextlib.contextmanager
def contain_exits() -> Iterator[None]:
    """Convert exceptions of plugin code to a PluginError that names its place, including those that end Python (SystemExit and others).

    This is for functions that are called too often, or in too many places, to `call` each. KeyboardInterrupt passes, and errors of our own.
    In the command `astra` meanwhile output of plugins goes to standard error.
    """
    try:
        with contextlib.redirect_stdout(sys.stderr) if _to_errors else contextlib.nullcontext():
            yield
    except (AstraError, MemoryError, KeyboardInterrupt):
        raise
    except BaseException as error:
        place = _place(error)
        if isinstance(error, Exception) and not place:
            raise
        raise PluginError(f"a plugin failed{place}: {describe_exception(error)}") from error


_to_errors: list[bool] = []


@contextlib.contextmanager
def printing_to_errors() -> Iterator[None]:
    """Redirect the output of plugins to standard error."""
    _to_errors.append(True)
    try:
        yield
    finally:
        _to_errors.pop()


_OWN = {"astra_sim", "attr", "attrs", "cattr", "cattrs", "click", "pluggy", *sys.stdlib_module_names} - {"__main__"}
_OF_USERS: set[CodeType] = set()
_Function = TypeVar("_Function", bound=Callable[..., Any])


def of_user(function: _Function) -> _Function:
    """Mark a function that calls the user's own: its exceptions are not the fault of a plugin."""
    _OF_USERS.add(function.__code__)
    return function


def _place(error: BaseException) -> str:
    """The place in a plugin's code that raised an error, for messages; "" if none did."""
    place, part = "", error.__traceback__
    while part is not None:
        code, module = part.tb_frame.f_code, part.tb_frame.f_globals.get("__name__", "")
        if code in _OF_USERS:
            return ""
        if module and str(module).partition(".")[0] not in _OWN:
            place = f" in {module}, {code.co_qualname}, line {part.tb_lineno}"
        part = part.tb_next
    return place


def describe_exception(error: BaseException) -> str:
    """The type and message of an exception that a plugin raised."""
    return f"{type(error).__name__}: {_text(str, error)}"


def function_name(function: object) -> str:
    """The source of a plugin's function, in brackets, for messages; "" if unknown."""
    name, module = getattr(function, "__qualname__", None), getattr(function, "__module__", None)
    return f" ({name} of {module})" if isinstance(name, str) and isinstance(module, str) else ""


def shown(value: object) -> str:
    """A value for a message; one that cannot be shown by its type."""
    return _text(repr, value)


def _text(make: Callable[[Any], str], value: object) -> str:
    try:
        return make(value)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return f"<{type(value).__name__} without text>"


@attrs.frozen(eq=False, repr=False)
class Expected(ValueObject):
    """A condition on a value: `holds` checks the value and the object that it belongs to; `words` describes the condition in messages.

    It serves as validator of attrs, too.
    """

    words: str
    holds: Callable[[Any, Any], bool]

    def __call__(self, instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
        """Raise PluginError unless the value of a field is right."""
        if not self.is_right(value, instance):
            raise PluginError(f"{type(instance).__name__}: {attribute.name} is {shown(value)}; expected {self.words}")

    def is_right(self, value: object, owner: object) -> bool:
        """Whether a value is as expected. One that cannot be looked at is not."""
        try:
            return bool(self.holds(value, owner))
        except (KeyboardInterrupt, MemoryError):
            raise
        except BaseException:
            return False

    def optional(self) -> Expected:
        """The same, or None."""
        return Expected(f"{self.words}, or None", lambda value, owner: value is None or self.holds(value, owner))


def whole(least: int, most: int = MAX_PICOSECONDS) -> Expected:
    """A whole number within bounds."""
    right = f"a whole number from {least} to {most}"
    return Expected(right, lambda value, owner: type(value) is int and least <= value <= most)


def of_type(words: str, *classes: type) -> Expected:
    """An object of one of some classes."""
    return Expected(words, lambda value, owner: isinstance(value, classes))


def _are_each(values: Any, owner: Any, one: Expected, among: tuple[type, ...]) -> bool:
    is_one: bool = isinstance(values, among)
    return is_one and all(one.holds(value, owner) for value in values)


def each(words: str, one: Expected, *classes: type) -> Expected:
    """Several values (a list or a tuple, or of other `classes`), each of which is as expected."""
    among = classes or (list, tuple)
    return Expected(words, lambda values, owner: _are_each(values, owner, one, among))


def _is_finite(value: Any, least: float) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and least <= value < math.inf and math.isfinite(float(value))


TIME = whole(0)
COUNT = whole(0)
FLAG = of_type("True or False", bool)
TEXT = of_type("text", str)
NOT_NEGATIVE = Expected("a finite number of at least 0", lambda value, owner: _is_finite(value, 0))
POSITIVE = Expected("a finite number above 0", lambda value, owner: _is_finite(value, 0) and value > 0)
FUNCTION = Expected("something that can be called", lambda value, owner: callable(value))
FIGURES = Expected(
    "finite figures by name, ready for JSON",
    lambda value, owner: isinstance(value, Mapping) and all(isinstance(key, str) for key in value) and bool(_json(value)),
)
TEXTS = Expected(
    "texts by name",
    lambda value, owner: isinstance(value, Mapping) and all(isinstance(text, str) for pair in value.items() for text in pair),
)


def _json(value: Mapping[str, Any]) -> str:
    import json

    return json.dumps(dict(value), allow_nan=False)


class Contract:
    """The base of the classes that a plugin derives its components from.

    `_attributes` describes the attributes of a component: `checked` tests them when it is made. `_answers` describes the values that its
    methods must return: on every call of a method that a plugin defines, the result is checked, and an exception becomes a PluginError that
    names the class and the method. Methods whose callers do both need no place there.
    """

    _kind: ClassVar[str]
    _attributes: ClassVar[Mapping[str, Expected]] = {}
    _answers: ClassVar[Mapping[str, Expected]] = {}

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if _is_own(cls):
            return
        adopt_former_names(cls)
        for name, expected in cls._answers.items():
            method = vars(cls).get(name)
            if isinstance(method, FunctionType):
                setattr(cls, name, _answering(method, name, expected))


def _named(component: Contract) -> str:
    return f"{component._kind} {type(component).__name__}"


def _is_own(cls: type) -> bool:
    return cls.__module__.startswith("astra_sim.")


def _answering(method: FunctionType, name: str, expected: Expected) -> Callable[..., Any]:
    """A method whose answer is looked at."""

    @functools.wraps(method)
    def answering(self: Contract, *arguments: Any, **named: Any) -> Any:
        try:
            answer = method(self, *arguments, **named)
        except (AstraError, MemoryError, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise PluginError(f"{_named(self)}: {name} failed: {describe_exception(error)}") from error
        if not expected.is_right(answer, self):
            raise PluginError(f"{_named(self)}: {name} returned {shown(answer)}; expected {expected.words}")
        return answer

    return answering


def checked(component: Any) -> Any:
    """A checked component of a plugin. Raises PluginError that names the class, the attribute and what is expected."""
    if not isinstance(component, Contract):
        return component
    what = _named(component)
    methods = {name: FUNCTION for cls in type(component).__mro__ if _is_own(cls) for name in _methods(cls)}
    expectations = {**methods, **component._attributes}
    for name, expected in expectations.items():
        value = call(f"{what}: {name}", getattr, component, name)
        if not expected.is_right(value, component):
            raise PluginError(f"{what}: {name} is {shown(value)}; expected {expected.words}")
    return component


@functools.cache
def _methods(cls: type) -> tuple[str, ...]:
    """The public methods that a class defines."""
    return tuple(name for name, member in vars(cls).items() if isinstance(member, FunctionType) and not name.startswith("_"))


def in_seconds(ps: float) -> str:
    """A long time, in words."""
    return f"{in_figures(ps / 10**12 if isinstance(ps, float) else ps // 10**12)} s"


def picoseconds(value: Any, what: str | Lazily) -> int:
    """A time that `what` gave, as whole picoseconds. Raises PluginError if it is not a time, InputError if it is too long."""
    if type(value) is int and 0 <= value <= MAX_PICOSECONDS:
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
        raise PluginError(f"{what} is {value!r}; expected a time of at least 0")
    if value > MAX_PICOSECONDS:
        raise InputError(f"{what} is {in_seconds(value)}; at most {LONGEST_TIME} can be simulated")
    return round(value)
