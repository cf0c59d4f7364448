"""A topology from a file: NPUs and switches, and links that each have a bandwidth and a latency."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import attrs
from astra_sim import InputError, option
from astra_sim.files import check_cells, check_once, csv_rows, parse_toml, read_text
from astra_sim.options import Typed, structure
from astra_sim.platform import Dimension, Topology, bytes_per_ns
from astra_sim.schedule import Peer

from astra_sim_platforms.shortest_paths import shortest_paths

_NUMBER = re.compile(r"[-+]?[0-9.]+([eE][-+]?[0-9]+)?")


@attrs.frozen
class GraphOptions:
    """Options of a graph."""

    file: str = option(help="edge list, TOML or CSV; the path is relative to the working directory", path="path")


@attrs.frozen
class GraphLinkOptions:
    """A link in a file. Bandwidth in one of two units."""

    source: str = option(help="where the link begins: an NPU by its number, or a switch by another name")
    target: str = option(help="where the link ends")
    bandwidth_gb_per_s: float | None = option(None, above=0, help="bandwidth of each direction", unit="10^9 bytes/s")
    bandwidth_gib_per_s: float | None = option(None, above=0, help="the same, as ASTRA-sim counts", unit="2^30 bytes/s")
    latency_ns: float = option(0.0, minimum=0, help="latency", unit="ns")
    both_ways: bool = option(True, help="false: from source to target only")


class GraphLink(NamedTuple):
    """A directed link between two nodes. Bandwidth in bytes per nanosecond, latency in nanoseconds."""

    source: int
    target: int
    bandwidth: float
    latency_ns: float


@attrs.frozen
class GraphFile(Topology):
    """NPUs 0 to `size` - 1, further nodes that are switches, and directed links between them.

    `distances` are the numbers of links between two NPUs: entry source * size + destination.
    Turns at paths of equal cost need not be even, for a graph may be `irregular`.
    """

    irregular: ClassVar[bool] = True

    size: int
    edges: tuple[GraphLink, ...] = attrs.field(repr=False)
    distances: tuple[int, ...] = attrs.field(repr=False)
    name: str = "graph"

    def hops(self, source: int, destination: int) -> int:
        """The fewest links between two NPUs."""
        return self.distances[source * self.size + destination]

    def is_symmetric(self, peer: Peer) -> bool:
        """Not known; all ways are compared."""
        return False

    def links(self) -> tuple[GraphLink, ...]:
        """The directed links."""
        return self.edges

    def destination_order(self) -> Sequence[int]:
        """NPUs spread over paths of equal cost leaf by leaf: a leaf is the first node that has a link from an NPU."""
        leaf = [self.size + len(self.edges)] * self.size
        for link in self.edges:
            if link.source < self.size:
                leaf[link.source] = min(leaf[link.source], link.target if link.target >= self.size else leaf[link.source])
        destination_order = [0] * self.size
        for turn, npu in enumerate(sorted(range(self.size), key=lambda each: (leaf[each], each))):
            destination_order[npu] = turn
        return destination_order

    def links_per_message(self) -> int:
        """One."""
        return 1

    def links_per_npu(self) -> int:
        """The links on which the NPU with the fewest can send."""
        links = Counter(link.source for link in self.edges)
        return min(links[npu] for npu in range(self.size))

    def scaled(self, bandwidth: float, latency: float) -> GraphFile:
        """The graph with links of `bandwidth` and `latency` times their own."""
        edges = [link._replace(bandwidth=link.bandwidth * bandwidth, latency_ns=link.latency_ns * latency) for link in self.edges]
        return attrs.evolve(self, edges=tuple(edges))

    def is_uniform(self) -> bool:
        """Whether all links have the same bandwidth and latency."""
        return len({(link.bandwidth, link.latency_ns) for link in self.edges}) == 1


def graph(options: GraphOptions) -> list[Dimension]:
    """The dimension in a file. Raises InputError."""
    path = options.file
    text = read_text(path)
    links = _toml_links(text, path) if path.endswith(".toml") else _csv_links(text, path)
    topology = _graph(links, path)
    slowest, longest = min(link.bandwidth for link in topology.edges), max(link.latency_ns for link in topology.edges)
    return [Dimension(topology, topology.size, topology.links_per_npu(), slowest, longest)]


def _toml_links(text: str, path: str) -> list[tuple[str, GraphLinkOptions]]:
    table = parse_toml(text, path)
    for key in table:
        if key != "links":
            raise InputError(f"{path}: unknown key {key!r}; expected a list of tables [[links]]")
    listed = table.get("links")
    if not isinstance(listed, list):
        raise InputError(f"{path}: links is {'missing' if listed is None else repr(listed)}; expected a list of tables [[links]]")
    return [_link(entry, f"{path}: link {number}") for number, entry in enumerate(listed, 1)]


def _csv_links(text: str, path: str) -> list[tuple[str, GraphLinkOptions]]:
    rows = csv_rows(text, path)
    first, header = next(rows, (1, []))
    check_once(header, f"{path}:{first}")
    result: list[tuple[str, GraphLinkOptions]] = []
    for number, cells in rows:
        where = f"{path}:{number}"
        check_cells(cells, header, where)
        result.append(_link({key: Typed(cell) for key, cell in zip(header, cells, strict=True) if cell}, where))
    return result


def _link(entry: Any, where: str) -> tuple[str, GraphLinkOptions]:
    if isinstance(entry, Mapping):
        # A node may be a number or its text.
        entry = {key: str(value) if key in ("source", "target") and type(value) is int else value for key, value in entry.items()}
    return where, structure(GraphLinkOptions, entry, where)


def _graph(listed: Sequence[tuple[str, GraphLinkOptions]], path: str) -> GraphFile:
    """The graph of listed links. Raises InputError for a link to itself, a second one, or an NPU without a route."""
    numbers = _numbers((name for _, link in listed for name in (link.source, link.target)), path)
    size = sum(name.isdecimal() for name in numbers)
    edges: dict[tuple[int, int], GraphLink] = {}
    for where, link in listed:
        bandwidths = link.bandwidth_gb_per_s, link.bandwidth_gib_per_s
        if (bandwidths[0] is None) == (bandwidths[1] is None):
            raise InputError(f"{where}: exactly one of bandwidth_gb_per_s and bandwidth_gib_per_s must be given")
        bandwidth = float(bandwidths[0]) if bandwidths[0] is not None else bytes_per_ns(bandwidths[1])  # type: ignore[arg-type]
        ends = numbers[link.source], numbers[link.target]
        if ends[0] == ends[1]:
            raise InputError(f"{where}: a link from {link.source} to itself; expected two nodes")
        for source, target in (ends, ends[::-1]) if link.both_ways else (ends,):
            if (source, target) in edges:
                raise InputError(f"{where}: the link between {link.source} and {link.target} is there already, in this direction")
            edges[source, target] = GraphLink(source, target, bandwidth, link.latency_ns)
    _, distances = shortest_paths(len(numbers), size, list(edges), path)
    return GraphFile(size, tuple(edges.values()), tuple(distances[: size * size]))


def _numbers(names: Iterable[str], path: str) -> dict[str, int]:
    """The number of every node: NPUs have the numbers that name them, switches the following ones in the order of the file."""
    distinct = list(dict.fromkeys(names))
    for name in distinct:
        if not name or (_NUMBER.fullmatch(name) and not name.isdecimal()) or (name.isdecimal() and not (name.isascii() and len(name) < 10)):
            raise InputError(f"{path}: a link joins {name!r:.80}; expected an NPU, a number from 0 on, or a switch, a name")
    npus = sorted((name for name in distinct if name.isdecimal()), key=int)
    if len(npus) < 2:
        raise InputError(f"{path}: the links join {len(npus)} NPUs; expected at least 2, numbered from 0")
    for number, name in enumerate(npus):
        if name != str(number):
            raise InputError(f"{path}: there is an NPU {name}, but no NPU {number}; expected numbers from 0 without a gap")
    return {name: number for number, name in enumerate([*npus, *(name for name in distinct if not name.isdecimal())])}
