"""Topology files of ASTRA-sim's ns-3 back end and of SimAI: switches, and links with rate, delay and error."""

from __future__ import annotations

import re
from collections import Counter, deque
from typing import NamedTuple

import attrs
from astra_sim import InputError, option
from astra_sim.files import finite_number, is_whole, read_text
from astra_sim.platform import Dimension, Topology
from astra_sim.schedule import Peer

_RATES = {"bps": 1, "b/s": 1, "Kbps": 10**3, "Kb/s": 10**3, "kbps": 10**3, "kb/s": 10**3, "Mbps": 10**6, "Mb/s": 10**6}
_RATES |= {"Gbps": 10**9, "Gb/s": 10**9, "Tbps": 10**12, "Tb/s": 10**12}
_DELAYS = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0, "ps": 1e-3}
_NUMBER = r"([0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?)"
_MAX_NODES = 1 << 20


@attrs.frozen
class TopologyFileOptions:
    """Options of a topology file."""

    file: str = option(help="topology file of ASTRA-sim's ns-3 back end, or of SimAI", path="path")


class FileLink(NamedTuple):
    """A link in a file, both ways: the ids of its ends, bit/s, nanoseconds, and the share of packets that are lost."""

    one: int
    other: int
    rate: int
    delay_ns: float
    error_rate: float


@attrs.frozen
class TopologyFile(Topology):
    """NPUs 0 to `size` - 1, switches after them, and links both ways. `node_ids` are their numbers in the file."""

    size: int
    switches: int
    wired: tuple[FileLink, ...] = attrs.field(repr=False)
    node_ids: tuple[int, ...] = attrs.field(repr=False)
    within_server: frozenset[int] = attrs.field(default=frozenset(), repr=False)
    name: str = "ns3_topology"
    _rows: dict[int, list[int]] = attrs.field(factory=dict, init=False, repr=False, eq=False)

    def links(self) -> list[tuple[int, int, float, float, float]]:
        """The links, each way by itself: ends, bytes/ns, nanoseconds, and the share of packets that are lost."""
        place = {number: node for node, number in enumerate(self.node_ids)}
        listed = []
        for link in self.wired:
            a, b = place[link.one], place[link.other]
            listed += [(*ends, link.rate / 8e9, link.delay_ns, link.error_rate) for ends in ((a, b), (b, a))]
        return listed

    def hops(self, source: int, destination: int) -> int:
        """The fewest links between two NPUs."""
        if source not in self._rows:
            self._rows[source] = self._distances(source)
        return self._rows[source][destination]

    def is_symmetric(self, peer: Peer) -> bool:
        """Not known."""
        return False

    def links_per_message(self) -> int:
        """One."""
        return 1

    def links_per_npu(self) -> int:
        """The links of the NPU with the fewest."""
        ends = Counter(end for link in self.wired for end in (link.one, link.other))
        return min(ends[number] for number in self.node_ids[: self.size])

    def scaled(self, bandwidth: float, latency: float) -> TopologyFile:
        """The topology with links of `bandwidth` and `latency` times their own."""
        return attrs.evolve(
            self, wired=tuple(link._replace(rate=round(link.rate * bandwidth), delay_ns=link.delay_ns * latency) for link in self.wired)
        )

    def _distances(self, source: int) -> list[int]:
        """Hops from a node to every node, -1 if there is no path; links count in both directions."""
        near: list[list[int]] = [[] for _ in self.node_ids]
        for a, b, *_ in self.links():
            near[a].append(b)
        distances = [-1] * len(near)
        distances[source] = 0
        waiting = deque([source])
        while waiting:
            node = waiting.popleft()
            for other in near[node]:
                if distances[other] < 0:
                    distances[other] = distances[node] + 1
                    waiting.append(other)
        return distances


def ns3_topology(options: TopologyFileOptions) -> list[Dimension]:
    """The dimension in a file. Raises InputError naming file and line."""
    topology = parse(read_text(options.file), options.file)
    slowest = min(link.rate for link in topology.wired) / 8e9
    longest = max(link.delay_ns for link in topology.wired)
    return [Dimension(topology, topology.size, topology.links_per_npu(), slowest, longest)]


def recognises(text: str) -> bool:
    """Whether the first line is that of such a file: three numbers, or five and a name."""
    first = text.lstrip("\n").partition("\n")[0].split()
    if len(first) == 3:
        return all(word.isdecimal() for word in first) and _names_rate(text)
    return len(first) == 6 and all(word.isdecimal() for word in first[:5]) and not first[5].isdecimal() and _names_rate(text)


def _names_rate(text: str) -> bool:
    return re.search(rf"\b[0-9.]+({'|'.join(_RATES)})\b", text) is not None


def read(text: str, path: str) -> dict[str, dict[str, object]]:
    """The section `platform`. Raises InputError."""
    parse(text, path)
    return {"platform": {"plugin": "ns3_topology", "file": path}}


def parse(text: str, path: str) -> TopologyFile:
    """The topology in a text. Raises InputError naming file and line."""
    lines = text.split("\n")
    head = lines[0].split()
    simai = len(head) == 6
    numbers = head[:5] if simai else head
    if len(numbers) != (5 if simai else 3) or not all(word.isdecimal() for word in numbers):
        raise InputError(
            f"{path}:1: {lines[0]!r}; expected 'nodes switches links', or 'nodes gpus_per_server nvswitches switches links GPU' of SimAI"
        )
    counts = [int(word) for word in numbers]
    nodes, links = counts[0], counts[-1]
    switches = counts[2] + counts[3] if simai else counts[1]
    if not 0 < nodes - switches or nodes > _MAX_NODES:
        raise InputError(
            f"{path}:1: {nodes} nodes of which {switches} are switches; expected at least one NPU, and at most {_MAX_NODES} nodes"
        )
    ids = _switches(lines[1] if len(lines) > 1 else "", switches, nodes, f"{path}:2")
    wired = _links(lines, links, nodes, path)
    npus = [node for node in range(nodes) if node not in set(ids)]
    attached = {end for link in wired for end in (link.one, link.other)}
    for npu in npus:
        if npu not in attached and len(npus) > 1:
            raise InputError(f"{path}: NPU {npu} has no link")
    if not wired:
        raise InputError(f"{path}: there is no link; expected at least one")
    within = frozenset(ids[: counts[2]]) if simai else frozenset()
    return TopologyFile(len(npus), switches, wired, (*npus, *sorted(ids)), within)


def _switches(line: str, switches: int, nodes: int, where: str) -> list[int]:
    words = line.split()
    if len(words) != switches or not all(is_whole(word) and int(word) < nodes for word in words) or len(set(words)) != len(words):
        raise InputError(f"{where}: {line!r:.80}; expected the ids of {switches} switches, different and below {nodes}")
    return [int(word) for word in words]


def _links(lines: list[str], links: int, nodes: int, path: str) -> tuple[FileLink, ...]:
    """The links from line 3 on. Raises InputError unless there are as many as in line 1."""
    wired: list[FileLink] = []
    for number, line in enumerate(lines[2:], 3):
        words = line.split()
        if not words:
            continue
        if len(wired) == links:
            raise InputError(f"{path}:{number}: {line!r:.80}; expected no more than the {links} links of line 1")
        wired.append(_link(words, nodes, f"{path}:{number}"))
    if len(wired) != links:
        raise InputError(f"{path}: {len(wired)} links; expected {links}, as in line 1")
    return tuple(wired)


def _link(words: list[str], nodes: int, where: str) -> FileLink:
    """The link of a line: rate in bit/s, delay in ns. Raises InputError that begins with `where`."""
    if len(words) != 5:
        raise InputError(f"{where}: {' '.join(words)!r:.80}; expected 'node node rate delay error', such as '0 8 400Gbps 0.0005ms 0'")
    ends = words[:2]
    if not all(is_whole(word) and int(word) < nodes for word in ends) or ends[0] == ends[1]:
        raise InputError(f"{where}: a link between {ends[0]} and {ends[1]}; expected two different nodes below {nodes}")
    rate = quantity(words[2], _RATES, where, "rate", "400Gbps")
    delay = quantity(words[3], _DELAYS, where, "delay", "0.0005ms")
    if round(rate) < 1:
        raise InputError(f"{where}: the rate is {words[2]}; expected at least 1bps")
    error = finite_number(words[4], f"{where}: the error rate", most=1)
    return FileLink(int(ends[0]), int(ends[1]), round(rate), round(delay, 6), error)


def quantity(word: str, units: dict[str, int] | dict[str, float], where: str, what: str, example: str) -> float:
    """A number with its unit, in the base of the units. Raises InputError naming if."""
    match = re.fullmatch(_NUMBER + r"([A-Za-z/]+)", word)
    if match is None or match[2] not in units:
        raise InputError(f"{where}: the {what} is {word}; expected a number and a unit ({', '.join(units)}), such as {example}")
    number: float = float(match[1]) * units[match[2]]
    if not number < 2**60:
        raise InputError(f"{where}: the {what} is {word}, which is too large")
    return number


def rate_of(word: str, where: str) -> float:
    """bit/s of a rate such as 50Mb/s. Raises InputError."""
    return quantity(word, _RATES, where, "rate", "50Mb/s")
