"""Files to try components with."""

from __future__ import annotations

from pathlib import Path


def topology(folder: Path) -> list[dict[str, object]]:
    """A star of four NPUs."""
    path = folder / "topology.txt"
    path.write_text("5 1 4\n4\n" + "".join(f"{npu} 4 100Gbps 0.001ms 0\n" for npu in range(4)))
    return [{"file": str(path)}]
