"""Names of other plugins' components: what ASTRA-sim calls them in its system files, and what `auto` stands for.

They are specs, as a user would write them, and looked up as such: another distribution may offer what they name. All of them stand
here, and not with the algorithms, so that what a file or `auto` means does not depend on which other plugins are installed.
"""

from __future__ import annotations

import re

from astra_sim.fabric import stripes_over_directions, uniform_links_of
from astra_sim.platform import Dimension, is_power_of_two
from astra_sim.schedule import Collective

ALGORITHMS = {"ring": "ring", "direct": "direct", "halvingDoubling": "halving_doubling", "doubleBinaryTree": "double_binary_tree"}
POLICIES = {"LIFO": "lifo", "FIFO": "fifo"}
OPTIMIZATIONS = {"baseline": "baseline", "localBWAware": "local_bw_aware"}
QUEUE_ORDERS = {
    "FIFO": "fifo",
    "RG": "rg",
    "smallestFirst": "smallest_first",
    "SCF": "smallest_first",  # as the tutorial of 2023 calls it
    "lessRemainingPhaseFirst": "less_remaining_phase_first",
}
DIMENSION_ORDERS = {
    "ascending": "ascending",
    "roundRobin": "round_robin",
    "offlineGreedy": "offline_greedy",
    "offlineGreedyFlex": "offline_greedy_flex",
    "baseline": "ascending",  # the tutorial of 2023 has these three besides
    "themis": "offline_greedy",
    "themisFlex": "offline_greedy_flex",
}
ALGORITHM_KEYS = {
    "all-reduce-implementation": "all_reduce",
    "all-gather-implementation": "all_gather",
    "reduce-scatter-implementation": "reduce_scatter",
    "all-to-all-implementation": "all_to_all",
}


def algorithm(text: str) -> str:
    """The plugin meant by a name of ASTRA-sim, such as ring, direct4 or oneHalvingDoubling; other names are kept."""
    match = re.fullmatch(r"(one)?([A-Za-z]+?)([0-9]*)", text)
    if match is None:
        return text
    one, name, window = match.groups()
    known = name[0].lower() + name[1:] if one else name
    if known not in ALGORITHMS or (window and known != "direct"):
        return text
    plugin = ("one_" if one else "") + ALGORITHMS[known]
    return f"{plugin}?window={window}" if window else plugin


BOTH_DIRECTIONS = "ring?directions=2"
"""The ring algorithm on the links of both directions of a ring."""


def default_algorithm(kind: Collective, dimension: Dimension, ranks: int | None = None) -> str:
    """What `auto` stands for in a ring, a switch or fully connected NPUs, for so many ranks (None: all of the dimension).

    On a ring whose messages have the bandwidth of one direction, all of its NPUs use both. Some of them are no ring.
    """
    topology = dimension.topology.name
    uniform = uniform_links_of(dimension)
    if uniform is not None and uniform.pattern == "ring" and dimension.size > 2 and not stripes_over_directions(dimension):
        return BOTH_DIRECTIONS if ranks in (None, dimension.size) else "ring"
    if topology == "fully_connected" or (topology == "switch" and kind is Collective.ALL_TO_ALL):
        return "direct"
    if topology == "switch" and is_power_of_two(dimension.size):
        return "halving_doubling"
    return "ring"


ANY_NUMBER, POWERS_OF_TWO, ALL_AT_ONCE = "ring", "halving_doubling", "direct"
"""The algorithms among which `auto` chooses: for any number of ranks, for powers of two, and that sends all messages at once."""


def goes_by_topology(dimension: Dimension) -> bool:
    """Whether `auto` stands for the `default_algorithm` of a dimension."""
    return dimension.topology.name in ("ring", "switch", "fully_connected") or dimension.size == 1


def candidates(kind: Collective, dimension: Dimension) -> tuple[str, ...]:
    """What `auto` may stand for in a dimension: what its topology says, or several algorithms of which the fastest is taken."""
    if goes_by_topology(dimension):
        specs = default_algorithm(kind, dimension), default_algorithm(kind, dimension, ranks=1)
        return specs[: len(set(specs))]
    return (ANY_NUMBER, ALL_AT_ONCE) if kind is Collective.ALL_TO_ALL else (ANY_NUMBER, POWERS_OF_TWO, ALL_AT_ONCE)


def without_forecast(kind: Collective, ranks: int, switched: bool) -> str:
    """What is taken of the candidates where there is no forecast: that of a switch where switches join the NPUs, else that of a ring."""
    if not switched:
        return ANY_NUMBER
    if kind is Collective.ALL_TO_ALL:
        return ALL_AT_ONCE
    return POWERS_OF_TWO if is_power_of_two(ranks) else ANY_NUMBER


def algorithm_across(kind: Collective) -> str:
    """What `auto` stands for in a dimension of a workload that reaches over several of the platform: one for any number of ranks."""
    return "direct" if kind is Collective.ALL_TO_ALL else "ring"


DEFAULT_IN_GROUPS = "ring"
"""What `auto` stands for in a communicator group that does not lie along a dimension."""


def chakra_algorithm(prefix: str, whole_platform: bool) -> str:
    """The algorithm in the Chakra traces of a path prefix; over the whole platform, or for a group of any NPUs."""
    return f"{'one_' if whole_platform else ''}chakra?prefix={prefix}"


def is_disturbed_by_boost(spec: str) -> bool:
    """Whether boost mode changes the times of an algorithm in ASTRA-sim 1.0: those of trees, and of what runs over the whole platform."""
    return spec.startswith(("one_", "double_binary_tree"))
