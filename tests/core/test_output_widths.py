"""What every command prints, on screens of any width and in a pipe: lines fit, and no number is cut."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import astra_sim
import pytest
from astra_sim.command.cli import astra
from astra_sim.setup.plugins import shared_plugins
from click.testing import CliRunner
from support import ROOT
from support.pytorch_traces import training_step
from support.traces import data_parallel, write_ranks

WIDTHS = (60, 80, 120, 200)
VGG16 = str(ROOT / "examples" / "vgg16_tpu_v2.toml")
GPT3 = str(ROOT / "examples" / "gpt3_dgx2_pod.toml")
RING = "plugin:ring?size=8&links=2&link_bandwidth_gib_per_s=50&link_latency_ns=500"
SWITCH = "plugin:switch?size=8&link_bandwidth_gb_per_s=300"
NCCL = "plugin:analytical?model=nccl&device=a100"
MODEL = "plugin:llm?model.layers=8&model.hidden=256&model.heads=4&model.vocab=1024&model.sequence=128&global_batch=64"
LLM = ("--workload", MODEL, "--compute", "plugin:gpu?device=h100", "--system", "plugin:astra2", "--platform", "plugin:dgx_h100?nodes=2")
PIPELINES = ("--set", "workload.pipeline_parallel=1", "--set", "workload.pipeline_parallel=2", "--set", "workload.zero=0")
TRAFFIC = ("traffic", "--platform", "plugin:mesh?sizes=4,4&link_bandwidth_gb_per_s=32&link_latency_ns=1", "--rate", "0.1,0.9")
SYSTOLIC = ("systolic", "--config", "array.cfg", "--topology", "layers.csv", "--gemm")
GOODPUT = ROOT / "examples" / "goodput"
A3_MEGA = str(ROOT / "examples" / "calibration" / "a3_mega_two_nodes.csv")
COMMANDS: dict[str, tuple[str, ...]] = {
    "run": (VGG16, "--output", "again"),
    "run of blocks": ("blocks.toml",),
    "run of a model": LLM,
    "run without symmetry": ("--workload", "plugin:collective?bytes=123456789", "--platform", RING, "--no-symmetry"),
    "run in s": (GPT3, "--units", "s"),
    "compare": ("compare", VGG16, "--set", "system.splits=4", "--set", "system.splits=16"),
    "compare models": ("compare", *LLM, *PIPELINES, "--set", "workload.zero=1"),
    "explain": ("explain", GPT3),
    "explain a model": ("explain", *LLM),
    "explain two": ("explain", GPT3, VGG16),
    "explain again": ("explain", "--workload", "plugin:collective?bytes=65536", "--platform", RING, "--network", "plugin:packet"),
    "plugins": ("plugins",),
    "plugins list": ("plugins", "list"),
    "plugins show": ("plugins", "show", "llm"),
    "plugins check": ("plugins", "check", "training_loops"),
    "doctor": ("doctor",),
    "compat install": ("compat", "install", "programs"),
    "show": ("show", "out"),
    "show run": ("show", "out", "run"),
    "show layers": ("show", "out", "layers"),
    "show phases": ("show", "out", "phases"),
    "show audit": ("show", "out", "audit"),
    "systolic": (*SYSTOLIC, "--output", "reports"),
    "traffic": TRAFFIC,
    "memory": ("memory", *LLM, "--capacity", "8"),
    "memory --search": ("memory", *LLM, "--search", "--limit", "4"),
    "collective": ("collective", "--platform", SWITCH, "--network", NCCL, "--sizes", "8B..8GiB"),
    "collective measured": ("collective", "--platform", SWITCH, "--network", NCCL, "--measured", "measured.csv"),
    "calibrate collective": ("calibrate", "collective", "measured.csv", "--output", "nccl.toml"),
    "calibrate gemm": ("calibrate", "gemm", "gemm.csv", "--device", "h100", "--output", "device.toml"),
    "calibrate attention": ("calibrate", "attention", "attention.csv", "--device", "h100", "--output", "device.toml"),
    "calibrate cluster": ("calibrate", "cluster", "--machine", "dgx_h100", "--nccl-tests", A3_MEGA, "--output", "cluster.toml"),
    "convert": ("convert", "blocks.toml", "blocks.et", "--platform", RING),
    "trace check": ("trace", "check", "traces/t"),
    "trace repair": ("trace", "repair", "traces/t", "--output", "mended"),
    "trace stats": ("trace", "stats", "traces/t"),
    "trace scale": ("trace", "scale", "traces/t", "--npus", "16", "--output", "scaled"),
    "trace link": ("trace", "link", "et.0.json", "kineto.0.json"),
    "generate": ("generate", "--model", "dlrm", "--parallel", "DATA", "--npus", "8", "--batch-per-npu", "8", "--output", "dlrm.toml"),
    "device": ("device",),
    "synthesize": ("synthesize", "--platform", RING.replace("size=8", "size=3"), "--bytes", "1MiB"),
    "jobs of a cluster": ("jobs", str(GOODPUT / "cluster.toml")),
    "waits of jobs": (
        "jobs",
        str(GOODPUT / "two_jobs.toml"),
        "--link-figures",
        "--set",
        "network.plugin=analytical",
        "--set",
        "network.congestion=aware",
    ),
    "jobs": ("jobs", str(GOODPUT / "two_jobs.toml"), "--alone", "--without", "a"),
    "sample": ("sample", "varied.toml", "--seeds", "3"),
    "goodput with faults": ("goodput", "month.toml", "--seeds", "3"),
    "goodput": ("goodput", str(GOODPUT / "llama3_405b.toml"), "--seeds", "3"),
    "serve": ("serve", str(ROOT / "examples" / "serving" / "by_hand.toml")),
    "timeline": ("timeline", "out", "-o", "again.pftrace"),
    "rerun": ("rerun", "out"),
    "generate --list": ("generate", "--list"),
    "flows": ("flows", "--platform", RING, "--network", "plugin:flow", "--pattern", "incast"),
    "sweep": ("sweep", "sweep.toml", "--output", "rows.csv", "--overwrite"),
    "sweep --dry-run": ("sweep", "sweep.toml", "--dry-run"),
    "search": ("search", "search.toml", "--output", "found.csv", "--overwrite"),
    "search of two": ("search", "front.toml", "--output", "front.csv", "--overwrite"),
    "assert": ("assert", "budgets.toml"),
    "report": ("report", "out", "--output", "page.html"),
    "plot": ("plot", "out", "layers", "--output", "layers.svg"),
}
WRITES = (
    "compat install",
    "calibrate collective",
    "calibrate gemm",
    "calibrate attention",
    "calibrate cluster",
    "convert",
    "generate",
    "trace repair",
    "trace scale",
    "trace link",
    "sweep",
    "report",
    "plot",
)
"""Commands whose answer under --json is about files."""

WITH_ALL = (
    "run",
    "run of blocks",
    "run of a model",
    "compare",
    "compare models",
    "explain",
    "explain two",
    "plugins",
    "systolic",
    "traffic",
    "flows",
)

ARRAY = """[general]
run_name = an array of the test

[architecture_presets]
ArrayHeight: 128
ArrayWidth: 128
IfmapSramSzkB: 512
FilterSramSzkB: 512
OfmapSramSzkB: 512
IfmapOffset: 0
FilterOffset: 10000000
OfmapOffset: 20000000
Dataflow : ws
Bandwidth : 10
MemoryBanks: 1

[run_presets]
InterfaceBandwidth: CALC
"""
LAYER = """
[[layers]]
name = "decoder_stack.block_{number}.{part}_with_a_long_name"
forward = {{ compute_ns = {time} }}
input_gradient = {{ compute_ns = {time}, collective = "all_reduce", collective_bytes = 12345678 }}
weight_gradient = {{ compute_ns = {time} }}
"""
PARTS = {"norm": 1234, "attention": 123456, "mlp": 234567}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files that the commands read."""
    folder = tmp_path_factory.mktemp("inputs")
    layers = [LAYER.format(number=number, part=part, time=time) for number in range(192) for part, time in PARTS.items()]
    (folder / "blocks.toml").write_text(f'workload = "layers.toml"\nplatform = "{RING}"\n')
    (folder / "layers.toml").write_text('name = "577 layers"\nloop = "data"\n' + "".join(layers))
    sizes = [1 << exponent for exponent in range(10, 31)]
    (folder / "measured.csv").write_text(
        "operation,ranks,bytes,microseconds\n" + "".join(f"all_reduce,8,{size},{20 + size / 123456:.3f}\n" for size in sizes)
    )
    rows = [f"{1 << m},4096,4096,{5 + (1 << m) * 4096 * 4096 * 2 / 5e8:.3f}\n" for m in range(2, 14)]
    (folder / "gemm.csv").write_text("m,n,k,microseconds\n" + "".join(rows))
    rows = [f"16,{1 << n},{1 << n},128,{5 + (1 << 2 * n) * 128 * 16 * 4 / 3e8:.3f}\n" for n in range(4, 16)]
    (folder / "attention.csv").write_text("heads,query_length,key_length,head_size,microseconds\n" + "".join(rows))
    (folder / "array.cfg").write_text(ARRAY)
    products = [f"transformer_block_{number}_{part},16,{k},64,\n" for number in range(4) for part, k in (("qkv", 32), ("mlp", 48))]
    (folder / "layers.csv").write_text("Layer,M,N,K,\n" + "".join(products))
    (folder / "sweep.toml").write_text(f'base.experiment = "{VGG16}"\naxes.system.splits = [4, 16]\n')
    search = f'base.experiment = "{VGG16}"\naxes.system.splits = [4, 16]\n'
    (folder / "search.toml").write_text(f'{search}search.minimize = "finish_ns"\n')
    (folder / "front.toml").write_text(f'{search}search.minimize = ["finish_ns", "exposed_comm_ns * 123.456"]\n')
    (folder / "budgets.toml").write_text(f'[[expect]]\nexperiment = "{VGG16}"\ncheck = "finish_ns <= 123456789"\n')
    (folder / "step.toml").write_text(
        f'platform = "{RING}"\nnetwork = "plugin:flow"\nworkload = "plugin:collective?bytes=65536"\n[run]\npasses = 2\n'
    )
    (folder / "month.toml").write_text(
        '[goodput]\nnodes = 2\ngpus_per_node = 4\nrates = "llama3"\ndays = 30\nexperiment = "step.toml"\n'
        '[goodput.checkpoint]\nlevels = [{ name = "store", write_s = 10, load_s = 60 }]\n'
        "[goodput.recovery]\ndetect_s = 60\nreplace_s = 120\n"
        '[[goodput.faults]]\nname = "a link with a name that is long"\nparts = 8\nrate = 1e-4\nrepair_h = 8\n'
        "without = { links = [[0, 1]] }\n"
        '[[goodput.correlated]]\nname = "power"\nnodes = 2\nmtbf_days = 200\n'
    )
    (folder / "varied.toml").write_text(
        f'workload = "plugin:collective?bytes=65536"\nplatform = "{RING}"\n\n[variation]\nseed = 7\n'
        'compute = [{ ranks = "5", factor = 1.05 }, { distribution = "lognormal", cv = 0.02, scope = "operation" }]\n'
    )
    (folder / "traces").mkdir()
    write_ranks(folder / "traces" / "t", data_parallel)
    training_step(folder)
    result = astra_sim.simulate(VGG16, timelines=True)
    astra_sim.write_reports(result, folder / "out", reports=("astra1", "timeline"))
    return folder


@pytest.fixture(autouse=True)
def steady(monkeypatch: pytest.MonkeyPatch, inputs: Path) -> None:
    """Runs take no time of their own, so that all print the same."""
    clock = SimpleNamespace(perf_counter=lambda: 0.0)
    for module in ("astra_sim.api", "astra_sim_flows.flows_command"):
        monkeypatch.setattr(f"{module}.time", clock)
    monkeypatch.chdir(inputs)
    monkeypatch.delenv("COLUMNS", raising=False)


def printed(arguments: tuple[str, ...], width: int | None) -> str:
    """What a command prints on both streams where lines have a number of columns, or no limit."""
    done = CliRunner().invoke(astra, arguments, catch_exceptions=False, env={"COLUMNS": None if width is None else str(width)})
    assert done.exit_code == 0, done.output
    return done.stdout


def numbers(text: str) -> set[str]:
    """The numbers of a text, with their decimals."""
    return set(re.findall(r"\d+(?:[.,]\d+)*", text))


def check(text: str, width: int, whole: str) -> None:
    """A text fits a width, and its numbers are those of the same text without one."""
    longest = max((len(word) for word in whole.split()), default=0)
    long = [line for line in text.splitlines() if len(line) > max(width, longest)]
    assert long == []
    assert re.search(r"[0-9](…|\.\.\.)|(…|\.\.\.)[0-9]", text) is None
    numbered = set(re.findall(r"^(\d): ", text, re.MULTILINE))  # runs with long labels
    assert numbers(text) - numbers(whole) <= numbered


@pytest.mark.parametrize("name", COMMANDS)
def test_no_number_is_cut(name: str) -> None:
    arguments = COMMANDS[name]
    whole = printed(arguments, None)
    assert not re.search("[\u2500-\u257f\x1b]", whole)  # neither boxes nor colours in a pipe
    everything = printed((*arguments, "--all"), None) if name in WITH_ALL else whole
    if name.startswith("explain"):  # its first lines say more where they are wider
        whole += "".join(printed(arguments, width) for width in (120, 200))
        everything += whole
    for width in WIDTHS:
        check(printed(arguments, width), width, whole)
        if name in WITH_ALL:
            text = printed((*arguments, "--all"), width)
            check(text, width, everything)
            assert numbers(everything) <= numbers(text) or name.startswith("explain")


@pytest.mark.parametrize("name", COMMANDS)
def test_json_is_all_that_is_printed_and_names_the_files_that_were_written(name: str) -> None:
    arguments = tuple(word.replace("programs", "programs of json") for word in COMMANDS[name])
    result: Any = json.loads(printed((*arguments, "--json"), None))
    assert isinstance(result, (dict, list))
    if name in WRITES:
        assert isinstance(result, dict)
        assert result["files"]
        assert all(Path(path).is_file() for path in result["files"])


def test_every_command_is_looked_at() -> None:
    commands = {*astra.commands, *astra.get_command(None, "plugins").commands}  # type: ignore[arg-type, union-attr]
    offered = {*shared_plugins().components("command")}
    looked_at = {" ".join(words[:count]) for words in COMMANDS.values() for count in (1, 2)}
    others = {
        "plugins new",
        "completion",
        "server",
        "capture jax",
        "capture torch",
    }  # its folder is new once; a script; another command; need jax and torch
    assert (commands - {"run", "list", "show"}) | offered <= looked_at | others


def test_a_run_of_many_layers_fits_a_screen() -> None:
    for width in WIDTHS:
        lines = printed(("blocks.toml",), width).splitlines()
        assert len(lines) <= (28 if width > 60 else 32)
        assert sum(line.startswith("191 x ") for line in lines) == 3  # the first layer has no input gradient
    lines = printed(("blocks.toml",), None).splitlines()
    assert sum(line.startswith("191 x decoder_stack.block_*.") for line in lines) == 3
    layers = printed(("blocks.toml", "--all"), None).split("\nOperations ")[0]
    assert layers.count("decoder_stack.block_") == 576


def test_ten_layers_expose_most_and_the_others_are_added_up() -> None:
    text, every = printed((GPT3, "--units", "us"), None), printed((GPT3, "--units", "us", "--all"), None)
    shown = [re.split(" {2,}", line) for line in layers_of(text)]
    layers = [re.split(" {2,}", line) for line in layers_of(every)]
    assert len(layers) > 20 >= len(shown)
    for column in range(1, 13):
        total = sum(float(row[column]) for row in layers)
        assert sum(float(row[column]) for row in shown) == pytest.approx(total, abs=0.01)
    resnet = printed((str(ROOT / "examples" / "resnet50_dgx2_pod.toml"),), None)
    exposed = [float(re.split(" {2,}", line)[3]) for line in layers_of(resnet)[:-1]]
    assert len(exposed) == 10
    assert exposed == sorted(exposed, reverse=True)
    assert re.fullmatch(r"\d+ others  .*", layers_of(resnet)[-1])


def layers_of(text: str) -> list[str]:
    """The rows of the table of layers."""
    lines = text.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("layer  ")) + 1
    return lines[first : next(number for number, line in enumerate(lines) if line.startswith("comm: "))]


@pytest.mark.parametrize(("units", "total"), [("us", "787767.340"), ("ms", "787.767"), ("s", "0.788")])
def test_units_are_fixed_on_request(units: str, total: str) -> None:
    assert re.search(rf"^ total +{total}  {units}$", printed((GPT3, "--units", units), None), re.MULTILINE)
    assert f": {total} {units} on 256 NPUs" in printed(("explain", GPT3, "--units", units), None)
    assert f"total ({units})" in printed(("compare", GPT3, "--units", units), None)
    as_json = json.loads(printed((GPT3, "--units", units, "--json"), None))
    assert as_json["finish_ns"] == 787767340


def test_columns_of_a_pipe_are_easily_split() -> None:
    text = printed(("compare", VGG16, "--set", "system.splits=4", "--set", "system.splits=16"), None)
    heading, *rows = [re.split(" {2,}", line) for line in text.splitlines()]
    assert [len(row) for row in rows] == [len(heading)] * 2
    assert [float(row[1]) for row in rows] == [5489.225, 8427.845]


# -- a real terminal ---------------------------------------------------------------------------------------------------


def on_terminal(width: int, arguments: tuple[str, ...], **environment: str) -> str:
    """What the command writes on a terminal of some width."""
    pty, fcntl, termios = pytest.importorskip("pty"), pytest.importorskip("fcntl"), pytest.importorskip("termios")
    main, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    variables = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "CI")}
    variables |= {"TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8", **environment}
    command = [sys.executable, "-m", "astra_sim", *arguments]
    with subprocess.Popen(command, stdout=terminal, stderr=subprocess.PIPE, env=variables) as process:
        os.close(terminal)
        text = b""
        while True:
            try:
                part = os.read(main, 65536)
            except OSError:
                break
            if not part:
                break
            text += part
        assert process.wait() == 0
    os.close(main)
    return text.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("width", [60, 120])
def test_a_terminal_has_its_own_width(width: int) -> None:
    text = on_terminal(width, (VGG16,))
    assert "\x1b[1m" in text
    plain = re.sub("\x1b\\[[0-9;]*m", "", text)
    assert "─" in plain
    longest = max(map(len, plain.splitlines()))
    assert width / 2 < longest <= width


def test_no_color_and_columns_are_respected() -> None:
    text = on_terminal(120, (VGG16,), NO_COLOR="1", COLUMNS="70")
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 70
    assert "\x1b" not in on_terminal(120, (VGG16,), TERM="dumb")
    ascii_only = on_terminal(80, (VGG16,), PYTHONIOENCODING="ascii", NO_COLOR="1")
    assert ascii_only.isascii()
    assert "-----" in ascii_only
