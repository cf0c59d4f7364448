"""The platform: dimensions of NPUs and links, independent of the network backend that moves messages over them.

NPU numbers are mixed radix over the dimensions, the first dimension varying fastest.

Example:

Four NPUs with a link to each other are a node, and two nodes are the platform. A message counts in the highest dimension in which its ends
differ:

    >>> from astra_sim.platform import Dimension, Platform, Topology
    >>> class Mesh(Topology):
    ...     name = "full_mesh"
    ...
    ...     def __init__(self, size):
    ...         self.size = size
    ...
    ...     def hops(self, source, destination):
    ...         return 1
    ...
    ...     def is_symmetric(self, peer):
    ...         return True
    ...
    ...     def links_per_message(self):
    ...         return 1
    ...
    ...     def links_per_npu(self):
    ...         return self.size - 1
    >>> node = Dimension(Mesh(4), size=4, links=3, link_bandwidth=50.0, link_latency_ns=500.0)
    >>> rails = Dimension(Mesh(2), size=2, links=1, link_bandwidth=25.0, link_latency_ns=2000.0)
    >>> platform = Platform((node, rails), name="two nodes")
    >>> platform.npus, platform.strides
    (8, (1, 4))
    >>> [platform.coordinate(6, dimension) for dimension in (0, 1)]
    [2, 1]
    >>> platform.route(source=1, destination=6)
    Route(dimension=1, hops=1)

NPUs 1 and 5 differ in the second dimension alone, so they are a group of it. Other groups are a stride apart, or any NPUs. The shape of the
last one says: 3 ranks on 2 nodes of 1 platform, at least 1 on each node.

    >>> from astra_sim.platform import Group, LogicalDimension
    >>> list(platform.logical_dimensions()[1].group(5))
    [1, 5]
    >>> LogicalDimension(size=2, stride=2, physical=0).groups(platform.npus)
    [range(0, 4, 2), range(1, 5, 2), range(4, 8, 2), range(5, 9, 2)]
    >>> platform.shape(Group((0, 2, 5)))
    GroupShape(blocks=(3, 2, 1), per_node=1)
    >>> Group((0, 2, 5)).index(5)
    2

A plugin offers a machine by the names of its topologies, as a preset with an option:

    >>> import attrs
    >>> from astra_sim import InputError, Provider, hookimpl, option, simulate
    >>> from astra_sim.commands import Plugins
    >>> from astra_sim.platform import Preset, is_power_of_two
    >>> @attrs.frozen
    ... class PodOptions:
    ...     nodes: int = option(4, minimum=1, help="nodes of eight NPUs")
    >>> def pod(options):
    ...     if not is_power_of_two(options.nodes):
    ...         raise InputError(f"nodes is {options.nodes}; expected a power of two")
    ...     inside = {"topology": "switch", "size": 8, "links": 18, "link_bandwidth_gb_per_s": 25, "link_latency_ns": 500}
    ...     between = {"topology": "switch", "size": options.nodes, "link_bandwidth_gb_per_s": 50, "link_latency_ns": 2000}
    ...     return Preset((inside, between), name=f"pod of {options.nodes} nodes", device="h100")
    >>> class PodPlugin:
    ...     @hookimpl
    ...     def astra_platforms(self):
    ...         return [Provider("pod", "Nodes of eight NPUs around switches", pod, PodOptions)]
    >>> plugins = Plugins()
    >>> plugins.register(PodPlugin())
    >>> all_reduce = "plugin:collective?collective=all_reduce&bytes=8000000"
    >>> result = simulate(workload=all_reduce, platform="plugin:pod?nodes=2", plugins=plugins)
    >>> result.npus, [dimension.size for dimension in result.dimensions]
    (16, [8, 2])
    >>> simulate(workload=all_reduce, platform="plugin:pod?nodes=3", plugins=plugins)
    Traceback (most recent call last):
    ...
    astra_sim.errors.InputError: plugin:pod?nodes=3: dimension 0: nodes is 3; expected a power of two
"""

from __future__ import annotations

import functools
import math
import operator
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, ClassVar, NamedTuple

import attrs

from astra_sim._boundary import NOT_NEGATIVE, POSITIVE, TEXT, Expected, each, of_type, shown, whole
from astra_sim._deprecation import deprecated
from astra_sim.errors import InputError, PluginError, in_figures
from astra_sim.fabric import Fabric, Topology
from astra_sim.fabric.graph import fabric_of, pattern_of
from astra_sim.fabric.links import Pattern
from astra_sim.fabric.topology import completed, written
from astra_sim.limits import MAX_NPUS
from astra_sim.schedule import Peer
from astra_sim.units import GIB
from astra_sim.value_objects import ValueObject

__all__ = [
    "Dimension",
    "Group",
    "LogicalDimension",
    "Platform",
    "Preset",
    "Topology",
    "is_power_of_two",
]

MOST_NPUS = 2**53
"""NPUs of a platform: their number is exact as a number of 64 bits, whether whole or not."""

_NAME = Expected("a topology, whose name is text", lambda topology, dimension: isinstance(topology.name, str))


@attrs.frozen(cache_hash=True)
class Dimension:
    """One dimension of a platform: `size` NPUs, each with `links` links.

    Bandwidths are in bytes per nanosecond, `link_bandwidth` that of one link one way; latencies are in nanoseconds. `packaging` names the
    parts that the dimension joins (a name for people). A `topology` that does not derive from `Topology` gets the defaults for absent
    attributes.
    """

    topology: Topology = attrs.field(converter=completed, validator=_NAME)
    size: int = attrs.field(validator=whole(1, MOST_NPUS))
    links: int = attrs.field(validator=whole(0))
    link_bandwidth: float = attrs.field(validator=POSITIVE)
    link_latency_ns: float = attrs.field(validator=NOT_NEGATIVE)
    nic_latency_ns: float = attrs.field(default=0.0, validator=NOT_NEGATIVE)
    router_latency_ns: float = attrs.field(default=0.0, validator=NOT_NEGATIVE)
    hbm_latency_ns: float = attrs.field(default=0.0, validator=NOT_NEGATIVE)
    hbm_bandwidth: float = attrs.field(default=1.0, validator=POSITIVE)
    hbm_scale: float = attrs.field(default=0.0, validator=NOT_NEGATIVE)
    packaging: str = attrs.field(default="node", validator=TEXT)

    def hops(self, source: int, destination: int) -> int:
        """Links that a message crosses between two positions, according to the topology. Raises PluginError if that is no such number."""
        hops = self.topology.hops(source, destination)
        if type(hops) is not int or not 0 <= hops < MOST_NPUS:
            what = f"topology {self.topology.name!r}: hops from {source} to {destination}"
            raise PluginError(f"{what} are {shown(hops)}; expected a whole number of at least 0")
        return hops


class Route(NamedTuple):
    """The way of a message: the dimension it is charged to, and how many links it crosses there."""

    dimension: int
    hops: int


@attrs.frozen(cache_hash=True)
class LogicalDimension:
    """A dimension as collectives see it: `size` ranks, `stride` apart in NPU numbers.

    `physical` is the platform's dimension it is in, or None if it spans several. `name` is for people: a parallelism, for instance.
    """

    size: int
    stride: int
    physical: int | None
    name: str = attrs.field(default="", eq=False)

    def group(self, npu: int) -> Sequence[int]:
        """The NPUs of the group to which `npu` belongs, in rank order."""
        first = npu - self.index(npu) * self.stride
        return range(first, first + self.size * self.stride, self.stride)

    def groups(self, npus: int) -> list[Sequence[int]]:
        """All groups of a platform of `npus` NPUs."""
        return self.groups_among(range(npus))

    def groups_among(self, npus: Iterable[int]) -> list[Sequence[int]]:
        """The groups whose first ranks are among some NPUs."""
        return [self.group(npu) for npu in npus if not self.index(npu)]

    def index(self, npu: int) -> int:
        """The rank of `npu` in its group."""
        return npu // self.stride % self.size


@attrs.frozen(cache_hash=True)
class LogicalProduct(LogicalDimension):
    """Several logical dimensions as one, whose ranks are not a stride apart: of those of its `parts` the first varies fastest."""

    parts: tuple[LogicalDimension, ...] = ()

    def group(self, npu: int) -> Sequence[int]:
        """The NPUs of the group to which `npu` belongs, in rank order."""
        first = npu - sum(part.index(npu) * part.stride for part in self.parts)
        members = [first]
        for part in self.parts:
            members = [npu + place * part.stride for place in range(part.size) for npu in members]
        return tuple(members)

    def index(self, npu: int) -> int:
        """The rank of `npu` in its group."""
        rank, ranks = 0, 1
        for part in self.parts:
            rank, ranks = rank + part.index(npu) * ranks, ranks * part.size
        return rank


def product_dimension(dimensions: Sequence[LogicalDimension]) -> LogicalDimension:
    """Logical dimensions, one at least, as one: the NPUs that differ in them alone are a group."""
    parts: list[LogicalDimension] = []
    for dimension in sorted(dimensions, key=lambda dimension: dimension.stride):
        last = parts[-1] if parts else None
        if last is not None and dimension.stride == last.stride * last.size:
            physical = last.physical if last.physical == dimension.physical else None
            parts[-1] = LogicalDimension(last.size * dimension.size, last.stride, physical)
        else:
            parts.append(dimension)
    if len(parts) == 1:
        return parts[0]
    return LogicalProduct(math.prod(part.size for part in parts), parts[0].stride, None, parts=tuple(parts))


def joined(dimensions: Sequence[LogicalDimension]) -> LogicalDimension:
    """The former name of `product_dimension`."""
    deprecated("joined", "product_dimension", "0.3")
    return product_dimension(dimensions)


@attrs.frozen(eq=False, repr=False)
class Group(ValueObject):
    """NPUs that run collectives together, in the order of ranks: a communicator group. It is in no dimension."""

    members: tuple[int, ...]
    physical: int | None = attrs.field(init=False, default=None)

    @property
    def size(self) -> int:
        """The number of ranks."""
        return len(self.members)

    def group(self, npu: int) -> tuple[int, ...]:
        """The NPUs of the group, to which `npu` belongs."""
        return self.members

    def groups(self, npus: int) -> list[tuple[int, ...]]:
        """This group alone."""
        return [self.members]

    def index(self, npu: int) -> int:
        """The rank of `npu`. Raises ValueError if it is no member."""
        return self.members.index(npu)


class GroupShape(NamedTuple):
    """The placement of a group's ranks on a platform.

    `blocks[d]` is the number of blocks of the d innermost dimensions that they occupy: `blocks[0]` are the ranks, `blocks[1]` the nodes
    (units of the innermost dimension), and the last, the platform, is 1. `per_node` are the ranks in that node of the group that has the
    fewest.
    """

    blocks: tuple[int, ...]
    per_node: int

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return self.blocks[0]

    @property
    def nodes(self) -> int:
        """The number of nodes that they occupy."""
        return self.blocks[1]


@attrs.frozen(cache_hash=True)
class Platform:
    """Dimensions of NPUs, first dimension varying fastest. `npus` is their number, from `dimensions` alone.

    A step in dimension d adds `strides[d]` to the number of an NPU. `name` is for people. `device` is the type of the NPUs, by a name
    as `h100` for models whose parameters depend on the generation of the machine; "" if unknown.

    If `physical` is given, all NPUs are in that one dimension, and `dimensions` are only how collectives see them (logical dimensions):
    networks that simulate links use `wired()` and `fabric()`, the others `dimensions`. NPUs of `physical` beyond `npus` are idle: they run
    nothing, and only forward if NPUs do. `changed_links`: links of `physical` are slower or down, which
    only networks that simulate links see. Raises InputError if there is no dimension, or more NPUs than there are.
    """

    dimensions: tuple[Dimension, ...] = attrs.field(validator=each("a tuple of Dimension", of_type("a Dimension", Dimension), tuple))
    name: str = attrs.field(default="", validator=TEXT)
    device: str = attrs.field(default="", validator=TEXT)
    physical: Dimension | None = attrs.field(default=None, validator=of_type("a Dimension", Dimension).optional())
    changed_links: bool = False
    strides: tuple[int, ...] = attrs.field(init=False)
    npus: int = attrs.field(init=False)
    _as_made: tuple[_AsMade, ...] = attrs.field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        if not self.dimensions:
            raise InputError("a platform needs at least one dimension")
        *strides, count = accumulate((dimension.size for dimension in self.dimensions), operator.mul, initial=1)
        object.__setattr__(self, "strides", tuple(strides))
        object.__setattr__(self, "npus", count)
        if count > MAX_NPUS:
            raise InputError(f"a platform of {in_figures(count)} NPUs; expected at most {MAX_NPUS}")
        if self.physical is not None and self.physical.size < count:
            sizes = " x ".join(str(dimension.size) for dimension in self.dimensions)
            raise InputError(f"logical dimensions of {sizes} NPUs on a platform of {self.physical.size}; expected at most as many NPUs")
        object.__setattr__(self, "_as_made", tuple(_as_made(self)))

    def check_unchanged(self) -> None:
        """Raise PluginError if a plugin has changed the platform since it was made: the basis of a result's audit would change, too.

        Changes are undone, because other runs may share its dimensions.
        """
        changes = []
        for part, where, name, value, before in self._as_made:
            owner = self if part is None else part
            now = getattr(owner, name)
            if (now != before) if type(before) in _PLAIN else now is not value:
                changes.append(f"{where}{name} was {before!r} and is {now!r}")
                object.__setattr__(owner, name, before)
        if changes:
            raise PluginError(f"a plugin has changed the platform, which is not allowed: {'; '.join(changes)}")

    def wired(self) -> Platform:
        """The platform as it is wired: of one dimension if dimensions are logical, with its idle NPUs; else itself."""
        return self if self.physical is None else Platform((self.physical,), self.name, self.device)

    def fabric(self) -> Fabric:
        """The graph of NPUs, switches and links, made anew. Raises InputError if a topology does not list its links."""
        return fabric_of(self.wired())

    def slowed_between_nodes(self, share: float) -> Platform:
        """The platform with a share of the bandwidth of all dimensions but the innermost, which is a node."""
        if share == 1:
            return self
        node, *others = self.dimensions
        slower = (attrs.evolve(other, link_bandwidth=other.link_bandwidth * share) for other in others)
        physical = self.physical
        for number in range(1, len(self.dimensions)):
            physical = scaled_in(physical, number, share, 1.0) or physical
        return attrs.evolve(self, dimensions=(node, *slower), physical=physical)

    def coordinate(self, npu: int, dimension: int) -> int:
        """Position of `npu` in a dimension."""
        return npu // self.strides[dimension] % self.dimensions[dimension].size

    def route(self, source: int, destination: int, lowest: bool = False) -> Route:
        """The route between two different NPUs: the highest dimension in which they differ, or the lowest.

        Raises InputError if they are one.
        """
        strides, dimensions = self.strides, self.dimensions
        order = range(len(dimensions))
        for index in order if lowest else reversed(order):
            stride, size = strides[index], dimensions[index].size
            a, b = source // stride % size, destination // stride % size
            if a != b:
                return Route(index, dimensions[index].hops(a, b))
        raise InputError(f"a message from NPU {source} to itself has no route")

    def logical_dimensions(self) -> tuple[LogicalDimension, ...]:
        """The platform's own dimensions, as collectives see them."""
        return tuple(LogicalDimension(d.size, s, i) for i, (d, s) in enumerate(zip(self.dimensions, self.strides, strict=True)))

    def whole(self) -> LogicalDimension:
        """All NPUs as one dimension."""
        return LogicalDimension(self.npus, 1, 0 if len(self.dimensions) == 1 else None)

    def parts_of_group(self, size: int, stride: int, name: str = "") -> list[LogicalDimension]:
        """Groups of `size` NPUs, `stride` apart, as logical dimensions: split at the end of a dimension of the platform.

        One that no dimension of the platform holds, and none divides, is one dimension that spans several.
        """
        parts: list[LogicalDimension] = []
        while size > 1:
            physical = max(number for number, own in enumerate(self.strides) if own <= stride)
            end = self.strides[physical] * self.dimensions[physical].size
            here, rest = divmod(end, stride)
            fits = stride % self.strides[physical] == 0 and not rest
            if fits and size <= here and here % size == 0:
                return [*parts, LogicalDimension(size, stride, physical, name)]
            if not fits or here < 2 or size % here:
                return [*parts, LogicalDimension(size, stride, None, name)]
            parts.append(LogicalDimension(here, stride, physical, name))
            size, stride = size // here, stride * here
        return parts

    def split_for_group(self, group: int, logical: tuple[LogicalDimension, ...] | None = None) -> tuple[tuple[LogicalDimension, ...], int]:
        """Logical dimensions of which the first ones span groups of `group` NPUs, and the number of these first ones.

        A dimension that the group's boundary cuts is split in two. `logical`: the dimensions to split, such as those that a smaller group
        has split already. Raises InputError if the size of that dimension is not a multiple of the group's part of it.
        """
        logical = self.logical_dimensions() if logical is None else logical
        if not 1 <= group <= self.npus:
            raise InputError(f"a group of {group} NPUs does not fit a platform of {self.npus}; expected 1 to {self.npus}")
        covered = 1
        for index, dimension in enumerate(logical):
            if covered == group:
                return logical, index
            if covered * dimension.size > group:
                inner, rest = divmod(group, covered)
                if rest or dimension.size % inner:
                    sizes = " x ".join(str(d.size) for d in logical)
                    raise InputError(f"groups of {group} NPUs do not divide the platform of {sizes} NPUs along its dimensions")
                first = LogicalDimension(inner, dimension.stride, dimension.physical)
                second = LogicalDimension(dimension.size // inner, dimension.stride * inner, dimension.physical)
                return (*logical[:index], first, second, *logical[index + 1 :]), index + 1
            covered *= dimension.size
        return logical, len(logical)

    def shape(self, logical: LogicalDimension | Group) -> GroupShape:
        """The placement of the groups of a logical dimension, or of one group.

        It is one for all groups of a dimension. If their placements differ it is that of a group in the most nodes, and of these of one
        with the fewest ranks in a node.
        """
        blocks = (*self.strides, self.npus)
        if isinstance(logical, Group):
            return _shape_of(logical.members, blocks)
        parts = logical.parts if isinstance(logical, LogicalProduct) else (logical,)
        counts = [[_blocks_along(part, block) for part in parts] for block in blocks]
        if any(None in count for count in counts):
            shapes = {_shape_of(members, blocks) for members in logical.groups(self.npus)}
            return max(shapes, key=lambda shape: (shape.blocks[1:], -shape.per_node))
        along = tuple(math.prod(number or 1 for number in count) for count in counts)
        return GroupShape(along, along[0] // along[1])

    def distinct_groups(self, dimension: LogicalDimension) -> list[Sequence[int]]:
        """Groups that together have every route: those at all offsets within a split physical dimension, or all that reach over several."""
        if dimension.physical is None:
            return dimension.groups(self.npus)
        stride, size = self.strides[dimension.physical], self.dimensions[dimension.physical].size
        groups = {dimension.group(offset * stride)[0]: dimension.group(offset * stride) for offset in range(size)}
        return list(groups.values())


class _AsMade(NamedTuple):
    """An attribute of a part of a platform: the part, if any, its name, its value, and its first value.

    The part is None for the platform itself, which keeps these and would else wait for Python's collector.
    """

    part: object
    where: str
    name: str
    value: object
    cached: object


_PLAIN = frozenset((int, float, str, bool, type(None), list, dict, set, tuple))
"""Types of which another object may hold the same."""


@functools.cache
def _fields(cls: Any) -> tuple[str, ...] | None:
    return tuple(field.name for field in attrs.fields(cls) if not field.name.startswith("_")) if attrs.has(cls) else None


def _as_made(platform: Platform) -> Iterator[_AsMade]:
    """The public attributes of a platform, its dimensions and their topologies. Private attributes may be caches."""
    owners: list[tuple[object, str]] = [(platform, "")]
    for number, dimension in enumerate((*platform.dimensions, *filter(None, [platform.physical]))):
        where = f"dimension {number}: " if number < len(platform.dimensions) else "the physical dimension: "
        owners += [(dimension, where), (written(dimension.topology), f"{where}topology: ")]
    for owner, where in owners:
        part = None if owner is platform else owner
        cls: Any = type(owner)
        names = _fields(cls)
        if names is None:
            names = tuple(name for name in getattr(owner, "__dict__", ()) if not name.startswith("_"))
        for name in names:
            value: Any = getattr(owner, name, None)
            yield _AsMade(part, where, name, value, value.copy() if type(value) in (list, dict, set) else value)


@attrs.frozen(eq=False, repr=False)
class LogicalTopology(ValueObject, Topology):
    """The NPUs of a logical dimension, `stride` apart on a physical dimension that contains all NPUs: hops are those between them there."""

    physical: Dimension
    size: int
    stride: int
    is_part: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """The name of the physical topology."""
        return self.physical.topology.name

    @property
    def pattern(self) -> Pattern | None:
        """The pattern of the physical topology."""
        return pattern_of(self.physical)

    def hops(self, source: int, destination: int) -> int:
        """Links between two NPUs of the first group."""
        return self.physical.hops(source * self.stride, destination * self.stride)

    def is_symmetric(self, peer: Peer) -> bool:
        """Not known."""
        return False

    def links_per_message(self) -> int:
        """As on the physical dimension."""
        return self.physical.topology.links_per_message()

    def links_per_npu(self) -> int:
        """As on the physical dimension."""
        return self.physical.topology.links_per_npu()


def with_logical_dimensions(platform: Platform, sizes: Sequence[int]) -> Platform:
    """The platform with its one dimension cut into logical ones of these sizes, the first varying fastest. NPUs beyond them are idle.

    Raises InputError if it has several dimensions, or the sizes multiply to more than its NPUs.
    """
    if len(platform.dimensions) != 1:
        raise InputError(f"logical dimensions of a platform of {len(platform.dimensions)} dimensions; expected one that contains all NPUs")
    (whole,) = platform.dimensions
    dimensions, stride = [], 1
    for size in sizes:
        if size < 1:
            raise InputError(f"logical dimensions have the size {size}; expected at least 1")
        dimensions.append(attrs.evolve(whole, topology=LogicalTopology(whole, size, stride), size=size))
        stride *= size
    return Platform(tuple(dimensions), platform.name, platform.device, physical=whole)


@attrs.frozen(eq=False, repr=False)
class Preset(ValueObject):
    """A machine that is put together of topologies by name: tables as `[[platform.dimensions]]` of an experiment has them.

    A factory of `astra_platforms` gives it instead of dimensions, for the topologies may be of other plugins. `name` and `device` are those
    of the platform, unless the experiment gives its own. If the NPUs are wired otherwise than the dimensions, `physical` is the one
    dimension that contains all of them: see `Platform`. It is left out if the preset is only one of several dimensions of a platform.
    """

    dimensions: tuple[Mapping[str, Any], ...] = attrs.field(validator=each("a tuple of tables", of_type("a table", Mapping)))
    name: str = attrs.field(validator=TEXT)
    device: str = attrs.field(default="", validator=TEXT)
    physical: Dimension | None = attrs.field(default=None, validator=of_type("a Dimension", Dimension).optional())


def scaled_in(physical: Dimension | None, number: int, bandwidth: float, latency: float) -> Dimension | None:
    """A physical dimension whose links of one logical dimension have `bandwidth` and `latency` times their own.

    None if its topology does not name them.
    """
    topology = None if physical is None else physical.topology.scaled_in(number, bandwidth, latency)
    return None if topology is None or physical is None else attrs.evolve(physical, topology=topology)


def _blocks_along(dimension: LogicalDimension, block: int) -> int | None:
    """The number of blocks of NPUs that each group of a dimension occupies; None if it differs among them."""
    span = dimension.size * dimension.stride
    if block % span == 0:
        return 1
    if dimension.stride % block == 0:
        return dimension.size
    if span % block == 0 and block % dimension.stride == 0:
        return span // block
    return None


def _shape_of(members: Sequence[int], blocks: Sequence[int]) -> GroupShape:
    per_node = Counter(npu // blocks[1] for npu in members)
    return GroupShape(tuple(len({npu // block for npu in members}) for block in blocks), min(per_node.values()))


def device_family(device: str) -> str:
    """The family of devices that differ only in memory or in the version of software: a100 of a100-40, h100 of h100-2.27.3."""
    return re.sub(r"-[0-9.]+$", "", device)


def bytes_per_ns(gib_per_s: float) -> float:
    """GiB/s (2^30 bytes per second) as bytes per nanosecond."""
    return gib_per_s * GIB / 1e9


def is_power_of_two(number: int) -> bool:
    """Whether `number` is 1, 2, 4, ..."""
    return number > 0 and number & (number - 1) == 0
