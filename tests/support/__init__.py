"""What several test modules share: each module here is one subject. Test modules import from here, never from each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def figures(result: Any) -> dict[str, Any]:
    """Everything a result says of the simulated system, without what it says of the simulation."""
    from astra_sim.report.result import _figures

    table: dict[str, Any] = _figures(result, every=False)  # to_dict() but for the experiment and what it was run with
    for name in ("wall_s", "simulated_npus", "every_npu_reason", "events"):
        del table[name]
    table["network"] = {name: value for name, value in table["network"].items() if name != "simulated_npus"}
    return table
