"""The base class of topologies, with the default of each attribute.

Networks, system layers and reports ask a topology only for the attributes declared here. So all properties of a topology are in one list,
and the meaning of an absent one is decided in one place.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from astra_sim.fabric.links import Pattern, UniformLinks, Wire

if TYPE_CHECKING:
    from builtins import property as attribute

    from astra_sim.schedule import Peer
else:

    class attribute:  # noqa: N801
        """A default that a subclass replaces by a field, a class attribute or a property of its own.

        A `property` would not do: it goes before the fields of an instance.
        """

        def __init__(self, default: Callable[[Any], Any]) -> None:
            self._default = default
            self.__doc__ = default.__doc__

        def __get__(self, instance: object, owner: type | None = None) -> Any:
            return self._default(instance)


class Topology(ABC):
    """The links among the NPUs of one dimension. Positions count from 0; nodes from the size of the dimension on are switches.

    A topology has a name and the four abstract methods; everything else has a default. Networks that simulate links need `wires()` or
    `links()` besides. Special cases of rings, switches and fully connected NPUs follow from `uniform_links()` or `pattern`, never
    from the name. Answers never change: they are cached with the platform. A class that does not derive from this one may be the topology
    of a `Dimension`, too, if it has the name and the four methods: `completed` gives it the defaults.
    """

    __slots__ = ()

    # -- Declared by every topology ------------------------------------------------------------------------------------

    @attribute
    def name(self) -> str:
        """The name, for people. Raises NotImplementedError if a topology has none."""
        raise NotImplementedError(f"{type(self).__name__} has no name")

    @abstractmethod
    def hops(self, source: int, destination: int) -> int:
        """Links that a message crosses between two positions of the dimension."""

    @abstractmethod
    def is_symmetric(self, peer: Peer) -> bool:
        """Whether `peer` is the same number of hops away from every position. False if this is not known."""

    @abstractmethod
    def links_per_message(self) -> int:
        """Links that one message uses side by side; their bandwidths add up."""

    @abstractmethod
    def links_per_npu(self) -> int:
        """Links of an NPU that can be used."""

    # -- Its links -----------------------------------------------------------------------------------------------------

    def wires(self) -> Sequence[Wire] | None:
        """The links, each one way, in units of the bandwidth and latency of the dimension. None: not listed so."""
        return None

    def links(self) -> Sequence[Sequence[Any]] | None:
        """The links with figures of their own, if `wires()` is None. None: not listed so either.

        Each is (source, target, bandwidth in bytes/ns, latency in ns[, error rate[, cost]]), one way.
        """
        return None

    def link_count(self) -> int | None:
        """The number of links, each one way, without listing them. None: only the list tells."""
        return None

    def uniform_links(self) -> UniformLinks | None:
        """The links, if they look the same from all NPUs; `wires()` then lists the same ones. None: they do not, or it is not known."""
        return None

    @attribute
    def pattern(self) -> Pattern | None:
        """The pattern of NPUs whose links are listed otherwise than `uniform_links()` would. None: none of those that have a name."""
        return None

    def is_uniform(self) -> bool:
        """Whether all links have one bandwidth and latency, as a delay formula needs it."""
        return True

    @attribute
    def both_ways(self) -> bool:
        """Whether a message has the bandwidth of the links of both directions, as on a ring of ASTRA-sim 1.0."""
        return False

    @attribute
    def is_part(self) -> bool:
        """Whether the dimension is a part of a physical one, and has no links of its own (`with_logical_dimensions`)."""
        return False

    @attribute
    def device_parts(self) -> Mapping[str, int]:
        """The parts of a device that are its NPUs, in their order, and the number of each. Empty: each NPU is a device."""
        return {}

    @attribute
    def node_ids(self) -> Sequence[int]:
        """The number of each node in the file that the topology comes from. Empty: nodes have no other numbers."""
        return ()

    # -- Its routes ----------------------------------------------------------------------------------------------------

    def next_links(self, node: int, destination: int) -> Sequence[int] | None:
        """The numbers of the links (in `wires()` or `links()`) on which a message to a position leaves a node. None: routes are not named.

        It names the routes of all pairs or of none; networks then take those of least cost.
        """
        return None

    def destination_order(self) -> Sequence[int] | None:
        """A number for each NPU, leaf by leaf, by which destinations spread over paths of equal cost. None: they do not."""
        return None

    @attribute
    def irregular(self) -> bool:
        """Whether `destination_order()` may spread destinations unevenly, so that a network that balances loads by counting does better."""
        return False

    @attribute
    def within_server(self) -> Collection[int]:
        """Numbers, as in `node_ids`, of switches within a server. Of paths of equal cost those over them go first."""
        return frozenset()

    # -- Offered beyond routes -----------------------------------------------------------------------------------------

    @attribute
    def queue_directions(self) -> Sequence[int]:
        """The direction (+1, -1) of each queue of a system layer, which has as many. Empty: the layer decides."""
        return ()

    @attribute
    def in_network_reduction(self) -> bool:
        """Whether a switch can reduce the data of all NPUs, and send the result to them."""
        return False

    @attribute
    def network(self) -> object | None:
        """The description of a whole network of another simulator, of which the dimension is a part. None: it is part of none."""
        return None

    def has(self, feature: str) -> bool:
        """Whether the topology has a feature by the name of an attribute, which an algorithm may need (`CollectiveProvider.needs`)."""
        return bool(getattr(self, feature, False))

    def scaled(self, bandwidth: float, latency: float) -> Topology | None:
        """The topology with `bandwidth` and `latency` times those of its links. None: not known.

        Links in units of the dimension follow the dimension; others need a method of their own.
        """
        return self if self.links() is None else None

    def scaled_in(self, number: int, bandwidth: float, latency: float) -> Topology | None:
        """The same for the links of one logical dimension of the platform. None: unknown."""
        return None


def completed(topology: Any) -> Topology:
    """The topology itself, or one that was not written on the base class, with the defaults for absent attributes."""
    return topology if isinstance(topology, Topology) else _Completed(topology)


def written(topology: Topology) -> object:
    """The object that a topology was made of: itself, unless `completed` gave it its defaults."""
    return topology._own if type(topology) is _Completed else topology


_REQUIRED = frozenset(("name", "hops", "is_symmetric", "links_per_message", "links_per_npu"))
_METHODS = frozenset(name for name, value in vars(Topology).items() if callable(value) and not name.startswith("_"))
_MISSING = object()


class _Completed(Topology):
    """A topology by an object that does not derive from `Topology`: its own attributes first, then the defaults.

    It passes for the object itself in everything else, so that a plugin finds its own class and fields again.
    """

    __slots__ = ("_own",)

    _own: Any

    def __init__(self, original: Any) -> None:
        object.__setattr__(self, "_own", original)

    def __getattribute__(self, name: str) -> Any:
        if name == "_own" or (name.startswith("__") and name != "__class__"):
            return object.__getattribute__(self, name)
        original = object.__getattribute__(self, "_own")
        if name == "__class__":
            return original.__class__
        if name in _REQUIRED:
            return getattr(original, name)
        value = getattr(original, name, _MISSING)
        if value is _MISSING or (name in _METHODS and not callable(value)):
            return object.__getattribute__(self, name)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._own, name, value)

    def __eq__(self, other: object) -> bool:
        return bool(self._own == (other._own if type(other) is _Completed else other))

    def __hash__(self) -> int:
        return hash(self._own)

    def __repr__(self) -> str:
        return repr(self._own)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Completed, (self._own,)

    def hops(self, source: int, destination: int) -> int:
        """The object's value."""
        return int(self._own.hops(source, destination))

    def is_symmetric(self, peer: Peer) -> bool:
        """The object's value."""
        return bool(self._own.is_symmetric(peer))

    def links_per_message(self) -> int:
        """The object's value."""
        return int(self._own.links_per_message())

    def links_per_npu(self) -> int:
        """The object's value."""
        return int(self._own.links_per_npu())
