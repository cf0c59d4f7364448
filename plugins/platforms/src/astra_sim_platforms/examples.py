"""Files with which `astra plugins check` tries these components."""

from __future__ import annotations

from pathlib import Path


def graph(folder: Path) -> list[dict[str, str]]:
    """Four NPUs around a switch, two of which have a link of their own."""
    lines = ["source,target,bandwidth_gb_per_s,latency_ns", *(f"{npu},switch,50,500" for npu in range(4)), "0,1,100,250"]
    path = folder / "star.csv"
    path.write_text("\n".join(lines) + "\n")
    return [{"file": str(path)}]
