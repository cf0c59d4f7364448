"""Names of other plugins' components: those of ASTRA-sim's system files, and the candidates of `auto`.

They are specs, as a user would write them, and looked up as such: another distribution may offer them. All of them are
here, and not with the algorithms, so that the meaning of a file or `auto` does not depend on which other plugins are installed.
"""

from __future__ import annotations

import re

from astra_sim.platform import is_power_of_two
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


RING, HALVING_DOUBLING, DIRECT = "ring", "halving_doubling", "direct"
BOTH_DIRECTIONS = "ring?directions=2"
CANDIDATES = (RING, BOTH_DIRECTIONS, HALVING_DOUBLING, DIRECT)
"""The algorithms among which `auto` chooses, with those of other plugins that are `automatic`."""
SYNTHESIZED = "synthesized"
"""The collective that is designed for a platform: `auto?synthesize=true`."""
MOST_RANKS_IN_STEPS = 256
"""Of an all-to-all in both directions, which is a list of ranks * ranks steps."""


def has_few_steps(spec: str, kind: Collective, ranks: int) -> bool:
    """Whether an algorithm may be asked for a schedule just to see how long that takes."""
    return spec != BOTH_DIRECTIONS or kind is not Collective.ALL_TO_ALL or ranks <= MOST_RANKS_IN_STEPS


def without_forecast(kind: Collective, ranks: int, switched: bool) -> str:
    """The default candidate if there is no estimate: that of a switch if switches join the NPUs, else that of a ring."""
    if kind is Collective.ALL_TO_ALL:
        return DIRECT
    return HALVING_DOUBLING if switched and is_power_of_two(ranks) else RING


DEFAULT_IN_GROUPS = "ring"
"""The choice of `auto` in a communicator group that is not along a dimension."""


def chakra_algorithm(prefix: str, whole_platform: bool) -> str:
    """The algorithm in the Chakra traces of a path prefix; over the whole platform, or for a group of any NPUs."""
    return f"{'one_' if whole_platform else ''}chakra?prefix={prefix}"


def is_disturbed_by_boost(spec: str) -> bool:
    """Whether boost mode changes the times of an algorithm in ASTRA-sim 1.0: those of trees, and of algorithms over the whole platform."""
    return spec.startswith(("one_", "double_binary_tree"))
