"""Communication that shares no link with other communication, and which of it is alike: it is simulated once.

Groups of a collective, or pairs of NPUs that send messages, form a component if their routes share a link, if only through others. Two
components are alike if NPUs, switches and links of one can be renamed to those of the other: then they take the same time.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple

import attrs
from astra_sim import InputError
from astra_sim.fabric import RouteRules
from astra_sim.fabric.routes import Routes, TieRule, dimension_graph
from astra_sim.fabric.ties import tie_by_destination, tie_first
from astra_sim.platform import Platform

Link = tuple[int, str, str]
"""A link: its dimension, and the names of its ends."""

MOST_PAIRS = 1 << 18
"""Pairs of NPUs whose routes are followed for one kind of traffic."""


class Paths:
    """The links of messages between NPUs on a network that routes by `rules`, by their numbers in the fabric of a platform."""

    def __init__(self, platform: Platform, rules: RouteRules) -> None:
        wired = self._platform = platform.wired()
        self._fabric = wired.fabric()
        self._ties: list[TieRule | None] = []
        self._routes: list[Routes] = []
        self._first: list[int] = []
        total = 0
        for number, dimension in enumerate(wired.dimensions):
            graph = dimension_graph(dimension, f"dimension {number}")
            self._routes.append(Routes(graph, rules.forwarding))
            self._ties.append({"destination": tie_by_destination(graph), "first": tie_first}.get(rules.choice))
            self._first.append(total)
            total += len(graph.links) * (wired.npus // dimension.size)
        self._known: dict[tuple[int, int], tuple[int, ...] | None] = {}

    def path(self, source: int, destination: int) -> tuple[int, ...] | None:
        """The links of the route between two NPUs; None if it is not the only one, or leads through several dimensions."""
        key = source, destination
        if key not in self._known:
            self._known[key] = self._path(source, destination)
        return self._known[key]

    def name(self, link: int) -> Link:
        """The name by which networks report a link."""
        return self._fabric.link_ends(link)

    def kind(self, link: int) -> Hashable:
        """What a link has in common with others that are alike."""
        at = self._fabric.links[link]
        return at._replace(source=0, target=0), self._fabric.is_switch(at.source), self._fabric.is_switch(at.target)

    def ends(self, link: int) -> tuple[int, int]:
        """The nodes of a link."""
        at = self._fabric.links[link]
        return at.source, at.target

    def _path(self, source: int, destination: int) -> tuple[int, ...] | None:
        """The links of a route within a dimension: at each node the only one that leads on, or that of the network's rule."""
        platform = self._platform
        apart = [
            each for each in range(len(platform.dimensions)) if platform.coordinate(source, each) != platform.coordinate(destination, each)
        ]
        if len(apart) != 1:
            return None
        number = apart[0]
        stride, size, routes, tie = platform.strides[number], platform.dimensions[number].size, self._routes[number], self._ties[number]
        node, end = platform.coordinate(source, number), platform.coordinate(destination, number)
        line = source // (stride * size) * stride + source % stride
        first = self._first[number] + line * len(routes.graph.links)
        path = []
        begin = node
        while node != end:
            links = routes.next_links(node, end, begin)
            if not links or (len(links) > 1 and tie is None):
                return None
            link = links[tie(node, end, links) if tie is not None and len(links) > 1 else 0]
            path.append(first + link)
            node = routes.graph.links[link].target
        return tuple(path)


class Member(NamedTuple):
    """NPUs that send to each other, in the order of ranks; `role` is what they do, by a number."""

    role: int
    npus: tuple[int, ...]


@attrs.frozen(eq=False)
class TrafficComponent:
    """Groups, or pairs of NPUs, that share links.

    `links` are those of their routes in the order in which these meet them, `shape` is equal for all that are alike.
    """

    members: tuple[Member, ...]
    links: tuple[int, ...]
    shape: Hashable

    @property
    def npus(self) -> tuple[int, ...]:
        """All of its NPUs."""
        return tuple(sorted({npu for each in self.members for npu in each.npus}))


def paths_on(platform: Platform, rules: RouteRules) -> Paths | None:
    """The paths of a platform; None if its links are not known."""
    try:
        return Paths(platform, rules)
    except InputError:
        return None


def components_of(members: Sequence[Member], paths: Paths) -> list[TrafficComponent] | None:
    """The components of groups, of which each NPU may send to each other one, or of pairs; None if not all routes are known."""
    if sum(len(each.npus) * (len(each.npus) - 1) for each in members) > MOST_PAIRS:
        return None
    links_of = []
    for each in members:
        links: dict[int, None] = {}
        for source, destination in itertools.permutations(each.npus, 2):
            path = paths.path(source, destination)
            if path is None:
                return None
            links.update(dict.fromkeys(path))
        links_of.append(links)
    together = _merged([{("npu", npu) for npu in each.npus} | set(links) for each, links in zip(members, links_of, strict=True)])
    return [_component([members[number] for number in numbers], paths) for numbers in together]


def alike(components: Iterable[TrafficComponent]) -> Iterator[list[TrafficComponent]]:
    """The components that are alike, together."""
    classes: dict[Hashable, list[TrafficComponent]] = {}
    for component in components:
        classes.setdefault(component.shape, []).append(component)
    yield from classes.values()


def connected(numbers: Iterable[int], pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Numbers that pairs connect, if only through others, together: in the order in which the numbers come."""
    leader = {number: number for number in numbers}

    def top(number: int) -> int:
        while leader[number] != number:
            leader[number] = number = leader[leader[number]]
        return number

    for one, other in pairs:
        leader[top(other)] = top(one)
    together: dict[int, list[int]] = {}
    for number in leader:
        together.setdefault(top(number), []).append(number)
    return list(together.values())


def _merged(sets: Sequence[Iterable[Hashable]]) -> list[list[int]]:
    """The numbers of sets that have members in common, if only through others."""
    seen: dict[Hashable, int] = {}
    return connected(range(len(sets)), ((seen.setdefault(entry, number), number) for number, each in enumerate(sets) for entry in each))


def _component(members: Sequence[Member], paths: Paths) -> TrafficComponent:
    """A component, with its shape: nodes and links by the order in which the routes of its members meet them."""
    nodes: dict[int, int] = {}
    links: dict[int, int] = {}
    shape: list[Hashable] = []
    for member in members:
        shape.append((member.role, *(nodes.setdefault(npu, len(nodes)) for npu in member.npus)))
        for source, destination in itertools.permutations(member.npus, 2):
            route = []
            for link in paths.path(source, destination) or ():
                if link not in links:
                    links[link] = len(links)
                    shape.append((*(nodes.setdefault(end, len(nodes)) for end in paths.ends(link)), paths.kind(link)))
                route.append(links[link])
            shape.append(tuple(route))
    return TrafficComponent(tuple(members), tuple(links), tuple(shape))
