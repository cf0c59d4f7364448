"""The distribution of astra that brings each component: what to install if one is missing.

`shipped.txt` lists them, a line each with package, kind and name; `python3 dev.py components` writes it. File formats are not there: they
are found by content, not by name.
"""

from __future__ import annotations

import os
from collections.abc import Callable

with open(os.path.join(os.path.dirname(__file__), "shipped.txt"), encoding="utf-8") as _file:
    _KNOWN = {(kind, name): package for package, kind, name in (line.rstrip("\n").split(" ", 2) for line in _file)}
"""The package of each component, by kind and name."""

BUILT_IN = frozenset(_KNOWN.values())
"""The distributions whose components go before those of others that have the same name."""

_BUILT_ONLY = {
    "astra-sim-network-ns3": "it comes with astra-sim-network-ns3 (GPL-2.0-only), built where the wheel ns3 is installed:"
    " pip install --no-deps ns3==3.44.post0, then install that package (docs/networks.md)"
}
"""Installation hints for distributions that pip alone does not install completely, which may lack their component."""


def install_hint(kind: str, name: str, is_installed: Callable[[str], bool]) -> str | None:
    """The installation hint for a component of ours; None if its distribution is installed, or none of ours has it."""
    distribution = _KNOWN.get((kind, name))
    if distribution in _BUILT_ONLY:
        return _BUILT_ONLY[distribution]
    if distribution is None or is_installed(distribution):
        return None
    return f"it comes with {distribution}, which is not installed: pip install {distribution}"


def remedy(distribution: str) -> str:
    """The installation hint for a distribution of ours that is not installed."""
    return _BUILT_ONLY.get(distribution, f"pip install {distribution}")


def known_components() -> set[tuple[str, str, str]]:
    """Distribution, kind and name of each component."""
    return {(distribution, kind, name) for (kind, name), distribution in _KNOWN.items()}
