"""The load of links, as text, and as pictures if matplotlib is installed."""

from __future__ import annotations

import importlib
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from astra_sim_network_packet.load import TrafficLoad

_SHADES = " .:-=+*#%@"
MAX_ROUTERS = 64


class LoadedLink(Protocol):
    """A link from router to router, and its load: flits a cycle, or the share of time in which its wires are busy."""

    @property
    def source(self) -> int:
        """The router it leaves."""

    @property
    def sink(self) -> int:
        """The router it leads to."""

    @property
    def load(self) -> float:
        """The load."""


def text(links: Sequence[LoadedLink], unit: str = "flits a cycle") -> str:
    """The lines of `lines`."""
    return "\n".join(lines(links, unit))


def lines(links: Sequence[LoadedLink], unit: str = "flits a cycle", most: int | None = MAX_ROUTERS) -> list[str]:
    """A line for each router, a shade for each of its links; those of `most` routers (None: of all)."""
    by_source: dict[int, list[LoadedLink]] = {}
    for link in links:
        by_source.setdefault(link.source, []).append(link)
    highest = max((link.load for link in links), default=0.0)
    if not highest:
        return ["no link carried a flit"]
    result = [f"load of links by router, ' ' for none to '@' for {highest:.3f} {unit}"]
    shown = sorted(by_source)[:most]
    for router in shown:
        cells = " ".join(f"{link.sink}:{_shade(link.load / highest)}" for link in by_source[router])
        result.append(f"{router:>5}  {cells}")
    if len(by_source) > len(shown):
        result.append(f"and {len(by_source) - len(shown)} more routers")
    return result


def _shade(share: float) -> str:
    return _SHADES[round(share * (len(_SHADES) - 1))]


def _pyplot() -> Any:
    try:
        importlib.import_module("matplotlib").use("Agg")
        return importlib.import_module("matplotlib.pyplot")
    except ImportError:
        return None


def draw_curve(loads: Sequence[TrafficLoad]) -> bytes | None:
    """Latency against accepted traffic, as a PNG picture; None if matplotlib is not installed."""
    pyplot = _pyplot()
    if pyplot is None:
        return None
    figure, axes = pyplot.subplots()
    stable = [load for load in loads if load.stable]
    axes.plot([load.accepted_rate for load in stable], [load.packet_latency for load in stable], marker="o")
    axes.set_xlabel("accepted flits per node and cycle")
    axes.set_ylabel("packet latency (cycles)")
    return _picture(pyplot, figure)


def draw_links(links: Sequence[LoadedLink]) -> bytes | None:
    """Load from router to router, as a PNG picture; None if matplotlib is not installed, or there is no link."""
    pyplot = _pyplot()
    if pyplot is None or not links:
        return None
    count = 1 + max(max(link.source, link.sink) for link in links)
    cells = [[0.0] * count for _ in range(count)]
    for link in links:
        cells[link.source][link.sink] += link.load
    figure, axes = pyplot.subplots()
    image = axes.imshow(cells, interpolation="nearest")
    axes.set_xlabel("to router")
    axes.set_ylabel("from router")
    figure.colorbar(image, label="flits per cycle")
    return _picture(pyplot, figure)


def _picture(pyplot: Any, figure: Any) -> bytes:
    """A figure as the bytes of a PNG file."""
    out = io.BytesIO()
    figure.savefig(out, format="png")
    pyplot.close(figure)
    return out.getvalue()
