"""`astra server`: programs of a script run in forks of a warm process, and print, write and end as they do by themselves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ASTRA = [sys.executable, "-m", "astra_sim"]
RUN = f"{sys.executable} -m astra_sim"
EXPERIMENT = """
[workload]
plugin = "collective"
bytes = 4096

[platform]
dimensions = [{ topology = "ring", size = 4, links = 2, link_bandwidth_gib_per_s = 25, link_latency_ns = 500 }]
"""


def served(script: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a script of bash in a server. Each program that runs by itself says so."""
    command = [*ASTRA, "server", "bash", "-c", script]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=os.environ | variables, timeout=120)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with an experiment, and a program that says which process it runs in."""
    (tmp_path / "ring.toml").write_text(EXPERIMENT)
    (tmp_path / "who.py").write_text(
        "import os\nfrom astra_sim import Provider, hookimpl\nimport click\n\n"
        "@click.command()\ndef who():\n    click.echo(os.getppid())\n\n"
        "@hookimpl\ndef astra_commands():\n    return [Provider('who', 'Say what started it.', who)]\n"
    )
    return tmp_path


def is_served(output: str) -> bool:
    """Whether a program was a fork of the server: its parent is not the shell, whose number comes first."""
    shell, parent = output.split()
    return shell != parent


WHO = f"echo $$; {RUN} -p who.py who; true"


@pytest.mark.parametrize(
    "arguments",
    [
        "ring.toml",
        "plugins show ring --json",
        "ring.toml --set workload.bytes=0",
        "ring.tom",
        "--version",
        "plugins show ring",
        "--help",
        "ring.toml -o out",
    ],
)
def test_a_program_prints_and_ends_as_it_does_by_itself(arguments: str, folder: Path) -> None:
    alone = subprocess.run([*ASTRA, *arguments.split()], cwd=folder, capture_output=True, text=True, check=False)
    done = served(f"{RUN} {arguments}", folder)
    assert [done.returncode, done.stderr] == [alone.returncode, alone.stderr]
    without_times = [[line for line in each.stdout.splitlines() if "wall" not in line] for each in (done, alone)]
    assert without_times[0] == without_times[1] != [] or alone.returncode


def test_programs_run_in_forks_of_the_server(folder: Path) -> None:
    assert is_served(served(WHO, folder).stdout)
    assert not is_served(served(f"unset ASTRA_SERVER; {WHO}", folder).stdout)
    assert not is_served(served(f"export ASTRA_SERVER=/nowhere; {WHO}", folder).stdout)


@pytest.mark.parametrize("change", ["PYTHONPATH=.", "LC_ALL=C", "PYTHONWARNINGS=error"])
def test_a_python_that_starts_otherwise_runs_by_itself(change: str, folder: Path) -> None:
    assert not is_served(served(f"export {change}; {WHO}", folder).stdout)


def test_a_program_has_the_environment_folder_mask_and_streams_of_its_caller(folder: Path) -> None:
    (folder / "inside").mkdir()
    writing = f"umask 077; cd inside; {RUN} ../ring.toml -o out --quiet"
    done = served(f"{writing}; cat ../ring.toml | {RUN} /dev/stdin --json 2>&1 | wc -c", folder)
    assert done.stderr == ""
    assert (folder / "inside" / "out" / "result.json").stat().st_mode & 0o077 == 0
    assert int(done.stdout) > 500


def test_many_programs_run_side_by_side(folder: Path) -> None:
    done = served(f"for i in 1 2 3 4 5 6; do {RUN} ring.toml -o out$i --quiet & done; wait", folder)
    assert (done.returncode, done.stderr) == (0, "")
    results = [(folder / f"out{number}" / "result.json").stat().st_size for number in range(1, 7)]
    assert max(results) - min(results) < 100


def test_the_server_ends_as_its_script(folder: Path) -> None:
    assert served("exit 7", folder).returncode == 7
    assert served("kill -9 $$", folder).returncode == 128 + 9
    done = subprocess.run([*ASTRA, "server", "./none.sh"], cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "astra: error: ./none.sh: No such file or directory\n")


def started(folder: Path, script: str) -> subprocess.Popen[str]:
    """A script in a server whose program waits in a plugin."""
    (folder / "waits.py").write_text(
        "import time, click\nfrom astra_sim import Provider, hookimpl\n\n"
        "@click.command()\ndef waits():\n    open('started', 'w').close()\n    time.sleep(60)\n\n"
        "@hookimpl\ndef astra_commands():\n    return [Provider('waits', 'Wait.', waits)]\n"
    )
    process = subprocess.Popen([*ASTRA, "server", "bash", "-c", script], cwd=folder, stdout=-1, stderr=-1, text=True)
    for _ in range(600):
        if (folder / "started").exists():
            return process
        time.sleep(0.05)
    raise AssertionError(process.communicate())


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 130)])
def test_signals_reach_the_program(number: signal.Signals, status: int, folder: Path) -> None:
    process = started(folder, f"{RUN} -p waits.py waits & echo $! > pid; wait $!; echo $?")
    os.kill(int((folder / "pid").read_text()), number)
    output, errors = process.communicate(timeout=30)
    assert (output, errors.strip()) == (f"{status}\n", "astra: interrupted")


def test_a_program_whose_caller_is_killed_is_ended(folder: Path) -> None:
    process = started(folder, f"{RUN} -p waits.py waits & echo $! > pid; wait $!; echo $?")
    os.kill(int((folder / "pid").read_text()), signal.SIGKILL)
    assert process.communicate(timeout=30)[0] == "137\n"


def test_drop_in_programs_are_served(folder: Path) -> None:
    program = f"{sys.executable} -P -m astra_sim_compat AstraSim_Analytical_Congestion_Unaware --nothing"
    alone = subprocess.run(program.split(), cwd=folder, capture_output=True, text=True, check=False)
    done = served(program, folder)
    assert (done.returncode, done.stdout, done.stderr) == (alone.returncode, alone.stdout, alone.stderr)
    assert done.returncode == 255
