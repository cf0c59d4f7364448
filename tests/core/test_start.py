"""The start of a process: what it imports, and what it remembers of installed packages."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from astra_sim import _cache_folder
from astra_sim.setup import entry_points

ROOT = Path(__file__).resolve().parents[2]
NEVER = {
    *("numpy", "scipy", "yaml", "google.protobuf", "rich", "tomli_w"),
    *("importlib.metadata", "email", "asyncio", "logging", "socket", "csv", "hashlib", "pickle", "random"),
}
"""What no start needs: neither that of help nor that of a run from TOML whose packages are known."""
PLUGIN = "from astra_sim import Provider, hookimpl\n\n@hookimpl\ndef astra_commands():\n    return [Provider({!r}, 'A command.', 'm:o')]\n"


def imported(*arguments: str, **variables: str) -> set[str]:
    """The modules that a run of `astra` has imported when it ends, in a process of its own."""
    code = (
        "import sys\nfrom astra_sim.__main__ import main\n"
        "try:\n    main()\nexcept SystemExit as stop:\n    assert not stop.code, stop\nfinally:\n    print(*sys.modules, file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, env=os.environ | variables)
    return set(done.stderr.splitlines()[-1].split())


def listed(folder: Path, cache: Path | str, **variables: str) -> str:
    """What `astra --help` prints where a folder is on the path, with that cache folder."""
    environment = os.environ | {"PYTHONPATH": str(folder), "ASTRA_CACHE_DIR": str(cache)} | variables
    return subprocess.run([sys.executable, "-m", "astra_sim", "--help"], capture_output=True, text=True, check=True, env=environment).stdout


def install(folder: Path, name: str) -> None:
    """Install a distribution with a plugin that offers one command, and with no other."""
    information = folder / "somebodys_plugin-0.1.dist-info"
    information.mkdir(parents=True, exist_ok=True)
    (folder / f"module_{name}.py").write_text(PLUGIN.format(name))
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: somebodys-plugin\nVersion: 0.1\n")
    (information / "entry_points.txt").write_text(f"[astra_sim]\nmine = module_{name}\n")


def test_help_imports_neither_an_engine_nor_a_library_that_it_does_not_need(tmp_path: Path) -> None:
    cache = {"ASTRA_CACHE_DIR": str(tmp_path)}
    imported("--help", **cache)
    loaded = imported("--help", **cache)
    assert loaded & {*NEVER, "cattrs", "json", "astra_sim.api", "astra_sim.engine", "astra_sim.setup.experiment"} == set()
    assert "astra_sim.setup.plugins" in loaded
    of_plugins = {name for name in loaded if name.startswith("astra_sim_") and "." in name}
    assert "astra_sim_goodput.plugin" in of_plugins
    assert {name for name in of_plugins if not name.endswith(".plugin")} | loaded & {"astra_sim.fabric", "astra_sim.graph"} == set()


def test_a_run_imports_no_library_and_no_room_that_it_does_not_need(tmp_path: Path) -> None:
    cache = {"ASTRA_CACHE_DIR": str(tmp_path)}
    experiment = "examples/vgg16_dgx2_pod.toml"
    assert "importlib.metadata" in imported(experiment, **cache)
    loaded = imported(experiment, **cache)
    libraries = {*NEVER, "shutil", "textwrap"}  # click needs these two for help
    others = {"report.spool", "report.breakdown", "report.explanation", "report.what_if", "run.critical_path", "function_table"}
    assert loaded & {*libraries, *(f"astra_sim.{room}" for room in others)} == set()
    assert [name for name in loaded if name.startswith(("astra_sim_chakra.", "astra_sim_llm.")) and not name.endswith(".plugin")] == []
    assert "cattrs" in loaded, "the run was none"


def test_a_plugin_that_comes_changes_or_goes_is_seen_at_once(tmp_path: Path) -> None:
    folder, cache = tmp_path / "packages", tmp_path / "cache"
    assert "first" not in listed(folder, cache)
    install(folder, "first")
    assert "first" in listed(folder, cache)
    assert "first" in listed(folder, cache)
    install(folder, "another")
    assert "another" in listed(folder, cache)
    (folder / "somebodys_plugin-0.1.dist-info" / "entry_points.txt").unlink()
    assert "another" not in listed(folder, cache)


@pytest.mark.parametrize("any_installed", [True, False])
def test_what_is_remembered_is_what_is_installed(any_installed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, cache = tmp_path / "packages", tmp_path / "cache"
    install(folder, "first")
    monkeypatch.setenv(_cache_folder.CACHE_VARIABLE, str(cache))
    # Libraries that other tests import bring finders of packages of their own, with which nothing is remembered, or take Python's away; and
    # while other tests run, packages may come and go.
    monkeypatch.setattr(sys, "meta_path", [finder for finder in sys.meta_path if not hasattr(finder, "find_distributions")])
    monkeypatch.setattr(sys, "path", [str(folder)])
    read = [entry_points.EntryPoint("mine", "module_first", "somebodys-plugin", "0.1")] if any_installed else []
    monkeypatch.setattr(entry_points, "_read", lambda: read)
    assert entry_points.entry_points() == read
    (file,) = cache.iterdir()
    with monkeypatch.context() as inner:
        inner.setattr(entry_points, "_read", lambda: pytest.fail("the metadata is read again"))
        assert entry_points.entry_points() == read
    whole = file.read_bytes()
    for content in (b"", b"astra: entry points 2\n", whole[:-1], whole.replace(b"\t", b" "), whole[:20] + b"\xff" + whole[21:]):
        file.write_bytes(content)
        assert entry_points.entry_points() == read
        assert file.read_bytes() == whole


@pytest.mark.parametrize("folder", ["", "/dev/null/nothing"], ids=["none", "not-writable"])
def test_without_a_cache_folder_everything_is_found(folder: str, tmp_path: Path) -> None:
    install(tmp_path / "packages", "mine")
    assert "mine" in listed(tmp_path / "packages", folder)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["packages"]


def test_the_folder_is_that_of_the_users_caches(tmp_path: Path) -> None:
    if sys.platform in ("win32", "darwin"):
        pytest.skip("XDG_CACHE_HOME counts on other systems")
    environment = {name: value for name, value in os.environ.items() if name != "ASTRA_CACHE_DIR"} | {"XDG_CACHE_HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-m", "astra_sim", "--help"], capture_output=True, check=True, env=environment)
    assert sorted(path.name.rpartition("-")[0] for path in (tmp_path / "astra-sim").iterdir()) == ["entry-points"]


def test_processes_that_write_at_the_same_time_leave_a_whole_file(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        texts = list(pool.map(lambda _: listed(tmp_path, tmp_path / "cache"), range(6)))
    assert len(set(texts)) == 1
    assert len({path.name.rpartition("-")[0] for path in (tmp_path / "cache").iterdir()}) == len(list((tmp_path / "cache").iterdir())) == 1


def test_a_path_with_an_archive_is_read_every_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "packages.zip"
    archive.write_bytes(b"PK\x05\x06" + bytes(18))
    monkeypatch.setenv(_cache_folder.CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(archive))
    assert entry_points.entry_points()
    assert not (tmp_path / "cache").exists()
