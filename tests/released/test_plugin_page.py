"""The plugin of docs/plugins.md, built from that very page, works in a clean environment."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from astra_sim.schedule import Collective, Request
from astra_sim_devkit.testing import check_schedule
from support import ROOT

if TYPE_CHECKING:
    from support.environments import Environment

pytestmark = pytest.mark.xdist_group("wheels")  # in one process: the wheels are built once
PAGE = (ROOT / "docs" / "plugins.md").read_text()


def block(language: str, number: int = 0) -> str:
    """A code block of the page."""
    blocks: list[str] = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return blocks[number]


def test_the_page_is_short() -> None:
    assert len((block("toml") + block("python")).splitlines()) < 40


def test_the_plugin_of_the_page_installs_and_runs(clean_environment: Callable[[], Environment], tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(block("toml"))
    (tmp_path / "astra_sim_pairwise.py").write_text(block("python"))
    environment = clean_environment()
    environment.install(tmp_path)

    def astra(*arguments: str) -> str:
        done = environment.run("astra", *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "ok     collective pairwise" in astra("plugins", "check", "pairwise")
    experiment = str(ROOT / "examples" / "vgg16_dgx2_pod.toml")
    before = json.loads(astra(experiment, "--json"))
    after = json.loads(astra(experiment, "--set", "system.all_reduce=pairwise", "--json"))
    assert after["simulated_npus"] == 1
    assert after["finish_ns"] > before["finish_ns"]
    assert after["network"]["payload_bytes"] // 10**5 == before["network"]["payload_bytes"] // 10**5


@pytest.mark.parametrize("ranks", [2, 4, 6, 8])
def test_the_schedule_of_programs_with_relative_peers_is_one(ranks: int) -> None:
    names: dict[str, Any] = {}
    exec(next(each for each in re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL) if "per_rank" in each), names)
    request = Request(Collective.ALL_GATHER, ranks, 1000)
    schedule = names["neighbours"](request)
    assert len({id(program) for program in schedule.programs}) == 2
    check_schedule(schedule, request)
