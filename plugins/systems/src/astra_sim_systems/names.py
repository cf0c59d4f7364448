"""What ASTRA-sim calls things in its system files, and what they are called here."""

from __future__ import annotations

import re

ALGORITHMS = {"ring": "ring", "direct": "direct", "halvingDoubling": "halving_doubling", "doubleBinaryTree": "double_binary_tree"}
POLICIES = {"LIFO": "lifo", "FIFO": "fifo"}
OPTIMIZATIONS = {"baseline": "baseline", "localBWAware": "local_bw_aware"}
QUEUE_ORDERS = {
    "FIFO": "fifo",
    "RG": "rg",
    "smallestFirst": "smallest_first",
    "lessRemainingPhaseFirst": "less_remaining_phase_first",
}
DIMENSION_ORDERS = {
    "ascending": "ascending",
    "roundRobin": "round_robin",
    "offlineGreedy": "offline_greedy",
    "offlineGreedyFlex": "offline_greedy_flex",
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
