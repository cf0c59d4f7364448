"""The command line and the Python interface, as docs/using.md describes them."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import astra_sim
import click
import pytest
from astra_sim.command import cli
from astra_sim.compute import Compute, Work
from astra_sim.graph import ProgramBuilder
from astra_sim.memory import Memory
from support import ROOT

VGG16 = str(ROOT / "examples" / "vgg16_dgx2_pod.toml")
RING = "plugin:ring?size=8&links=2&link_bandwidth_gib_per_s=50&link_latency_ns=500"
ALL_REDUCE = "plugin:collective?bytes=1048576&update_ns=1"
SPLIT = ("--set", "system.splits=4", "--set", "system.all_reduce=ring")

SYSTEM_TXT = """scheduling-policy: LIFO
endpoint-delay: 10
active-chunks-per-dimension: 1
preferred-dataset-splits: 4
all-reduce-implementation: ring
all-gather-implementation: ring
reduce-scatter-implementation: ring
all-to-all-implementation: direct
collective-optimization: localBWAware
"""
NETWORK_JSON = json.dumps(
    {
        "dimensions-count": 1,
        "topologies-per-dim": ["Ring"],
        "units-count": [8],
        "links-count": [2],
        "link-latency": [500],
        "link-bandwidth": [50],
    }
)
WORKLOAD_TXT = "MICRO\n1\nallreduce -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 1048576 1\n"
FINISH_NS = 45681  # ASTRA-sim 1.0 on these three files


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """Files of ASTRA-sim 1.0."""
    texts = {"workload": WORKLOAD_TXT, "system": SYSTEM_TXT, "network": NETWORK_JSON}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return {name: str(tmp_path / name) for name in texts}


def astra(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[int, str, str]:
    """Exit status, standard output and standard error of the command."""
    monkeypatch.setattr(sys, "argv", ["astra", *arguments])
    try:
        cli.main()
        status = 0
    except SystemExit as stop:
        status = stop.code if isinstance(stop.code, int) else 1
    printed = capsys.readouterr()
    return status, printed.out, printed.err


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command with --json: the object it prints."""

    def call(*arguments: str) -> dict[str, Any]:
        status, out, err = astra(capsys, monkeypatch, *arguments, "--json")
        assert status == 0
        assert all(line.startswith("astra: audit: dimension") for line in err.splitlines())
        table: dict[str, Any] = json.loads(out)
        return table

    return call


def test_files_of_astra_sim_run(run: Any, files: dict[str, str]) -> None:
    table = run("--workload", files["workload"], "--system", files["system"], "--network", files["network"])
    assert table["finish_ns"] == FINISH_NS
    keys = ["finish_ns", "compute_ns", "exposed_comm_ns", "npus", "simulated_npus", "messages", "wall_s", "network", "layers", "dimensions"]
    assert set(keys) <= table.keys()
    assert table["layers"][0]["weight_gradient"] == {"compute_ns": 0, "total_comm_ns": FINISH_NS, "exposed_comm_ns": FINISH_NS}
    assert table["dimensions"][0]["average_chunk_latency_ns"] == 11420
    assert table["network"]["payload_bytes"] == 1.75 * 2**20
    assert table["messages"] == 4 * 14 * 8


def test_run_may_be_said(run: Any) -> None:
    both = f"{RING}&both_ways=true"  # as files of ASTRA-sim 1.0
    assert run("run", "--workload", ALL_REDUCE, "--platform", both, *SPLIT)["finish_ns"] == FINISH_NS


def test_the_platform_of_a_file_runs_on_another_backend(run: Any, files: dict[str, str]) -> None:
    exact = "plugin:analytical?rounding=picosecond"
    table = run("--workload", files["workload"], "--system", files["system"], "--platform", files["network"], "--network", exact)
    assert FINISH_NS < table["finish_ns"] < FINISH_NS + 14 * 4


def test_every_kind_of_component_is_swapped_by_one_option(run: Any) -> None:
    base = run(VGG16)
    assert base["finish_ns"] == 5632316
    assert run(VGG16, "--network", "plugin:analytical?rounding=picosecond")["finish_ns"] != base["finish_ns"]
    assert run(VGG16, "--compute", "plugin:roofline?peak_tera_ops_per_s=100")["compute_ns"] < base["compute_ns"]
    assert run(VGG16, "--memory", "plugin:local?bandwidth_bytes_per_ns=100")["finish_ns"] > base["finish_ns"]
    assert run(VGG16, "--system", "plugin:astra1?splits=8")["messages"] != base["messages"]
    assert run(VGG16, "--workload", ALL_REDUCE)["compute_ns"] == 0
    assert run(VGG16, "--platform", RING)["npus"] == 8


def test_options_of_a_run(run: Any) -> None:
    base = run(VGG16)
    assert run(VGG16, "--passes", "2")["compute_ns"] == 2 * base["compute_ns"]
    assert run(VGG16, "--compute-scale", "1")["compute_ns"] == 1831809
    assert run(VGG16, "--comm-scale", "2")["network"]["payload_bytes"] == pytest.approx(2 * base["network"]["payload_bytes"], rel=1e-5)
    assert run(VGG16, "--injection-scale", "10")["finish_ns"] > base["finish_ns"]
    assert run(VGG16, "--rendezvous")["messages"] == 2 * base["messages"]
    assert run(VGG16, "--queues-per-dim", "2", "--set", "system.active_chunks_per_dimension=2")["finish_ns"] != base["finish_ns"]
    small = ("--workload", ALL_REDUCE, "--platform", RING, *SPLIT)
    assert run(*small, "--no-symmetry")["simulated_npus"] == 8
    assert run(*small, "--run-name", "mine")["run_name"] == "mine"


def test_set_reaches_into_lists(run: Any) -> None:
    assert run(VGG16, "--set", "platform.dimensions.0.size=4")["npus"] == 64
    assert run(VGG16, "--set", "workload.layers.0.forward.compute_ns=1003429")["compute_ns"] == 751019 + 410000


def test_output_writes_the_reports(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, files: dict[str, str]
) -> None:
    folder = tmp_path / "new" / "reports"
    inputs = [word for name, path in files.items() for word in (f"--{name}", path)]
    status, out, err = astra(capsys, monkeypatch, *inputs, "--output", str(folder), "--run-name", "first", "--quiet")
    assert (status, out, err) == (0, "", "")
    names = {path.name for path in folder.iterdir()}
    assert names == {
        "EndToEnd.csv",
        "detailed.csv",
        "first_dimension_utilization.csv",
        "backend_end_to_end.csv",
        "backend_dim_info.csv",
        "tutorial_result.csv",
        "result.json",
    }
    assert json.loads((folder / "result.json").read_text())["finish_ns"] == FINISH_NS
    with (folder / "backend_end_to_end.csv").open() as text:
        row = next(csv.DictReader(text))
    assert (row["RunName"], row["CommsTime"], row["Cost"], row["PayloadSize_Dim1"]) == ("first", "45.681000", "1600.000000", "-1")
    windows = (folder / "first_dimension_utilization.csv").read_text().splitlines()
    assert windows[0] == " time (us) ,dim1 util,"
    assert windows[1] == "10.000000,100.000000,"
    assert len(windows) == 1 + 4 + 1
    assert windows[-1] == ","


def test_tables_hold_the_figures(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    status, out, _ = astra(capsys, monkeypatch, VGG16)
    assert status == 0
    for figure in ("5632.316", "751.019", "4881.281", "525.729748", "block5_conv3"):
        assert figure in out


def test_plugins_are_listed_shown_and_checked(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    status, out, _ = astra(capsys, monkeypatch, "plugins", "--json")
    listed = json.loads(out)
    assert status == 0
    assert listed["broken"] == []
    assert {"network", "collective", "system", "compute", "memory", "workload"} <= {row["kind"] for row in listed["components"]}
    status, out, _ = astra(capsys, monkeypatch, "plugins", "show", "analytical", "--json")
    assert [option["name"] for option in json.loads(out)[0]["options"]] == [
        "congestion",
        "switching",
        "rounding",
        "accounting_dimension",
        "model",
        "device",
        "parameters",
        "channels",
        "nic_efficiency",
        "fabric_latency",
        "link_figures",
    ]
    status, out, _ = astra(capsys, monkeypatch, "plugins", "show", "platform:ring")
    assert "link_bandwidth_gb_per_s" in out
    status, out, _ = astra(capsys, monkeypatch, "plugins", "check", "memory", "halving_doubling")
    assert status == 0
    assert "ok     collective halving_doubling" in out
    assert out.count("ok     memory ") == 2


def test_help_is_quick_to_import() -> None:
    code = "import sys, astra_sim.command.cli as c; sys.argv = ['astra', '--help']\ntry: c.main()\nexcept SystemExit: pass\n"
    code += "heavy = {'numpy', 'rich', 'cattrs', 'astra_sim.engine', 'astra_sim_collectives.ring', 'astra_sim_systems.astra1'}\n"
    code += "print(sorted(heavy & sys.modules.keys()), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert "plugins" in done.stdout


def test_an_experiment_object_runs_again_and_again() -> None:
    experiment = astra_sim.load_experiment(VGG16)
    first = astra_sim.simulate(experiment)
    changed = astra_sim.simulate(experiment, set=["system.splits=16"], compute_scale=1.0)
    again = astra_sim.simulate(experiment)
    assert first.finish_ns == again.finish_ns == 5632316
    assert changed.compute_ns == 1831809
    assert changed.messages > first.messages


class TwiceAsLong(Compute):
    def duration_ns(self, work: Work) -> float:
        return 2 * (work.recorded_ns or 0)


class Slow(Memory):
    def access_ps(self, size: int, write: bool) -> int:
        return 1000 * size


def test_objects_stand_in_for_components() -> None:
    base = astra_sim.simulate(VGG16, compute_scale=1.0)
    assert astra_sim.simulate(VGG16, compute=TwiceAsLong(), compute_scale=1.0).compute_ns == 2 * base.compute_ns
    assert astra_sim.simulate(VGG16, memory=Slow()).finish_ns > base.finish_ns


def test_a_graph_of_ones_own_runs() -> None:
    builder = ProgramBuilder()
    builder.compute(5_000, -1, astra_sim.graph.Pass.FORWARD)
    builder.idle(2_500)
    result = astra_sim.simulate(workload=builder.build((), ()), platform=RING)
    assert (result.finish_ns, result.compute_ns, result.layers) == (7.5, 5, [])


def test_the_timeline_shows_operations_and_phases() -> None:
    result = astra_sim.simulate(VGG16)
    intervals = list(result.timeline())
    assert {interval.lane for interval in intervals} == {"compute", "collectives", "dimension 0", "dimension 1"}
    assert max(interval.end_ns for interval in intervals) <= result.finish_ns
    assert all(interval.begin_ns <= interval.end_ns for interval in intervals)
    chunks = [i for i in intervals if i.name.startswith("fc1 chunk 0")]
    assert [chunk.kind for chunk in chunks] == ["reduce_scatter", "all_reduce", "all_gather"]


def test_sizes_that_do_not_divide_leave_a_last_smaller_chunk() -> None:
    choices = ["system.splits=4", "system.all_reduce=ring?directions=2"]
    result = astra_sim.simulate(workload="plugin:collective?bytes=1003", platform=RING, set=choices)
    assert result.messages == 5 * 2 * 14 * 8  # chunks of 250 bytes, and one of 3, in both directions


# -- All commands ------------------------------------------------------------------------------------------------------


def commands(command: click.Command, name: str = "") -> Iterator[str]:
    """The names of all commands below one; groups are not among them."""
    if not isinstance(command, click.Group):
        yield name
        return
    context = click.Context(command)
    for each in command.list_commands(context):
        result = command.get_command(context, each)
        assert result is not None
        yield from commands(result, f"{name} {each}".strip())


def test_the_page_names_every_command_and_no_other() -> None:
    table = (ROOT / "docs" / "using.md").read_text().partition("| commands | task |\n|---|---|\n")[2].partition("\n\n")[0]
    named = [name for row in table.splitlines() for name in re.findall(r"`([^`]+)`", row.split("|")[1])]
    assert sorted(named) == sorted(commands(cli.astra))
