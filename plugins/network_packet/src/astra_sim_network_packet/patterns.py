"""Synthetic traffic patterns: for every source the destination of its packets; None: random among all nodes, the source included."""

from __future__ import annotations

from collections.abc import Callable

from astra_sim import InputError
from astra_sim.errors import suggestion
from astra_sim.files import is_whole, read_text
from astra_sim.platform import Platform, is_power_of_two

Targets = list[int | None]


def uniform(platform: Platform) -> Targets:
    """Any node, with the same probability."""
    return [None] * platform.npus


def tornado(platform: Platform) -> Targets:
    """In every dimension nearly half of the ring: ceil(k / 2) - 1 positions further on."""
    return _shifted(platform, lambda size: (size + 1) // 2 - 1)


def neighbour(platform: Platform) -> Targets:
    """The next position in every dimension."""
    return _shifted(platform, lambda size: 1)


def bit_complement(platform: Platform) -> Targets:
    """The number with all bits inverted."""
    _bits(platform, "bit_complement")
    return [platform.npus - 1 - source for source in range(platform.npus)]


def transpose(platform: Platform) -> Targets:
    """The number with its upper and lower half of bits exchanged."""
    bits = _bits(platform, "transpose")
    if bits % 2:
        raise InputError(f"pattern transpose needs a number of NPUs with an even number of bits (4, 16, 64, ...), not {platform.npus}")
    half = bits // 2
    return [source >> half | (source & ((1 << half) - 1)) << half for source in range(platform.npus)]


def permutation(platform: Platform, path: str) -> Targets:
    """A file with a destination for each source, in order, separated by white space or commas. Raises InputError with the line."""
    targets: Targets = []
    for number, line in enumerate(read_text(path).split("\n"), 1):
        for word in line.partition("#")[0].replace(",", " ").split():
            if not is_whole(word) or int(word) >= platform.npus:
                raise InputError(f"{path}:{number}: {word!r:.80} is not an NPU; expected 0 to {platform.npus - 1}")
            targets.append(int(word))
    if len(targets) != platform.npus:
        raise InputError(f"{path}: {len(targets)} destinations for {platform.npus} NPUs; expected one for each")
    return targets


PATTERNS: dict[str, Callable[[Platform], Targets]] = {
    "uniform": uniform,
    "tornado": tornado,
    "transpose": transpose,
    "bit_complement": bit_complement,
    "neighbour": neighbour,
    "hot_spot": uniform,
}
"""Patterns by name. A hot spot is uniform traffic, but for the share of packets that go to one node."""

OTHER_NAMES = {"uniform_random": "uniform", "bitcomp": "bit_complement", "neighbor": "neighbour", "hotspot": "hot_spot"}


def names() -> list[str]:
    """Names of all patterns."""
    return [*PATTERNS, "permutation"]


def targets(name: str, platform: Platform, file: str | None = None) -> Targets:
    """The destinations of a pattern. Raises InputError."""
    name = name.replace("-", "_").lower()
    name = OTHER_NAMES.get(name, name)
    if name == "permutation":
        if file is None:
            raise InputError("pattern permutation needs --permutation FILE")
        return permutation(platform, file)
    if name not in PATTERNS:
        raise InputError(f"there is no pattern {name!r}; {suggestion(name, names())}")
    return PATTERNS[name](platform)


def _shifted(platform: Platform, distance: Callable[[int], int]) -> Targets:
    result: Targets = []
    for source in range(platform.npus):
        target = 0
        for index, dimension in enumerate(platform.dimensions):
            place = (platform.coordinate(source, index) + distance(dimension.size)) % dimension.size
            target += place * platform.strides[index]
        result.append(target)
    return result


def _bits(platform: Platform, name: str) -> int:
    if not is_power_of_two(platform.npus):
        raise InputError(f"pattern {name} needs a power of two of NPUs, not {platform.npus}")
    return platform.npus.bit_length() - 1
