"""`astra assert`: figures of experiments against budgets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import astra_sim
import pytest
from astra_sim import Experiment, InputError
from astra_sim_sweep.budgets import judge, read_budgets
from astra_sim_sweep.commands import assert_
from click.testing import CliRunner, Result
from support.sweeps import PLATFORM

BASE = f'platform = "{PLATFORM}"\nworkload = "plugin:collective?bytes=4096"\n'


def written(folder: Path, *entries: str) -> str:
    (folder / "run.toml").write_text(BASE)
    path = folder / "budgets.toml"
    path.write_text("".join(f"[[expect]]\n{entry}\n" for entry in entries))
    return str(path)


def command(*arguments: str) -> Result:
    return CliRunner().invoke(assert_, list(arguments), catch_exceptions=False)


RUN = 'experiment = "run.toml"\n'


@pytest.mark.parametrize(
    ("entry", "state", "found"),
    [
        (RUN + 'check = "npus == 4 and finish_ns > 0"', "passed", "npus = 4"),
        (RUN + 'check = "npus == 5"', "failed", "npus = 4"),
        (RUN + 'check = "dimensions[0].bytes == network.payload_bytes"', "passed", "dimensions[0].bytes = 6,144"),
        (RUN + 'check = "finis_ns > 1"', "error", "there is no 'finis_ns'; did you mean 'finish_ns'?"),
        (RUN + 'check = "npus"', "error", "the value is 4; expected true or false"),
        (RUN + 'figure = "npus"\nvalue = 4', "passed", "npus = 4"),
        (RUN + 'figure = "npus"\nvalue = 5\ntolerance = "20 %"', "passed", "npus = 4"),
        (RUN + 'figure = "npus"\nvalue = 5\ntolerance = "19.9%"', "failed", "npus = 4"),
        (RUN + 'figure = "npus"\nvalue = 5\ntolerance = 1', "passed", "npus = 4"),
        (RUN + 'figure = "npus / 8"\nvalue = 0.6\ntolerance = 0.05', "failed", "npus / 8 = 0.5"),
        (RUN + 'figure = "network.plugin"\nvalue = 1', "error", "network.plugin is 'analytical'; expected a number"),
        (RUN + 'set = ["platform.size=8"]\ncheck = "npus == 8"', "passed", "npus = 8"),
        (
            RUN + 'platform = "plugin:ring?size=16&links=2&link_bandwidth_gb_per_s=1&link_latency_ns=1"\ncheck = "npus == 16"',
            "passed",
            "16",
        ),
        (RUN + 'set = ["system.nothing=1"]\ncheck = "npus == 4"', "error", "unknown key 'nothing'"),
    ],
)
def test_what_comes_of_an_expectation(tmp_path: Path, entry: str, state: str, found: str) -> None:
    (verdict,) = judge(read_budgets(written(tmp_path, entry)))
    assert (verdict.state, found in verdict.found) == (state, True), verdict.found


def test_an_experiment_of_which_several_things_are_expected_is_run_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[Experiment] = []

    def simulate(experiment: Experiment) -> astra_sim.Result:
        runs.append(experiment)
        return astra_sim.simulate(experiment)

    monkeypatch.setattr("astra_sim_sweep.budgets.simulate", simulate)
    entries = [RUN + f'check = "npus == {number}"' for number in (4, 5)] + [RUN + 'set = ["run.passes=2"]\ncheck = "npus == 4"']
    assert [verdict.state for verdict in judge(read_budgets(written(tmp_path, *entries)))] == ["passed", "failed", "passed"]
    assert len(runs) == 2


def test_the_exit_status_the_table_and_the_xml_say_what_is_not_kept(tmp_path: Path) -> None:
    good, bad, broken = 'check = "npus == 4"', 'name = "five <5>"\ncheck = "npus == 5"', 'check = "nothing == 5"'
    done = command(written(tmp_path, RUN + good))
    assert (done.exit_code, "passed  run.toml" in done.stdout) == (0, True)
    assert command(written(tmp_path, RUN + good), "--quiet").stdout == ""
    path, xml = written(tmp_path, RUN + good, RUN + bad, RUN + broken), tmp_path / "budgets.xml"
    done = command(path, "--quiet", "--junit", str(xml))
    assert done.exit_code == 1
    assert [line.split()[0] for line in done.stdout.splitlines()[1:] if line[:1].strip()] == ["failed", "error"]
    suite = ElementTree.parse(xml).getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "1", "1")
    cases = [(case.get("name"), [(each.tag, each.get("message")) for each in case]) for case in suite]
    assert cases[:2] == [("run.toml: npus == 4", []), ("five <5>", [("failure", "npus = 4")])]
    assert cases[2][0] == "run.toml: nothing == 5"
    times = [float(case.get("time", "")) for case in suite]
    assert times[1:] == [0, 0]  # the run is that of the first
    assert float(suite.get("time", "")) == times[0]
    assert cases[2][1][0][0] == "error"
    rows: list[dict[str, Any]] = json.loads(command(path, "--json").stdout)
    assert [(row["name"], row["state"]) for row in rows] == [("run.toml", "passed"), ("five <5>", "failed"), ("run.toml", "error")]


def test_json_is_not_quiet(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--json and --quiet are given"):
        command(written(tmp_path, RUN + 'check = "npus == 4"'), "--json", "--quiet")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "budgets.toml: expect is None; expected at least one table [[expect]]"),
        ("[expects]\n", "budgets.toml: unknown key 'expects'; did you mean 'expect'?"),
        ("[[expect]]\ncheck = 3\n", "budgets.toml: expect 1: check is 3; expected an expression, as text"),
        ("[[expect]]\nchek = 'a'\n", "budgets.toml: expect 1: unknown key 'chek'; did you mean 'check'?"),
        ("[[expect]]\nname = 'x'\n", "expect 1: expected one of check and figure, and there is none"),
        ("[[expect]]\ncheck = 'a'\nfigure = 'b'\n", "expect 1: expected one of check and figure, and there are both"),
        ("[[expect]]\ncheck = 'a'\nvalue = 3\n", "expect 1: value is for figure, and has no effect on check"),
        ("[[expect]]\nfigure = 'a'\n", "expect 1: value is 'missing'; expected the number that a should be"),
        (
            "[[expect]]\nfigure = 'a'\nvalue = 1\ntolerance = '2'\n",
            "expect 1: tolerance is '2'; expected a share such as '2 %', or a number",
        ),
        ("[[expect]]\nfigure = 'a'\nvalue = 1\ntolerance = -2\n", "expect 1: tolerance is -2; expected"),
        ("[[expect]]\nfigure = 'a'\nvalue = 1\ntolerance = '1.2.3 %'\n", "expect 1: tolerance is '1.2.3 %'; expected"),
        ("[[expect]]\nfigure = 'a'\nvalue = 1\ntolerance = inf\n", "expect 1: tolerance is inf; expected"),
        ("[[expect]]\nfigure = 'a'\nvalue = nan\n", "expect 1: value is nan; expected the number"),
        ("[[expect]]\ncheck = 'a +'\n", "expect 1: check: 'a +': not an expression"),
        ("[[expect]]\ncheck = 'a'\nexperiment = 'none.toml'\n", "none.toml'"),
        ("[[expect]]\nname = 3\ncheck = 'a'\n", "expect 1: name is 3; expected text"),
    ],
)
def test_what_is_wrong_in_the_file_is_told(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "budgets.toml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_budgets(path)
    assert words in str(caught.value)
