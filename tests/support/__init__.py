"""What several test modules share: each module here is one subject. Test modules import from here, never from each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def figures(result: Any) -> dict[str, Any]:
    """Everything a result says of the simulated system, without what it says of the simulation."""
    table: dict[str, Any] = result.to_dict()
    for name in ("wall_s", "simulated_npus", "every_npu_reason", "events", "experiment", "versions", "inputs", "units"):
        del table[name]
    table["network"] = {name: value for name, value in table["network"].items() if name != "simulated_npus"}
    return table
