"""Without the package astra-sim-explain the kernel says what to install for explanations, and runs all else."""

from __future__ import annotations

import subprocess
import sys

import pytest

HINT = "astra-sim-explain, which is not installed: pip install astra-sim-explain"
RING = "plugin:ring?size=4&links=2&link_bandwidth_gb_per_s=1&link_latency_ns=500"
RUN = ("run", "--workload", "plugin:collective?bytes=4096", "--platform", RING)


def astra(*words: str) -> subprocess.CompletedProcess[str]:
    """The command in a process where the package is absent."""
    code = (
        "from astra_sim.setup import entry_points, plugin_modules; found = entry_points.entry_points();"
        "plugin_modules.entry_points = lambda: [each for each in found if each.distribution != 'astra-sim-explain'];"
        "import sys; sys.modules['astra_sim_explain'] = None;"
        "from astra_sim.__main__ import main; main()"
    )
    return subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("words", [("explain", "x.toml"), ("compare", "x.toml"), ("rerun", "x"), (*RUN, "--explain")])
def test_what_needs_it_says_what_to_install(words: tuple[str, ...]) -> None:
    done = astra(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert HINT in done.stderr


def test_a_run_without_an_explanation_needs_it_not() -> None:
    done = astra(*RUN)
    assert (done.returncode, done.stderr) == (0, "")
    assert "total" in done.stdout
