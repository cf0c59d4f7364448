"""The fabric room in C++ gives the results of the one in Python, on any graph."""

from __future__ import annotations

import ctypes
import itertools
import shutil
import subprocess
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, get_args

import astra_sim
import pytest
from astra_sim.errors import InputError
from astra_sim.fabric import FabricLink
from astra_sim.fabric.graph import DimensionGraph
from astra_sim.fabric.paths import UNREACHABLE
from astra_sim.fabric.routes import DestinationRoutes, HostForwarding, NextLinkOrder, Routes, TieRule
from astra_sim.fabric.ties import tie_by_destination, tie_first
from hypothesis import given, settings
from hypothesis import strategies as st
from support import ROOT
from support.message_parts import parts_of_message, tie_by_hash

SOURCE = ROOT / "tests" / "support" / "native" / "fabric.cpp"
FORWARDING: tuple[HostForwarding, ...] = ("if_needed", "always", "never")
ORDERS: tuple[NextLinkOrder, ...] = ("listed", "target")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    built: Path = tmp_path_factory.mktemp("fabric") / "fabric.so"
    flags = ["-std=c++20", "-Wall", "-Wextra", "-Werror", "-D_GLIBCXX_ASSERTIONS", "-shared", "-fPIC", f"-I{astra_sim.get_include()}"]
    subprocess.run([compiler, *flags, "-o", built, SOURCE], check=True, timeout=300)
    loaded = ctypes.CDLL(str(built))
    loaded.make.restype = ctypes.c_void_p
    loaded.spread.restype = ctypes.c_bool
    return loaded


class Room:
    """The room in C++ for a graph."""

    def __init__(self, library: ctypes.CDLL, room: ctypes.c_void_p, links: int) -> None:
        self._library, self._room, self._links = library, room, links

    def _listed(self, ask: Callable[..., int], *arguments: int) -> list[int] | None:
        out = (ctypes.c_int * (self._links + 1))()
        count = ask(self._room, *arguments, out)
        return None if count < 0 else list(out[:count])

    def next_links(self, node: int, destination: int) -> list[int] | None:
        return self._listed(self._library.next_links, node, destination)

    def path(self, source: int, destination: int, rule: int, seed: int) -> list[int] | None:
        return self._listed(self._library.path, source, destination, rule, seed)

    def loads(self, source: int, destination: int) -> list[float] | None:
        out = (ctypes.c_double * self._links)()
        return list(out) if self._library.spread(self._room, source, destination, out) else None

    def first_link(self, node: int, destination: int) -> int:
        return int(self._library.first_link(self._room, node, destination))


@contextmanager
def room_of(
    library: ctypes.CDLL, graph: DimensionGraph, forwarding: HostForwarding, order: NextLinkOrder, failed: Collection[int] = ()
) -> Iterator[Room]:
    count = len(graph.links)
    flat = [number for link in graph.links for number in (link.source, link.target, link.cost)]
    numbers = (ctypes.c_int * graph.size)(*graph.destination_order) if graph.destination_order is not None else None
    choices = FORWARDING.index(forwarding), ORDERS.index(order)
    room = ctypes.c_void_p(library.make(graph.nodes, graph.size, count, (ctypes.c_int * len(flat))(*flat), *choices, numbers))
    try:
        if failed:
            library.set_up(room, (ctypes.c_bool * count)(*(number not in failed for number in range(count))))
        yield Room(library, room, count)
    finally:
        library.destroy(room)


@st.composite
def graphs(draw: st.DrawFn) -> DimensionGraph:
    """Graphs of NPUs and switches, with costs, parallel links, links one way, parts that are not joined, and perhaps numbers."""
    random = Random(draw(st.integers(0, 2**32)))
    size, switches = random.randint(2, 12), random.randint(0, 8)
    nodes = size + switches
    pairs = [(a, b) for a, b in ((random.randrange(nodes), random.randrange(nodes)) for _ in range(random.randint(1, 4 * nodes))) if a != b]
    ends = [end for pair in pairs for end in ((pair, pair[::-1]) if random.random() < 0.9 else (pair,))]
    costs = random.choice(((1,), (1, 2), (1, 1, 3, 255)))
    links = [FabricLink(*each, 1.0, 1.0, cost=random.choice(costs)) for each in ends]
    destination_order = random.sample(range(size), size) if random.random() < 0.5 else None
    return DimensionGraph(size, nodes, tuple(links), None, destination_order)


def path_of(routes: Routes, source: int, destination: int, tie: TieRule) -> list[int] | None:
    try:
        return routes.path(source, destination, tie)
    except InputError:
        return None


def test_the_words_are_those_of_the_header() -> None:
    assert set(FORWARDING) == set(get_args(HostForwarding))
    assert ORDERS == get_args(NextLinkOrder)


@settings(deadline=None)
@given(graphs(), st.sampled_from(FORWARDING), st.sampled_from(ORDERS), st.integers(0, 2**30))
def test_routes_are_the_same(
    library: ctypes.CDLL, graph: DimensionGraph, forwarding: HostForwarding, order: NextLinkOrder, seed: int
) -> None:
    """Paths by each rule, parts of each link, and (but where it depends on the source whether NPUs forward) sets of next links."""
    if not graph.links:
        return
    random = Random(seed)
    failed = set(random.sample(range(len(graph.links)), random.randint(0, 2) % len(graph.links)))
    routes = Routes(graph, forwarding, order, failed)
    with room_of(library, graph, forwarding, order, failed) as room:
        for source, destination in itertools.permutations(range(graph.size), 2):
            rules: list[TieRule] = [tie_first, tie_by_hash(source, destination, seed)]
            for rule, tie in zip((0, 2), rules, strict=True):
                assert room.path(source, destination, rule, seed) == path_of(routes, source, destination, tie)
            if order == "target":
                by_destination = tie_by_destination(graph, upwards=True)
                assert room.path(source, destination, 1, seed) == path_of(routes, source, destination, by_destination)
            loads = parts_of_message(routes, source, destination) if routes.next_links(source, destination) else None
            assert room.loads(source, destination) == (
                None if loads is None else pytest.approx([loads[number] for number in range(len(graph.links))])
            )
        if forwarding != "if_needed":
            for node, destination in itertools.product(range(graph.nodes), range(graph.size)):
                assert room.next_links(node, destination) == routes.next_links(node, destination)


@settings(deadline=None)
@given(graphs())
def test_one_link_for_each_destination_is_the_same(library: ctypes.CDLL, graph: DimensionGraph) -> None:
    routes = DestinationRoutes(graph)
    with room_of(library, graph, "always", "target") as room:
        for node, destination in itertools.product(range(graph.nodes), range(graph.size)):
            right: Any = UNREACHABLE if node == destination else routes.next_link(node, destination)
            assert room.first_link(node, destination) == right
