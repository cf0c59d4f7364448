"""A component of a random kind with a random fault: an attribute or an answer that is of another type, out of range, or raises.

- The run succeeds, and its figures are finite, or it ends with an AstraError that names the plugin.
- Both engines say the same.
- No case takes longer than its size allows.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import io
import json
import math
import signal
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import astra_sim
import attrs
from astra_sim import AstraError, CollectiveProvider, PluginError, Provider, SchedulerProvider, hookimpl, write_reports
from astra_sim.engine.orders import RuleOrder
from astra_sim.files import Table
from astra_sim.graph import ExecutionGraph
from astra_sim.platform import Preset
from astra_sim.providers import options_of
from astra_sim.setup.engines import compiled_engine
from astra_sim.setup.plugin_modules import KINDS
from astra_sim.setup.plugins import Plugins, shared_plugins

IN_TESTS = 300
IN_NIGHTLY = 10_000

_SECONDS = 20
_LINKS: Table = {"links": 2, "link_bandwidth_gib_per_s": 50.0, "link_latency_ns": 500.0}
_RING: Table = {"plugin": "ring", "size": 4, **_LINKS}
_PASS: Table = {"compute_ns": 100.0, "operations": 2e9, "memory_bytes": 1e6, "gemm": {"m": 64, "n": 64, "k": 64}}
_LAYER: Table = {
    "name": "one", "forward": _PASS, "input_gradient": _PASS,
    "weight_gradient": {**_PASS, "collective": "all_reduce", "collective_bytes": 4096},
}  # fmt: skip
_LAYERS: Table = {"plugin": "layers", "loop": "data", "layers": [_LAYER, {**_LAYER, "name": "two"}]}
_COLLECTIVE: Table = {"plugin": "collective", "bytes": 65536}
_LLM: Table = {
    "plugin": "llm", "model": {"layers": 2, "hidden": 64, "heads": 4, "ffn": 128, "vocab": 128, "sequence": 32},
    "global_batch": 4, "tensor_parallel": 2, "check_memory": False,
}  # fmt: skip
_BASES: dict[str, list[Table]] = {
    "workload": [_LAYERS, _COLLECTIVE, _LLM],
    "training_loop": [{"plugin": "data"}, {"plugin": "model"}, {"plugin": "data_reorder"}],
    "system": [{"plugin": "astra1"}, {"plugin": "astra2"}, {"plugin": "astra1", "splits": 4}],
    "collective": [{"plugin": "ring"}, {"plugin": "direct"}, {"plugin": "halving_doubling"}, {"plugin": "double_binary_tree"}],
    "scheduler": [{"plugin": "fifo"}, {"plugin": "rg"}, {"plugin": "ascending"}, {"plugin": "offline_greedy"}],
    "platform": [_RING, {"plugin": "switch", "size": 4, **_LINKS}, {"plugin": "dgx_h100"}],
    "network": [{"plugin": "analytical"}, {"plugin": "analytical", "congestion": "aware"}, {"plugin": "flow"}, {"plugin": "packet"}],
    "compute": [
        {"plugin": "recorded"},
        {"plugin": "gpu", "device": "h100"},
        {"plugin": "roofline", "peak_tera_ops_per_s": 100.0, "memory_bandwidth_gb_per_s": 1000.0},
    ],
    "memory": [{"plugin": "local"}, {"plugin": "remote", "bandwidth_gb_per_s": 10.0}],
    "report": [{"plugin": "timeline"}, {"plugin": "astra1"}],
}


class Nameless(Exception):
    """An exception that cannot be shown."""

    def __str__(self) -> str:
        raise ValueError("no text")


class Hidden:
    """A value that cannot be shown or compared."""

    def __repr__(self) -> str:
        raise ValueError("no text")

    def __eq__(self, other: object) -> bool:
        raise TypeError("cannot be compared")

    __hash__ = None  # type: ignore[assignment]


class Quits(BaseException):
    """What is no Exception."""


_VALUES: list[Any] = [
    None, True, 0, -1, 2**70, -(2**70), 10**400, 0.5, -2.5, 1e300, math.nan, math.inf, -math.inf, 1j, "", "text", "\udcff", b"bytes",
    [], [None], (), (1, "a"), {}, {"a": object()}, {1: math.nan}, set(), range(3), object(), Hidden(), int, len, lambda *a, **k: None,
]  # fmt: skip
_RAISED: list[Callable[[], BaseException]] = [
    lambda: ValueError("wrong"), lambda: KeyError(3), TypeError, Nameless, lambda: SystemExit(3), Quits,
    lambda: AttributeError("x"), StopIteration, lambda: RecursionError("deep"), lambda: ZeroDivisionError("x"),
    lambda: OSError(5, "x"), AssertionError, GeneratorExit, NotImplementedError,
]  # fmt: skip


_NAMES = {
    "system": ("session of a system", "system:", "order of a queue"),
    "scheduler": ("key of a queue's order", "order of a queue", "system astra"),
    "platform": ("network: plugin", "network analyticalnetwork"),
    "workload": ("figures of the workload",),
}
"""What else names the one component of a kind."""


class TooSlowError(BaseException):
    """A case takes longer than it may."""


def check(seed: int, folder: Path) -> list[str]:
    """Run a random experiment with a faulty component of a random kind on both engines."""
    random = Random(seed)
    kind = random.choice(sorted(_BASES))
    base = random.choice(_BASES[kind])
    state = random.getstate()
    result = []
    for engine in ("python", "compiled") if compiled_engine() is not None else ("python",):
        random.setstate(state)
        fault = _Fault(random)
        outcome, wrong = _run(kind, base, fault, engine, random, folder)
        name = f"{kind} {base['plugin']}, {fault}, engine {engine}"
        if wrong:
            return [f"{name}: {wrong}"]
        result.append((name, outcome))
    (name, first), *others = result
    if kind == "network" and not fault.is_value:
        return []  # what a network is asked is the choice of an engine
    return [f"{name}: {first[:300]}; and the other engine: {other[:300]}" for _, other in others if other != first]


class _Fault:
    """What is wrong with a component: one attribute, one answer, or what lies in an answer."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.words = "no fault"
        self.is_value = False

    def __str__(self) -> str:
        return self.words

    def value(self) -> Any:
        """A value that is hardly right."""
        return copy.copy(value) if isinstance(value := self.random.choice(_VALUES), (list, dict, set)) else value

    def answer(self) -> Callable[..., Any]:
        """A function that raises, or returns such a value."""
        if self.random.random() < 0.35:
            choice = self.random.choice(_RAISED)
            self.words += f" raises {type(choice()).__name__}"

            def raises(*arguments: Any, **named: Any) -> Any:
                raise choice()

            answer = raises
        else:
            value = self.value()
            self.words += f" = {_shown(value)}"

            def answer(*arguments: Any, **named: Any) -> Any:
                return value

        # The place in a message names a function of a plugin.
        answer.__code__ = answer.__code__.replace(co_qualname="Faulty.method")
        answer.__qualname__ = "Faulty.method"
        return answer

    def within(self, value: Any, where: str) -> Any:
        """The value with a fault somewhere in it."""
        random = self.random
        if isinstance(value, (list, tuple)) and not hasattr(value, "_fields") and value and random.random() < 0.9:
            place = random.randrange(len(value))
            changed = [self.within(each, f"{where}[{place}]") if number == place else each for number, each in enumerate(value)]
            return type(value)(changed)
        if attrs.has(type(value)) and random.random() < 0.9:
            fields = [field for field in attrs.fields(type(value)) if field.init]
            field = random.choice(fields)
            inner = self.within(getattr(value, field.name), f"{where}.{field.name}")
            return attrs.evolve(value, **{field.alias: inner})
        if value is None or isinstance(value, (int, float, str, bool, tuple, list, dict)) or attrs.has(type(value)):
            self.words = where
            result = self.value()
            self.words += f" = {_shown(result)}"
            return result
        return self.of_object(value, where)

    def of_object(self, made: Any, where: str = "") -> Any:
        """The object with a fault in one of its attributes or methods."""
        if isinstance(made, (types.FunctionType, types.BuiltinFunctionType, types.MethodType)):
            self.words = f"{where}()"
            return self.answer()
        made = copy.copy(made)  # others may have it, too
        cls = type(made)
        if cls.__name__.startswith("Faulty"):
            return made
        names = [name for name in dir(made) if not name.startswith("_") and not isinstance(inspect.getattr_static(cls, name, None), type)]
        name = self.random.choice(names)
        self.words = f"{where or cls.__name__}.{name}"
        real = inspect.getattr_static(cls, name, None)
        if callable(real) and self.random.random() < 0.85:
            after = self.random.choice([0, 0, 0, 1, 5])
            if self.random.random() < 0.4:
                self.words += f"() after {after}"
                answer, replaced = self.answer(), _Later(getattr(cls, name), after)
                member: Any = lambda own, *a, **k: replaced(answer, own, *a, **k)  # noqa: E731
            elif self.random.random() < 0.5:
                state, words = self.random.getstate(), self.words

                def member(own: Any, *a: Any, **k: Any) -> Any:
                    self.random.setstate(state)
                    return self.within(getattr(cls, name)(own, *a, **k), f"{words}()")
            else:
                member = self.answer()
        else:
            answer, self.is_value = self.answer(), True
            member = property(lambda own: answer(), lambda own, value: None) if self.random.random() < 0.7 else property(lambda o: answer())
        faulty = types.new_class(f"Faulty{cls.__name__}", (cls,), exec_body=lambda body: body.update({"__slots__": (), name: member}))
        try:
            made.__class__ = faulty
        except TypeError:
            faulty = types.new_class(f"Faulty{cls.__name__}", (cls,), exec_body=lambda body: body.update({name: member}))
            made.__class__ = faulty
        return made


class _Later:
    """A method whose first results are right."""

    def __init__(self, real: Callable[..., Any], times: int) -> None:
        self.real, self.left = real, times

    def __call__(self, answer: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        self.left -= 1
        return self.real(*arguments, **named) if self.left >= 0 else answer()


def _shown(value: Any) -> str:
    try:
        return f"{type(value).__name__} {value!r}"[:60]
    except ValueError:
        return type(value).__name__


def _provider(kind: str, base: Table, fault: _Fault) -> Provider:
    """What a plugin offers: a component of ours with a fault."""
    ours = shared_plugins().get(kind, base["plugin"])
    options = options_of(ours, {key: value for key, value in base.items() if key != "plugin"}, "options")
    first = () if options is None else (options,)
    factory = ours.load_factory()
    if fault.random.random() < 0.04:
        fault.words = "factory"
        faulty: Callable[..., Any] = fault.answer()
    elif kind == "collective":
        state = fault.random.getstate()

        def faulty(request: Any) -> Any:
            fault.random.setstate(state)
            return fault.within(factory(request, *first), "schedule")
    elif kind in ("training_loop", "report"):

        def faulty(program: Any, *rest: Any) -> Any:
            return factory(*_arguments(kind, fault, program, first, rest))
    else:
        state = fault.random.getstate()

        def faulty(*context: Any) -> Any:
            fault.random.setstate(state)  # the same fault whenever it is made
            return _with_fault(fault, factory(*first, *context))

    fields: Table = {}
    if kind == "collective":
        fields = {name: getattr(ours, name) for name in ("whole_platform", "variants", "scales", "carries_delays", "needs")}
        if fault.random.random() < 0.1:
            name = fault.random.choice(sorted(fields))
            fault.words = f"provider.{name}"
            fields[name] = fault.value()
    cls = {"collective": CollectiveProvider, "scheduler": SchedulerProvider}.get(kind, Provider)
    if kind == "scheduler":
        fields = {"orders": ours.orders}
    provider: Provider = cls("faulty", "A component with a fault", faulty, **fields)
    return provider


def _arguments(kind: str, fault: _Fault, program: Any, first: tuple[Any, ...], rest: tuple[Any, ...]) -> tuple[Any, ...]:
    if kind == "report":
        (folder,) = rest
        name = fault.random.choice(["write", "open", "path"])
        _wrong_call(fault, folder, name, getattr(folder, name))
        return (*first, program, folder)
    name = fault.random.choice(["compute", "communicate", "wait", "idle"])
    _wrong_call(fault, program, name, getattr(program, name))
    return (program, *first)


def _wrong_call(fault: _Fault, program: Any, name: str, method: Callable[..., Any]) -> None:
    """Let a loop or a report call a method of what it is given with a wrong argument."""
    parameters = [each for each in inspect.signature(method).parameters if each != "self"]
    chosen, value = fault.random.choice(parameters), fault.value()
    fault.words = f"{name}({chosen}={_shown(value)})"

    def wrong(*arguments: Any, **named: Any) -> Any:
        result = inspect.signature(method).bind(*arguments, **named).arguments
        positional = inspect.signature(method).bind(**{**result, chosen: value})
        return method(*positional.args, **positional.kwargs)

    setattr(program, name, wrong)


def _with_fault(fault: _Fault, made: Any) -> Any:
    if isinstance(made, (ExecutionGraph, Preset, RuleOrder, list, tuple)):
        return fault.within(made, type(made).__name__)
    return fault.of_object(made)


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    def stop(number: int, frame: Any) -> None:
        raise TooSlowError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _run(kind: str, base: Table, fault: _Fault, engine: str, random: Random, folder: Path) -> tuple[str, str | None]:
    """What a run says, and what is wrong with that."""
    plugins = Plugins()
    offer = hookimpl(lambda: [_provider(kind, base, fault)], specname=KINDS[kind])
    plugin = types.SimpleNamespace(**{KINDS[kind]: offer})
    plugins.register(plugin, "faulty")
    sections = _sections(kind, base, random)
    explain: Any
    timelines: Any
    explain, timelines = random.choice([(False, False), (False, False), (True, True), ("path", "messages")])
    symmetry = random.random() < 0.7
    try:
        with _limited(), warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            result = astra_sim.simulate(
                **sections, engine=engine, plugins=plugins, symmetry=symmetry, explain=explain, timelines=timelines, npu_times=True
            )
            json.dumps(result.document(), allow_nan=False)
            if kind == "report":
                write_reports(result, folder / engine, reports=["faulty"], plugins=plugins)
    except AstraError as error:
        results = str(error).replace(f"/{engine}", "")
        named = not isinstance(error, PluginError) or any(word in results.lower() for word in ("faulty", *_NAMES.get(kind, ())))
        return f"{type(error).__name__}: {results}", None if named else f"does not name the plugin: {type(error).__name__}: {results[:400]}"
    except TooSlowError:
        return "", f"takes more than {_SECONDS} s"
    except BaseException as error:
        return "", f"raw {type(error).__name__}: {_text(error)} at {_place(error)}"
    return f"finishes after {result.finish_ns}", None if math.isfinite(result.finish_ns) and result.finish_ns >= 0 else "no finite time"


def _text(error: BaseException) -> str:
    try:
        return str(error)[:200]
    except Exception:
        return "without words"


def _place(error: BaseException) -> str:
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    return " < ".join(f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}" for frame in frames[:-6:-1])


def _sections(kind: str, base: Table, random: Random) -> Table:
    sections: Table = {
        "workload": random.choice([_LAYERS, _COLLECTIVE]),
        "platform": random.choice([_RING, {"plugin": "switch", "size": 4, **_LINKS}]),
        "system": random.choice([{"plugin": "astra1"}, {"plugin": "astra2"}]),
        "network": random.choice([{"plugin": "analytical"}, {"plugin": "flow"}, {"plugin": "packet"}]),
        "compute": {"plugin": "recorded"},
        "memory": {"plugin": "local"},
    }
    if kind in sections:
        sections[kind] = "plugin:faulty"
    elif kind == "training_loop":
        sections["workload"] = {**_LAYERS, "loop": "faulty"}
    elif kind == "collective":
        sections["system"] = {**sections["system"], "all_reduce": "faulty"}
    elif kind == "scheduler":
        option = "intra_dimension_scheduling" if base["plugin"] in ("fifo", "rg") else "inter_dimension_scheduling"
        sections["system"] = {"plugin": "astra1", option: "faulty"}
    if kind == "compute":
        sections["workload"] = _LAYERS
    return sections
