"""`astra doctor`, and what is said where a component of astra is not installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from astra_sim import PluginError
from astra_sim.setup import entry_points, plugin_modules
from astra_sim.setup.entry_points import EntryPoint
from astra_sim.setup.known_components import BUILT_IN, known_components
from astra_sim.setup.plugins import Plugins

from devtools import components


def doctor(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "astra_sim", "doctor", *arguments]
    return subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=False)


def test_nothing_is_broken_here() -> None:
    done = doctor("--json")
    result = json.loads(done.stdout)
    assert (done.returncode, done.stderr, result["problems"]) == (0, "", [])
    assert result["engine"] in ("compiled", "python")
    assert set(result["packages"]) | set(result["missing"]) == {*BUILT_IN, "astra-sim-core"}
    assert result["executable"] == sys.executable
    assert "astra-sim-sweep[dask]" in {extra["extra"] for extra in result["extras"]}


def test_the_engine_in_python_is_told() -> None:
    code = "import sys; sys.modules['astra_sim_engine._compiled'] = None; from astra_sim.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", code, "doctor", "--json"], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["engine"] == "python"
    assert done.stderr.count("the engine in Python runs instead") == 1


def test_a_plugin_that_cannot_be_imported_is_broken(tmp_path: Path) -> None:
    information = tmp_path / "somebodys-0.1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: somebodys\nVersion: 0.1\n")
    (information / "entry_points.txt").write_text("[astra_sim]\nmine = nosuchmodule\n")
    done = doctor(PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert "BROKEN: plugin mine of somebodys: " in done.stdout
    assert "nosuchmodule" in done.stdout
    result = json.loads(doctor("--json", PYTHONPATH=str(tmp_path)).stdout)
    assert [info["name"] for info in result["broken"]] == ["mine"]


@pytest.mark.parametrize(
    ("bounds", "told"),
    [
        (">=99.1", "needs astra-sim-core >=99.1, and {} is installed; pip install --upgrade 'astra-sim-core>=99.1'"),
        (" (>=0.1,<0.1.1)", "needs astra-sim-core >=0.1, <0.1.1, and {} is installed; pip install --upgrade somebodys"),
        (
            "[x]~=99.0; python_version > '3'",
            "needs astra-sim-core ~=99.0, and {} is installed; pip install --upgrade 'astra-sim-core~=99.0'",
        ),
        (">=0.1,!=98.*", None),
        (">=99; extra == 'newer'", None),
        ("", None),
    ],
)
def test_a_plugin_that_needs_another_kernel_says_which(bounds: str, told: str | None, tmp_path: Path) -> None:
    information = tmp_path / "somebodys-0.1.dist-info"
    information.mkdir()
    requirement = f"Requires-Dist: astra_sim.core{bounds}\nRequires-Dist: attrs>=1\n"
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: somebodys\nVersion: 0.1\n{requirement}")
    (information / "entry_points.txt").write_text("[astra_sim]\nmine = mine\n")
    (tmp_path / "mine.py").write_text("")
    done = doctor("--json", PYTHONPATH=str(tmp_path))
    result = json.loads(done.stdout)
    assert result["problems"] == ([] if told is None else ["somebodys " + told.format(result["packages"]["astra-sim-core"])])
    assert done.returncode == (told is not None)


@pytest.mark.parametrize(
    ("version", "kernel", "goes"),
    [
        ("1.2.3", "1.2.3", True),
        ("1.2.3", "1.2.10", True),
        ("1.2.10", "1.2.3", False),
        ("1.2.0.dev0", "1.2.0", True),
        ("1.2.0rc1", "1.2.0rc2", True),
        ("1.1.9", "1.2.0", False),
        ("1.3.0", "1.2.9", False),
        ("9.9", "1.2.0", False),
    ],
)
def test_a_package_goes_with_a_kernel_of_its_series_that_is_not_older(version: str, kernel: str, goes: bool, tmp_path: Path) -> None:
    for name, number in {"astra-sim-memory": version, "astra-sim-core": kernel}.items():
        information = tmp_path / f"{name.replace('-', '_')}-{number}.dist-info"
        information.mkdir()
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n")
    problems = json.loads(doctor("--json", PYTHONPATH=str(tmp_path)).stdout)["problems"]
    series = ".".join(kernel.split(".")[:2])
    text = f"astra-sim-memory has version {version}, and astra-sim-core {kernel}; expected {series}, and none that is newer"
    assert (text not in problems) is goes


def test_a_cache_folder_that_is_a_file_is_broken(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    done = doctor(ASTRA_CACHE_DIR=str(file))
    assert done.returncode == 1
    assert f"cache folder {file} cannot be written" in done.stdout


# -- What to install ---------------------------------------------------------------------------------------------------


def test_the_list_of_components_is_what_the_packages_offer() -> None:
    """Where this fails, `python3 dev.py components` writes the list."""
    assert components.FILE.read_text(encoding="utf-8") == components.text_of(components.shipped(Plugins()))
    assert {"network", "command", "explainer", "engine"} <= {kind for _, kind, _ in known_components()}


def test_a_package_that_is_not_built_keeps_its_components(monkeypatch: pytest.MonkeyPatch) -> None:
    result = [each for each in entry_points.entry_points() if each.distribution != "astra-sim-network-ns3"]
    monkeypatch.setattr(plugin_modules, "entry_points", lambda: result)
    assert ("astra-sim-network-ns3", "network", "ns3") in components.shipped(Plugins())


def test_a_component_whose_package_is_not_there_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin_modules, "entry_points", list)
    with pytest.raises(PluginError, match=r"no network plugin 'packet'; .* not installed: pip install astra-sim-network-packet$"):
        Plugins().get("network", "packet")
    with pytest.raises(PluginError, match="astra-sim-network-ns3"):
        Plugins().get("network", "ns3")


def test_a_package_that_is_there_and_lacks_the_component_needs_no_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        plugin_modules, "entry_points", lambda: [EntryPoint("collectives", "nosuchmodule", "astra-sim-collectives", "0.1.0")]
    )
    with pytest.raises(PluginError, match="no collective plugin 'ring'") as raised:
        Plugins().get("collective", "ring")
    assert "pip install" not in str(raised.value)
    assert "broken plugins" in str(raised.value)
