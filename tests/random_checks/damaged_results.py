"""A result.json of which a value was changed: every command that reads it ends well or with a clear error."""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path
from random import Random

from support.damage import changed
from support.limited import ended

IN_TESTS = 40
IN_NIGHTLY = 3000

_RING = "plugin:ring?size=4&links=2&link_bandwidth_gib_per_s=50&link_latency_ns=500"
_LAYERS = """plugin = "layers"
loop = "data"
[[layers]]
name = "a"
forward = { compute_ns = 10 }
weight_gradient = { compute_ns = 30, collective = "all_reduce", collective_bytes = 4096 }
"""
_MAKING = [
    ("explain", "--workload", "w.toml", "--platform", _RING, "--output", "explained"),
    ("--workload", "plugin:collective?bytes=65536", "--platform", _RING, "--network", "plugin:packet", "--output", "packet"),
    ("compare", "--workload", "w.toml", "--platform", _RING, "--set", "system.splits=1", "--set", "system.splits=2", "--output", "two"),
    (
        "--workload", "plugin:llm?model=llama3-8b&tensor_parallel=4&global_batch=4", "--compute", "plugin:gpu?device=h100",
        "--platform", _RING, "--output", "llm",
    ),
]  # fmt: skip
_PLOTS = ("layers", "breakdown", "npus", "compute-power", "utilisation", "links", "scaling")


def check(seed: int, folder: Path) -> list[str]:
    """Change one value of one of some results, or two, and run a command on it."""
    random = Random(seed)
    results = _results()
    name = random.choice(sorted(results))
    table = json.loads(results[name])
    for _ in range(random.choice([1, 1, 2])):
        table = changed(random, table)
    (folder / "r").mkdir()
    (folder / "r" / "result.json").write_text(json.dumps(table))
    (folder / "other").mkdir()
    (folder / "other" / "result.json").write_text(results[random.choice(sorted(results))])
    (folder / "w.toml").write_text(_LAYERS)
    others = ["other"] if random.random() < 0.3 else []
    command = random.choice(
        [
            ("report", "r", *others, "-o", "new.html"),
            ("show", "r"),
            (
                "show",
                "r",
                random.choice(["run", "layers", "phases", "dimensions", "algorithms", "audit"]),
                *random.choice([[], ["--json"], ["--csv"]]),
            ),
            ("plot", "r", *others, random.choice(_PLOTS), "-o", random.choice(["new.svg", "new.pdf", "new.png"])),
            ("plot", "r", "-o", "new.svg"),
            ("explain", "r"),
            ("run", "r"),
            ("timeline", "r", "-o", "new.json"),
            ("rerun", "r"),
            ("compare", "r", "--set", "system.splits=1", "--set", "system.splits=2"),
        ]
    )
    fault = ended(folder, *command).fault
    return [] if fault is None else [f"{' '.join(command)} on {name}: {fault}"]


@cache
def _results() -> dict[str, str]:
    """Results of some runs, as text."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "w.toml").write_text(_LAYERS)
        for command in _MAKING:
            result = ended(folder, *command)
            assert result.status == 0, (command, result)
        return {path.parent.name: path.read_text() for path in folder.glob("*/result.json")}
