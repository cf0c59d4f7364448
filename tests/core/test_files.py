"""Output files are written as a set: a failure leaves what was there, and nothing half written."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from astra_sim.errors import RunError
from astra_sim.files import FileSet
from support import ROOT, warm
from support.formats import SCALE_SIM

resource = pytest.importorskip("resource", reason="the size of files can be limited on POSIX only")

RING = "plugin:ring?size=4&links=2&link_bandwidth_gib_per_s=50&link_latency_ns=500"
RUN = ("--workload", "plugin:collective?bytes=1048576", "--platform", RING, "--output")
TRAFFIC = ("traffic", "--platform", RING, "--rate", "0.01", "--warm-up", "10", "--period", "100", "--output")
GENERATE = ("generate", "--model", "resnet50", "--parallel", "DATA", "--npus", "4", "--batch-per-npu", "1", "--output")
WORKLOAD = str(ROOT / "examples" / "workloads" / "vgg16.toml")
CFG = "[general]\nrun_name = small\n" + SCALE_SIM
COMMANDS = {
    "run": (*RUN, "out"),
    "compare": ("compare", "--set", "system.splits=1", "--set", "system.splits=2", *RUN, "out"),
    "traffic": (*TRAFFIC, "out"),
    "systolic": ("systolic", "--config", "small.cfg", "--topology", "small.csv", "--gemm", "--output", "out"),
    "generate": (*GENERATE, "out/w.toml"),
    "generate text": (*GENERATE, "out/w.txt"),
    "convert to text": ("convert", WORKLOAD, "out/w.txt"),
    "convert to JSON": ("convert", WORKLOAD, "out/w.json"),
    "convert to traces": ("convert", WORKLOAD, "out/w.et", "--platform", RING, "--gzip"),
}


def astra(*arguments: str, cwd: Path, limit: int = 1 << 30) -> subprocess.CompletedProcess[str]:
    """Run the command where no file can have more than `limit` bytes."""

    def set_limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))

    command = [warm.astra(), *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, preexec_fn=set_limit)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "small.cfg").write_text(CFG)
    (tmp_path / "small.csv").write_text("Layer, M, N, K,\none, 8, 8, 8,\n")
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_full_disk_leaves_the_old_files_whole(folder: Path, command: tuple[str, ...]) -> None:
    (folder / "out").mkdir()
    assert astra(*command, cwd=folder).returncode == 0
    old = contents(folder)
    assert len(old) > 2
    for name in old:
        if name.startswith("out/"):
            (folder / name).write_bytes(b"old")
    old = contents(folder)
    done = astra(*command, cwd=folder, limit=50)
    assert done.returncode == 1, done.stderr
    first = r"\S*/astra-compare-\w+/1" if command[0] == "compare" else "out"  # compare keeps its results in temporary files
    assert re.search(f"astra: error: cannot write {first}", done.stderr)
    assert len(done.stderr.splitlines()) == 1
    assert contents(folder) == old


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_full_disk_leaves_no_file_where_there_was_none(folder: Path, command: tuple[str, ...]) -> None:
    files_only = command[0] in ("generate", "convert")
    if files_only:
        (folder / "out").mkdir()
    old = contents(folder)
    assert astra(*command, cwd=folder, limit=50).returncode == 1
    assert contents(folder) == old
    assert (folder / "out").exists() == files_only


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_where_nothing_can_be_written_the_status_is_that_of_a_failed_run(folder: Path, command: tuple[str, ...]) -> None:
    (folder / "out").write_bytes(b"a file")
    done = astra(*command, cwd=folder)
    if "is a file" in done.stderr:  # an option for a folder was given a file: a wrong input
        assert done.returncode == 2
    else:
        assert (done.returncode, "cannot write out" in done.stderr) == (1, True), done.stderr
    assert (folder / "out").read_bytes() == b"a file"


def test_the_figures_of_a_run_are_shown_although_its_reports_cannot_be_written(folder: Path) -> None:
    done = astra(*RUN, "out", cwd=folder, limit=50)
    assert "total" in done.stdout
    assert done.returncode == 1


# -- The set -----------------------------------------------------------------------------------------------------------


def write(folder: Path, *names: str, text: str = "new", before_the_end: Callable[[], None] = lambda: None) -> None:
    with FileSet() as files:
        for name in names:
            with files.open(folder / name) as file:
                file.write(text)
        before_the_end()


def test_files_take_their_names_together(tmp_path: Path) -> None:
    def look() -> None:
        assert not {"a", "b"} & set(os.listdir(tmp_path))

    write(tmp_path, "a", "b", before_the_end=look)
    assert contents(tmp_path) == {"a": b"new", "b": b"new"}


def test_ctrl_c_leaves_the_old_files(tmp_path: Path) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    write(tmp_path, "a", text="old")
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path, "a", "b", before_the_end=interrupt)
    assert contents(tmp_path) == {"a": b"old"}


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("failing", [1, 2, 3])
def test_names_are_taken_back_where_one_cannot_be_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int, links: bool, error: BaseException
) -> None:
    write(tmp_path, "a", "c", text="old")
    replace, calls = os.replace, [0]

    def failing_replace(source: str, target: str) -> None:
        calls[0] += 1
        if calls[0] == failing:
            raise error
        replace(source, target)

    def no_link(source: str, target: str) -> None:
        raise OSError(95, "Operation not supported") if os.path.exists(source) else FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(os, "replace", failing_replace)
    if not links:
        monkeypatch.setattr(os, "link", no_link)
    with pytest.raises(RunError if isinstance(error, OSError) else KeyboardInterrupt):
        write(tmp_path, "a", "b", "c")
    assert contents(tmp_path) == {"a": b"old", "c": b"old"}


def test_a_file_keeps_its_permissions_and_a_new_one_has_those_of_the_process(tmp_path: Path) -> None:
    write(tmp_path, "a", text="old")
    (tmp_path / "a").chmod(0o640)
    write(tmp_path, "a", "b")
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o666 & ~mask


def test_a_file_that_must_not_be_written_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "a", text="old")
    (tmp_path / "a").chmod(0o444)
    if os.geteuid() == 0:  # root may write everything
        monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(RunError, match=r"cannot write .*a: Permission denied"):
        write(tmp_path, "a")
    assert contents(tmp_path) == {"a": b"old"}


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(RunError, match="Is a directory"):
        write(tmp_path, "b", "a")
    assert contents(tmp_path) == {}


def test_behind_a_link_is_the_file(tmp_path: Path) -> None:
    write(tmp_path, "a", text="old")
    (tmp_path / "b").symlink_to("a")
    write(tmp_path, "b")
    assert (tmp_path / "b").is_symlink()
    assert (tmp_path / "a").read_text() == "new"


def test_devices_are_written_directly(tmp_path: Path) -> None:
    done = astra("convert", WORKLOAD, "/dev/stdout", "--to", "toml", cwd=tmp_path)
    assert "[[layers]]" in done.stdout
    (tmp_path / "link").symlink_to("/dev/stdout")
    for name in ("link", "/dev/fd/1", "/proc/self/fd/1") if sys.platform == "linux" else ():
        assert astra("convert", WORKLOAD, name, "--to", "toml", cwd=tmp_path).stdout == done.stdout
    full = astra("convert", WORKLOAD, "/dev/full", "--to", "toml", cwd=tmp_path)
    assert (full.returncode, full.stderr) == (1, "astra: error: cannot write /dev/full: No space left on device\n")


def test_folders_made_for_files_that_fail_go_again(tmp_path: Path) -> None:
    def fail() -> None:
        with FileSet() as files:
            files.make_folder(tmp_path / "x" / "y")
            with files.open(tmp_path / "x" / "y" / "z" / "a") as file:
                file.write("a")
            with files.open(tmp_path / "file" / "b"):
                pass

    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot write"):
        fail()
    assert not (tmp_path / "x").exists()


def test_the_folder_of_a_file_is_made(tmp_path: Path) -> None:
    with FileSet() as files:
        for name in ("x/y/a", "x/b", "c"):
            files.write(tmp_path / name, ["text"])
    assert files.names == [str(tmp_path / name) for name in ("x/y/a", "x/b", "c")]
    assert (tmp_path / "x" / "y" / "a").read_text() == "text"


def test_a_name_with_a_zero_byte_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="zero byte"):
        write(tmp_path, "a\0b")
