"""Options of a run are said once, in `RunOptions`: the command line and `simulate` have all of them and no others."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import typing
from pathlib import Path
from typing import Any

import astra_sim
import attrs
import click
import pytest
from astra_sim import InputError
from astra_sim.command.cli import run
from astra_sim.command.options import COMPONENTS
from astra_sim.setup.experiment import SECTIONS, Experiment
from astra_sim.setup.run_options import RunOptions
from astra_sim_explain.compare import compare
from click.testing import CliRunner
from support import ROOT

FIELDS = {field.name: field for field in attrs.fields(RunOptions)}
EXPERIMENT = str(ROOT / "examples" / "vgg16_tpu_v2.toml")
GIVEN: dict[str, tuple[list[str], Any]] = {
    "passes": (["--passes", "2"], 2),
    "compute_scale": (["--compute-scale", "0.5"], 0.5),
    "comm_scale": (["--comm-scale", "2"], 2.0),
    "injection_scale": (["--injection-scale", "3"], 3.0),
    "queues_per_dim": (["--queues-per-dim", "4"], 4),
    "rendezvous": (["--rendezvous"], True),
    "symmetry": (["--no-symmetry"], False),
    "groups": (["--groups", "groups.json"], "groups.json"),
    "engine": (["--engine", "python"], "python"),
    "slow_npus": (["--slow-npus", "3:1.5"], "3:1.5"),
    "strict": (["--strict"], True),
}
"""Each option on the command line, and what it becomes."""


def run_cases() -> list[Any]:
    return [pytest.param(command, name, id=f"{command.name} {name}") for command in (run, compare) for name in FIELDS]


def option_of(command: click.Command, name: str) -> click.Option:
    result = [parameter for parameter in command.params if parameter.name == name]
    assert len(result) == 1
    assert isinstance(result[0], click.Option)
    return result[0]


@pytest.mark.parametrize(("command", "name"), run_cases())
def test_commands_have_every_option_with_its_help(command: click.Command, name: str) -> None:
    option, help_ = option_of(command, name), FIELDS[name].metadata["help"]
    assert f"--{name.replace('_', '-')}" in option.opts
    assert (option.help or "").lower() == f"{help_}.".lower()
    assert command.make_context("command", [EXPERIMENT]).params[name] is None


def test_simulate_has_every_option_and_each_may_be_left_out() -> None:
    parameters = inspect.signature(astra_sim.simulate).parameters
    hints = typing.get_type_hints(astra_sim.simulate)
    for name, kind in typing.get_type_hints(RunOptions).items():
        assert parameters[name].default is None
        assert parameters[name].kind is inspect.Parameter.KEYWORD_ONLY
        if typing.get_origin(kind) is None:
            assert set(typing.get_args(hints[name])) == {kind, type(None)}
    others = {"experiment", "run", "run_name", "set", "plugins", "progress", "explain", "timelines", "npu_times"}
    assert set(parameters) == {*SECTIONS, *FIELDS, *others}


def test_a_table_of_options_is_the_section_run_and_what_is_named_beside_it_counts_more() -> None:
    table = {"passes": 2, "compute_scale": 0.5}
    in_one = astra_sim.simulate(EXPERIMENT, run=table, compute_scale=3.0)
    assert in_one.row() | {"wall_s": 0} == astra_sim.simulate(EXPERIMENT, passes=2, compute_scale=3.0).row() | {"wall_s": 0}
    with pytest.raises(InputError, match="'pases'"):
        astra_sim.simulate(EXPERIMENT, run={"pases": 2})
    wrong: Any = "passes=2"
    with pytest.raises(InputError, match="run is 'passes=2'; expected a table"):
        astra_sim.simulate(EXPERIMENT, run=wrong)


def test_commands_have_every_component() -> None:
    assert set(COMPONENTS) == set(SECTIONS)
    for name in SECTIONS:
        assert not option_of(run, name).multiple
        assert option_of(compare, name).multiple


def test_every_option_is_tried_here() -> None:
    assert set(GIVEN) == set(FIELDS)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[RunOptions]:
    """The options of runs, which end before they begin."""
    run_options: list[RunOptions] = []

    def build(experiment: Experiment, plugins: object) -> None:
        run_options.append(experiment.run_options())
        raise astra_sim.InputError("stop")

    monkeypatch.setattr("astra_sim.api.build", build)
    return run_options


def with_option(name: str, value: Any) -> RunOptions:
    return attrs.evolve(astra_sim.load_experiment(EXPERIMENT).run_options(), **{name: value})


@pytest.mark.parametrize(("command", "name"), run_cases())
def test_options_of_the_command_line_reach_the_run(command: click.Command, name: str, made: list[RunOptions], tmp_path: Path) -> None:
    arguments, value = GIVEN[name]
    if name == "groups":
        path = tmp_path / "groups.json"
        path.write_text(json.dumps({"pair": [0, 1]}))
        arguments, value = ["--groups", str(path)], {"pair": [0, 1]}
    done = CliRunner().invoke(command, [EXPERIMENT, *arguments])
    assert str(done.exception) == "stop"
    assert made == [with_option(name, value)]


def test_an_assignment_counts_more_than_an_option_of_the_run(made: list[RunOptions]) -> None:
    for command in (run, compare):
        CliRunner().invoke(command, [EXPERIMENT, "--passes", "2", "--set", "run.passes=3"])
    assert made == [with_option("passes", 3)] * 2


@pytest.mark.parametrize("name", list(FIELDS))
def test_keywords_reach_the_run(name: str, made: list[RunOptions]) -> None:
    value: Any = {"pair": [0, 1]} if name == "groups" else GIVEN[name][1]
    with pytest.raises(astra_sim.InputError, match="stop"):
        astra_sim.simulate(EXPERIMENT, **{name: value})
    assert made == [with_option(name, value)]


@pytest.mark.parametrize("command", [run, compare], ids=["run", "compare"])
def test_groups_may_be_assigned_by_their_file(command: click.Command, made: list[RunOptions], tmp_path: Path) -> None:
    path = tmp_path / "groups.json"
    path.write_text(json.dumps({"pair": [0, 1]}))
    CliRunner().invoke(command, [EXPERIMENT, "--set", f"run.groups={path}"])
    assert made == [with_option("groups", {"pair": [0, 1]})]


def test_groups_of_compare_are_read(tmp_path: Path) -> None:
    path = tmp_path / "groups.json"
    path.write_text(json.dumps({"1": [0, 9999]}))
    done = CliRunner().invoke(compare, [EXPERIMENT, "--groups", str(path)])
    assert str(done.exception).startswith(f"{path}: group '1' has NPU 9999")


@pytest.mark.parametrize(("switch", "npus"), [("--symmetry", 1), ("--no-symmetry", 4)])
def test_a_switch_overrides_the_file_either_way(tmp_path: Path, switch: str, npus: int) -> None:
    table = {"network": "plugin:analytical", "workload": "plugin:collective?bytes=4096"}
    text = "".join(f'{key} = "{value}"\n' for key, value in table.items())
    text += '[platform]\nplugin = "ring"\nsize = 4\nlinks = 2\nlink_bandwidth_gb_per_s = 1\nlink_latency_ns = 1\n'
    text += f"[run]\nsymmetry = {'false' if switch == '--symmetry' else 'true'}\n"
    path = tmp_path / "experiment.toml"
    path.write_text(text)
    done = CliRunner().invoke(run, [str(path), switch, "--json"])
    assert json.loads(done.output)["simulated_npus"] == npus


def test_help_of_the_whole_program_imports_no_engine() -> None:
    code = "import sys; from astra_sim.command.cli import astra; astra.main(['--help'], standalone_mode=False); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()[-1].split()
    heavy = ("astra_sim.engine", "astra_sim.setup.experiment", "astra_sim.api", "rich", "cattrs", "numpy")
    assert [name for name in heavy if name in loaded] == []


def test_a_record_of_options_replaces_all_those_of_the_experiment() -> None:
    experiment = astra_sim.load_experiment(EXPERIMENT)
    experiment.choose("passes", 2)
    half = RunOptions(compute_scale=0.5)
    once = astra_sim.simulate(EXPERIMENT, passes=1, compute_scale=0.5)
    twice = astra_sim.simulate(EXPERIMENT, passes=2, compute_scale=0.5)
    assert once.finish_ns != twice.finish_ns
    assert astra_sim.simulate(experiment, run=half).finish_ns == once.finish_ns
    assert astra_sim.simulate(experiment, run=half, passes=2).finish_ns == twice.finish_ns
    assert astra_sim.simulate(experiment, run={"compute_scale": 0.5}).finish_ns == twice.finish_ns


def test_what_is_no_table_of_options_is_refused() -> None:
    with pytest.raises(InputError, match="expected a table of options of a run, or RunOptions"):
        astra_sim.simulate(EXPERIMENT, run=5)  # type: ignore[arg-type]
