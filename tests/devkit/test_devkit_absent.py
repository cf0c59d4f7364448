"""Without the package astra-sim-devkit the kernel says what to install for the kit and for the commands of authors."""

from __future__ import annotations

import subprocess
import sys

import pytest

HINT = "astra-sim-devkit, which is not installed: pip install astra-sim-devkit"


@pytest.mark.parametrize(
    "line", ["from astra_sim.testing import check_schedule", "from astra_sim.testing.contracts import NetworkContract"]
)
def test_the_kit_says_what_to_install(line: str) -> None:
    code = f"import sys; sys.modules['astra_sim_devkit'] = None\ntry:\n    {line}\nexcept ImportError as error:\n    print(error)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert HINT in done.stdout


def test_the_kit_is_found_at_both_names() -> None:
    import astra_sim.testing
    import astra_sim_devkit.testing
    from astra_sim.testing import contracts
    from astra_sim_devkit.testing import contracts as kit

    assert astra_sim.testing.check_schedule is astra_sim_devkit.testing.check_schedule
    assert all(getattr(contracts, name) is getattr(kit, name) for name in contracts.__all__)
    assert {each.__name__ for each in kit.CONTRACTS.values()} <= set(contracts.__all__)


@pytest.mark.parametrize("words", [("plugins", "check"), ("plugins", "new", "collective", "mine"), ("doctor",), ("completion", "bash")])
def test_its_commands_say_what_to_install(words: tuple[str, ...]) -> None:
    code = (
        "from astra_sim.setup import entry_points, plugin_modules; found = entry_points.entry_points();"
        "plugin_modules.entry_points = lambda: [each for each in found if each.distribution != 'astra-sim-devkit'];"
        "from astra_sim.__main__ import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert HINT in done.stderr
