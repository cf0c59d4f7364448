"""The fitted profiles as stacks of the compute model `gpu`."""

from __future__ import annotations

from pathlib import Path

from astra_sim.toml_text import to_toml

from validation.iterations import FIT, HELD_OUT
from validation.results import Results

FOLDER = Path(__file__).parents[1] / "plugins" / "compute_gpu" / "src" / "astra_sim_compute_gpu" / "stacks"
_COMMENT = "Written by `python3 dev.py validate`: see docs/validation.md"


def write(results: Results) -> None:
    """Write the file of each stack."""
    for name, text in files(results).items():
        (FOLDER / f"{name}.toml").write_text(text, encoding="utf-8")


def files(results: Results) -> dict[str, str]:
    """The text of each stack's file, by its name."""
    return {name: to_toml(_table(stack), _COMMENT) for name, stack in results["stacks"].items()}


def _table(stack: Results) -> dict[str, object]:
    fitted, held_out = (stack["fitted"][half] for half in (FIT, HELD_OUT))
    source = (
        f"fitted by validation on {fitted['lines']} lines ({fitted['configurations']} configurations): error {fitted['mean']:.1%};"
        f" on {held_out['lines']} lines of configurations that were held out {held_out['mean']:.1%}"
    )
    return {"title": stack["title"], **stack["profile"], "source": source}
