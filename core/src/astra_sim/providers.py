"""A component that a plugin offers through a hook: a name, a summary, its options, and the place of its implementation.

A plugin that uses other plugins' components calls them through `call`, and `Lazily` names in its errors values that are costly to name.

Examples:

What hooks return, one of each kind (`"module:object"` is imported at first use):

    >>> from astra_sim.providers import CollectiveProvider, FileFormat, Lazily, Provider, SchedulerProvider, call, describe_exception
    >>> Provider("fixed", "Every message takes the same time", "my_package.network:Fixed", "my_package.network:FixedOptions").name
    'fixed'
    >>> CollectiveProvider("pairs", "One other rank after another", "my_package.pairs:pairs", pure=True).whole_platform
    False
    >>> SchedulerProvider("largest_first", "Largest phase first", "my_package.order:largest_first", orders="queue").orders
    'queue'
    >>> FileFormat("one-line", "OPERATION BYTES", ("workload",), "my_package.text:recognises", "my_package.text:read").kinds
    ('workload',)

A plugin that calls a function of another one turns its faults into errors that name it:

    >>> call(Lazily(lambda: "compute half"), lambda work: 1 / work, 0)
    Traceback (most recent call last):
        ...
    astra_sim.errors.PluginError: compute half failed: ZeroDivisionError: division by zero
    >>> describe_exception(KeyError("layers"))
    "KeyError: 'layers'"
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from astra_sim._boundary import FLAG, TEXT, Lazily, call, checked, describe_exception, each, whole
from astra_sim.errors import InputError, PluginError, located, suggestion
from astra_sim.memo import cached
from astra_sim.options import structure
from astra_sim.value_objects import ValueObject

if TYPE_CHECKING:
    import importlib.metadata
    from pathlib import Path

__all__ = [
    "CollectiveProvider",
    "FileFormat",
    "Lazily",
    "Provider",
    "SchedulerProvider",
    "call",
    "describe_exception",
]

FUNCTION_GROUP = "astra_sim.functions"
"""The entry-point group of functions that an input file may name."""

Reference = str | Callable[..., Any]
"""An object, or the reference to import it from at first use: "package.module:object"."""

Examples = Sequence[Mapping[str, Any]] | Reference
"""Options to try a component with, each as it could be in an experiment file; or a function of an empty folder that gives them."""


@attrs.frozen(cache_hash=True)
class Provider:
    """A component. `options` is an attrs class whose fields are made with `astra_sim.option`; None: it has no options.

    With each of the `examples` the contract of its kind is run by `astra plugins check`, without any with the defaults. Examples that
    need files are a function that writes them into the folder it is given, which is deleted afterwards.

    `pure`: the factory's result depends only on its arguments, not on a file or on earlier calls, and never changes, so
    that it may be kept from run to run: `made` does so, with the schedules of collectives it is done, too. The program that a pure
    training loop writes follows from its options, the layers, and the sizes of the platform's dimensions.

    `takes`, of a workload: a function of its table as the experiment has it, of the defaults that the compute model offers
    (`Compute.workload_defaults`), and of the `Context`. It returns those defaults that have an effect, in a table; None: all are taken.
    `traits`, of a workload: a function of its table, which returns words for its properties, such as "training", "experts" and "fp8", by
    which a compute model chooses its software (`Compute.for_workload`).
    `takes_networks`, of a network: the factory gets as its last argument a function of a spec, such as "packet", that makes the network
    on the same platform.
    """

    name: str
    summary: str
    factory: Reference
    options: Reference | None = None
    examples: Examples = attrs.field(default=(), kw_only=True, eq=False)
    pure: bool = attrs.field(default=False, kw_only=True, validator=FLAG)
    takes: Reference | None = attrs.field(default=None, kw_only=True)
    traits: Reference | None = attrs.field(default=None, kw_only=True)
    takes_networks: bool = attrs.field(default=False, kw_only=True, validator=FLAG)

    def load_factory(self) -> Callable[..., Any]:
        """The implementation. Raises PluginError if it cannot be imported."""
        return load(self.factory, f"plugin {self.name!r}")

    def create(self, options: Any, *context: Any) -> Any:
        """The result of the factory for options (None: it has none) and context. Raises PluginError if it cannot be imported or fails."""
        arguments = context if options is None else (options, *context)
        what = f"plugin {self.name!r}"
        try:
            return checked(call(what, self.load_factory(), *arguments))
        except PluginError as error:
            raise error if "plugin " in str(error) else located(error, what) from None

    def instance_of(self, options: Any, *context: Any) -> Any:
        """The result of `create`; of a pure factory perhaps the same object as for another run with equal options and context."""
        return _cached_instance(self, options, *context) if self.pure else self.create(options, *context)

    def load_options(self) -> type | None:
        """The options class, or None. Raises PluginError if it cannot be imported."""
        return load(self.options, f"options of plugin {self.name!r}") if self.options is not None else None  # type: ignore[return-value]

    def taken(self, table: Mapping[str, Any], offered: Mapping[str, Any], context: Any) -> Mapping[str, Any]:
        """The defaults for a workload that it takes, of those that are offered. Raises PluginError."""
        if self.takes is None:
            return offered
        what = f"defaults of plugin {self.name!r}"
        result: Any = call(what, load(self.takes, what), table, offered, context)
        if not isinstance(result, Mapping):
            raise PluginError(f"{what} are {result!r}; expected a table")
        return result

    def traits_of(self, table: Mapping[str, Any]) -> frozenset[str]:
        """Describe a workload with this table. Raises PluginError."""
        if self.traits is None:
            return frozenset()
        what = f"traits of plugin {self.name!r}"
        result: Any = call(what, load(self.traits, what), table)
        if not isinstance(result, (set, frozenset)) or not all(isinstance(word, str) for word in result):
            raise PluginError(f"{what} are {result!r}; expected a set of texts")
        return frozenset(result)

    def load_examples(self, folder: Path) -> list[Mapping[str, Any]]:
        """The examples, whose files are written into an empty folder. Raises PluginError for anything but a list of tables."""
        what = f"examples of plugin {self.name!r}"
        examples: Any = self.examples
        if isinstance(examples, str) or callable(examples):
            examples = call(what, load(examples, what), folder)
        if not isinstance(examples, (list, tuple)) or not all(isinstance(options, Mapping) for options in examples):
            raise PluginError(f"{what} are {examples!r}; expected a list of tables of options")
        return list(examples)


_cached_instance = cached("components", 256)(Provider.create)


@attrs.frozen(cache_hash=True)
class CollectiveProvider(Provider):
    """A collective algorithm.

    `whole_platform`: it runs over all NPUs at once, whatever the dimensions are. `variants`: how many schedules it uses
    in turn for the phases of one dimension (`Request.instance` counts modulo this). `scales`: its messages grow with the collective; if
    not, they have the sizes of the algorithm, and a collective is one chunk. `carries_delays`: its schedules hold all delays, as a
    recorded run does; a system layer may leave out its own endpoint delay. `needs`: attributes that the topology of a dimension must
    have, and be true, for the algorithm to run there; system layers see to that. Schedules of a `pure` one are kept from run to run, others
    during a run. `automatic`: `auto` may take it, with its default options, if it estimates a shorter time than that of others.
    `takes_platform`: its factory gets the platform of the run besides, as its last argument; the cache of a pure one is per platform.
    """

    whole_platform: bool = attrs.field(default=False, kw_only=True, validator=FLAG)
    variants: int = attrs.field(default=1, kw_only=True, validator=whole(1))
    scales: bool = attrs.field(default=True, kw_only=True, validator=FLAG)
    carries_delays: bool = attrs.field(default=False, kw_only=True, validator=FLAG)
    needs: tuple[str, ...] = attrs.field(default=(), kw_only=True, validator=each("a tuple of texts", TEXT, tuple))
    automatic: bool = attrs.field(default=False, kw_only=True, validator=FLAG)
    takes_platform: bool = attrs.field(default=False, kw_only=True, validator=FLAG)

    @automatic.validator
    def _check_automatic(self, _: object, automatic: bool) -> None:
        if automatic and (self.whole_platform or self.variants > 1 or not self.scales):
            raise PluginError(
                f"collective {self.name!r} is automatic; expected one that runs in a dimension, has one variant and scales its messages"
            )

    def missing(self, topology: Any) -> list[str]:
        """Requirements of the algorithm that a topology does not meet."""
        from astra_sim.fabric.topology import completed  # here: no plugin that only offers something needs the fabric

        return [name for name in self.needs if not completed(topology).has(name)]


@attrs.frozen(cache_hash=True)
class SchedulerProvider(Provider):
    """A scheduler. `orders`: "queue" (the factory makes an Order) or "dimensions" (a DimensionOrder)."""

    orders: str = attrs.field(kw_only=True, validator=attrs.validators.in_(("queue", "dimensions")))


@attrs.frozen(eq=False, repr=False)
class FileFormat(ValueObject):
    """A file format. `kinds` are the sections it may fill, such as ("platform", "network").

    `recognises(text)` answers whether a file is of this format; `read(text, path)` returns the tables of those sections, as
    they could be in an experiment file. `read` raises InputError naming the path, line or key, and value. It reads other files that
    the file names with `astra_sim.files.read_text` (and looks for them with `is_there`), because its result is cached until one of
    the files that it has read so changes.

    A format of many files that share a prefix names the end of the first of them, `first_file`: then a path is of this format if
    that file exists, and `read` gets no text.
    """

    name: str
    summary: str
    kinds: tuple[str, ...]
    recognises: Reference
    read: Reference
    first_file: str | None = None

    def is_of(self, text: str) -> bool:
        """Whether a text is of this format. Raises PluginError if the plugin fails."""
        what = f"file format {self.name!r}"
        return bool(call(what, load(self.recognises, what), text))

    def tables(self, text: str, path: str) -> dict[str, dict[str, Any]]:
        """The sections in a file. Raises InputError if the file is wrong, PluginError if the plugin fails."""
        what = f"file format {self.name!r}"
        read = call(what, load(self.read, what), text, path)
        if not isinstance(read, dict) or not all(isinstance(table, dict) for table in read.values()):
            raise PluginError(f"{what} returned {read!r}, which is not a table of sections")
        return read


def load(reference: Reference, what: str) -> Callable[..., Any]:
    """Import the object of a reference. Raises PluginError with the import's own error."""
    result: Any = reference
    if isinstance(reference, str):
        module, _, attribute = reference.partition(":")
        try:
            result = getattr(sys.modules.get(module) or _imported(module), attribute)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise PluginError(f"{what} cannot be loaded from {reference}: {describe_exception(error)}") from error
    if not callable(result):
        raise PluginError(f"{what} is {result!r}, which cannot be called")
    return result  # type: ignore[no-any-return]


def _imported(module: str) -> Any:
    with contextlib.redirect_stdout(sys.stderr):
        return importlib.import_module(module)


def options_of(provider: Provider, table: Mapping[str, Any], where: str) -> Any:
    """The options of a component, from a table without `plugin`. None if it has no options. Raises InputError."""
    cls = provider.load_options()
    if cls is not None:
        return structure(cls, table, where)
    for key in table:
        raise InputError(f"{where}: {provider.name} has no options, but {key!r} is given")
    return None


def named_function(name: str, where: str) -> Callable[..., Any]:
    """The function that the entry-point group `astra_sim.functions` has as `NAME`, or as `NAME@DISTRIBUTION` if several offer one.

    So an input file can call only functions that were installed for this purpose. `where` is
    the option that names it. Raises InputError if there is none, PluginError if several are or it cannot be loaded.
    """
    import importlib.metadata

    entries = call("the entry points of installed packages", importlib.metadata.entry_points).select(group=FUNCTION_GROUP)
    plain, _, distribution = name.partition("@")
    matching = [entry for entry in entries if entry.name == plain and distribution in ("", _distribution(entry))]
    if not matching:
        known = suggestion(name, {entry.name for entry in entries})
        raise InputError(f"{where} is {name!r}; expected the name of a function of the entry-point group {FUNCTION_GROUP} ({known})")
    if len(matching) > 1:
        choice = " or ".join(sorted(f"{plain}@{_distribution(entry)}" for entry in matching))
        raise PluginError(f"{where} is {name!r}, which several packages register; choose {choice}")
    function = call(f"{where} {name!r}", matching[0].load)
    if not callable(function):
        raise PluginError(f"{where} {name!r} is {function!r}, which cannot be called")
    return function  # type: ignore[no-any-return]


def _distribution(entry: importlib.metadata.EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else ""
