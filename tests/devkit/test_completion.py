"""What shells complete: what `astra` returns to their scripts, and the scripts in the shells themselves."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from astra_sim.command.cli import astra
from astra_sim_devkit.completion import complete, completion
from click.testing import CliRunner

ROOT = Path(__file__).resolve().parents[2]
STARTS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], 'eval "$(astra completion bash)"'),
    "zsh": (["zsh", "-f", "-i"], 'autoload -U compinit; compinit -u -D; eval "$(astra completion zsh)"'),
    "fish": (["fish", "--no-config", "-i"], "astra completion fish | source"),
}


def answer(shell: str, line: str, word: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    """The completions for the script of a shell, and its status. `word` is the last part of the line, as bash divides it."""
    environment = os.environ | {"_ASTRA_COMPLETE": f"{shell}_complete", "COMP_LINE": line, "COMP_WORD": word} | variables
    return subprocess.run([sys.executable, "-m", "astra_sim"], env=environment, capture_output=True, text=True, check=False)


def values(line: str, shell: str = "fish", word: str = "") -> dict[str, str]:
    """The candidates for the end of a line, and what follows each; in this process."""
    variables = {"_ASTRA_COMPLETE": f"{shell}_complete", "COMP_LINE": line, "COMP_WORD": word, "ASTRA_TRACEBACK": "1"}
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())) as printed:
        for name, value in variables.items():
            patch.setenv(name, value)
        assert complete(astra) == 0
    rows = [row.split("\t") for row in printed.buffer.getvalue().decode().splitlines() if row]
    assert all(len(row) == 3 for row in rows)
    return {value: kind for kind, value, _ in rows}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with some files."""
    (tmp_path / "traces").mkdir()
    (tmp_path / "exp.toml").write_text('workload = "plugin:llm?model=gpt3-175b"\n[system]\nplugin = "astra2"\n')
    for name in ("my network.json", ".hidden", "traces/w.0.et", "w.txt"):
        (tmp_path / name).write_text("")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_commands_are_completed_and_experiment_files_and_options_of_run(folder: Path) -> None:
    assert {"run": "plain", "plugins": "plain", "convert": "plain", "exp.toml": "plain"}.items() <= values("astra ").items()
    assert values("astra pl") == {"plot": "plain", "plugins": "plain"}
    assert values("astra ex") == {"explain": "plain", "exp.toml": "plain"}
    assert values("astra t") == {"timeline": "plain", "trace": "plain", "traffic": "plain"}
    assert values("astra traces") == {"traces/": "open"}
    assert values("astra --net") == {"--network": "plain"}
    assert values("astra --vers") == {"--version": "plain"}
    assert values("astra calibrate ") == {"attention": "plain", "cluster": "plain", "collective": "plain", "gemm": "plain"}
    assert values("astra plugins s") == {"show": "plain"}
    assert values("astra calibrate gemm --de") == {"--device": "plain"}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("astra --network plugin:pa", {"plugin:packet": "plain"}),
        ("astra --network pl", {"plugin:packet": "plain", "plugin:flow": "plain"}),
        ("astra --network=plugin:pa", {"--network=plugin:packet": "plain"}),
        ("astra compare --network plugin:flow --network plugin:pa", {"plugin:packet": "plain"}),
        ("astra flows --network plugin:packet?pres", {"plugin:packet?preset=": "open"}),
        ("astra --network plugin:packet?vcs=2&preset=g", {"plugin:packet?vcs=2&preset=garnet": "plain"}),
        ("astra --network 'plugin:packet?vcs=2&vc", {}),
        ("astra --platform 'plugin:dgx_h100?nodes=4&nic_l", {"plugin:dgx_h100?nodes=4&nic_latency_ns=": "open"}),
        ("astra --network 'plugin:analytical?model=n", {"plugin:analytical?model=nccl": "plain"}),
        ("astra --compute plugin:gpu?device=h10", {"plugin:gpu?device=h100": "plain"}),
        ("astra --workload plugin:llm?model=gpt", {"plugin:llm?model=gpt3-175b": "plain"}),
        ("astra --network my", {"my network.json": "plain"}),
        ("astra --workload traces/", {"traces/w.0.et": "plain"}),
        ("astra --workload tr", {"traces/": "open"}),
        ("astra --output=tr", {"--output=traces/": "open"}),
        ("astra --set sys", {"system.": "open"}),
        ("astra --set run.sym", {"run.symmetry=": "open"}),
        ("astra --set run.symmetry=f", {"run.symmetry=false": "plain"}),
        ("astra --set system.all_reduce=halv", {"system.all_reduce=halving_doubling": "plain"}),
        ("astra exp.toml --set workload.tensor_p", {"workload.tensor_parallel=": "open"}),
        ("astra --workload plugin:llm --set workload.tensor_p", {"workload.tensor_parallel=": "open"}),
        ("astra --workload plugin:llm --set workload.lora.", {"workload.lora.rank=": "open", "workload.lora.targets=": "open"}),
        ("astra --workload plugin:llm --set workload.lora.targets=pro", {"workload.lora.targets=projection": "plain"}),
        ("astra --workload plugin:llm --set workload.overlap.gathers=t", {"workload.overlap.gathers=true": "plain"}),
        ("astra exp.toml --network plugin:packet --set network.pres", {"network.preset=": "open"}),
        ("astra plugins show pack", {"packet": "plain"}),
        ("astra plugins check network:pack", {"network:packet": "plain"}),
        ("astra plugins new network", {"network": "plain", "network-cpp": "plain"}),
        ("astra --report time", {"timeline": "plain"}),
        ("astra --engine p", {"python": "plain"}),
        ("astra completion z", {"zsh": "plain"}),
        ("astra generate --model resnet", {"resnet50": "plain"}),
        ("astra generate --parallel HYBRID_C", {"HYBRID_CUSTOMIZED": "plain"}),
        ("astra traffic --pattern trans", {"transpose": "plain"}),
        ("astra calibrate gemm --device b2", {"b200": "plain"}),
        ("astra convert --platform plugin:dgx_h1", {"plugin:dgx_h100": "plain"}),
    ],
)
def test_values_are_completed(line: str, expected: dict[str, str], folder: Path) -> None:
    result = values(line)
    assert expected.items() <= result.items()
    assert bool(result) == bool(expected)


def test_help_stands_beside_the_candidates() -> None:
    assert "open\tplugin:packet?preset=\t" in (text := answer("zsh", "astra --network plugin:packet?").stdout)
    assert all(line.split("\t")[2] for line in text.splitlines())


@pytest.mark.parametrize(
    ("line", "word", "value"),
    [
        ("astra --network plugin:pa", "pa", "packet"),
        ("astra --network=plugin:pa", "pa", "packet"),
        ("astra --network 'plugin:pa", "'plugin:pa", "'plugin:packet"),
        ('astra --network "my', '"my', '"my network.json'),
        ("astra --network my", "my", r"my\ network.json"),
        (r"astra --network my\ n", r"my\ n", r"my\ network.json"),
        ("astra --set run.symmetry=f", "f", "false"),
    ],
)
def test_bash_is_given_what_takes_the_place_of_the_last_part_of_a_word(line: str, word: str, value: str, folder: Path) -> None:
    assert list(values(line, "bash", word)) == [value]


@pytest.mark.parametrize(
    "line",
    ["astra nothing ", "astra show nowhere ", "astra --network plugin:none?", "astra --set nothing.", "astra '", "", "astra show w.txt "],
)
def test_what_is_wrong_in_a_line_is_no_message(line: str, folder: Path) -> None:
    done = answer("bash", line)
    assert (done.stderr, done.returncode in (0, 1)) == ("", True)
    assert "Traceback" not in done.stdout


def test_no_library_is_imported_that_the_start_does_not_need(tmp_path: Path) -> None:
    code = "import sys\nfrom astra_sim.__main__ import main\ntry:\n    main()\nfinally:\n    print(*sys.modules, file=sys.stderr)"
    environment = os.environ | {"_ASTRA_COMPLETE": "bash_complete", "COMP_LINE": "astra --network plugin:", "COMP_WORD": ""}
    for _ in range(2):  # the first remembers the entry points
        environment["ASTRA_CACHE_DIR"] = str(tmp_path)
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert "analytical" in done.stdout
    assert (
        set(done.stderr.split()) & {"numpy", "cattrs", "importlib.metadata", "astra_sim.engine", "astra_sim_network_packet.network"}
        == set()
    )


# -- In the shells -----------------------------------------------------------------------------------------------------


def typed(shell: str, keys: str, expected: str, folder: Path) -> str:
    """What a terminal shows of a shell in which the script is read and keys are pressed, until it is what is expected, or for a minute."""
    command, script = STARTS[shell]
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.environ.update(TERM="dumb", PS1="$ ", HOME=str(folder), PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        os.environ.pop("ENV", None)
        os.execvp(command[0], command)
    shown = ""
    steps = [("", script + "; echo re''ady\n"), ("ready", keys), (expected, "")]
    try:
        end = time.monotonic() + 60
        for awaited, answer in steps:
            while awaited not in without_controls(shown) and time.monotonic() < end:
                if select.select([terminal], [], [], 0.1)[0]:
                    shown += os.read(terminal, 65536).decode(errors="replace")
            os.write(terminal, answer.encode())
    finally:
        os.close(terminal)
        os.kill(child, 9)
        os.waitpid(child, 0)
    return without_controls(shown)


def without_controls(shown: str) -> str:
    return re.sub(r"\x07|\x1b\[[0-9;?]*[A-Za-z]", "", shown)


@pytest.mark.parametrize("shell", STARTS)
@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("astra plug\t", "astra plugins "),
        ("astra --network plugin:pack\t", "plugin:packet "),
        ("astra --platform 'plugin:dgx_h100?nodes=4&nic_l\t", "nodes=4&nic_latency_ns="),
        ("astra convert w.t\t", "astra convert w.txt"),
    ],
)
def test_a_shell_completes(shell: str, keys: str, expected: str, folder: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    assert expected in typed(shell, keys, expected, folder)


def test_the_command_prints_a_script_and_refuses_other_shells() -> None:
    runner = CliRunner()
    for shell in STARTS:
        assert "_ASTRA_COMPLETE" in runner.invoke(completion, [shell]).output
    wrong = runner.invoke(completion, ["tcsh"])
    assert wrong.exit_code == 2
    assert "'bash', 'zsh', 'fish'" in wrong.output
