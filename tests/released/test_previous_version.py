"""Plugins of the version before run on this kernel, with the same figures: docs/plugins.md promises it.

tests/previous/ holds a package that was written for that version, with a component of every kind, its network in C++ with the header of
that time; what it computed then; and the names that plugins could import. tests/support/previous_version.py makes the last two.
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from astra_sim import InputError, schedule, system
from astra_sim.commands import shared_plugins
from astra_sim.function_table import FunctionTable
from astra_sim.graph import Communicate, Pass
from astra_sim.network import RouteDelayNetwork
from astra_sim.options import structure
from astra_sim.platform import Group, LogicalDimension, joined, product_dimension
from astra_sim.schedule import Collective
from astra_sim.system import ChunkPlan, QueueAssignment, SystemSession
from support import ROOT
from support.analytical import LINKS, network
from support.networks import Later
from support.previous_version import CASES, PLUGIN, PREVIOUS, public_names

from devtools import release, workspace

VERSION = "0.1.0"
REVISION = "fe7ea97"
CHANGES = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
NAMES = json.loads((PREVIOUS / "names.json").read_text())


@pytest.fixture(scope="module")
def variables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a command that has the package installed, its network compiled with the header of its version."""
    folder = tmp_path_factory.mktemp("previous")
    information = folder / f"astra_sim_before-{VERSION}.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: astra-sim-before\nVersion: {VERSION}\n")
    (information / "entry_points.txt").write_text("[astra_sim]\nbefore = astra_sim_before.plugin\n")
    library = folder / "network.so"
    compiler = os.environ.get("CXX", "c++")
    includes = [f"-I{PLUGIN / 'include'}", f"-I{sysconfig.get_path('include')}"]
    undefined = ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []
    command = [compiler, "-std=c++20", "-shared", "-fPIC", *includes, *undefined, str(PLUGIN / "network.cpp"), "-o", str(library)]
    subprocess.run(command, check=True)
    path = os.pathsep.join(map(str, (folder, PLUGIN, ROOT / "tests")))
    return os.environ | {"PYTHONPATH": path, "ASTRA_BEFORE_LIBRARY": str(library)}


def run(variables: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a module of Python in the folder of the package."""
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=PLUGIN, env=variables, capture_output=True, text=True, check=False)


# -- A package of that version -----------------------------------------------------------------------------------------


def test_all_components_keep_their_contracts(variables: dict[str, str]) -> None:
    done = run(variables, "astra_sim", "plugins", "check", "before")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    kinds = re.findall(r"^ok +(\w+) before_\w+$", done.stdout, re.MULTILINE)
    hooks = re.findall(r"^def astra_(\w+)\(", (PLUGIN / "astra_sim_before" / "plugin.py").read_text(), re.MULTILINE)
    assert len(set(kinds)) == len(hooks) == 12
    assert len(kinds) == done.stdout.count("\n")


@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_all_figures_are_those_of_that_version(engine: str, variables: dict[str, str]) -> None:
    """Byte for byte, with the compiled network, on both engines."""
    done = run(variables, "support.previous_version", "figures", engine)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (PREVIOUS / "figures.json").read_text()
    assert [each["case"] for each in json.loads(done.stdout)] == [json.loads(json.dumps(case)) for case in CASES]


def test_its_report_and_its_command_do_what_they_did(variables: dict[str, str], tmp_path: Path) -> None:
    arguments = ("experiment.toml", "--workload", "layers.csv", "--report", "before_report", "--quiet", "--output", str(tmp_path))
    done = run(variables, "astra_sim", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "before_report.csv").read_text() == "run,npus,finish_us,compute_us,exposed_comm_us\nbefore,8,155.3125,148.0,7.3125\n"
    done = run(variables, "astra_sim", "before_command", "--platform", "plugin:before_platform?size=8&link_bandwidth_gb_per_s=50")
    assert json.loads(done.stdout) == [{"topology": "before_platform", "npus": 8, "gb_per_s": 50, "latency_ns": 0.0}]


def test_the_header_is_that_of_its_version() -> None:
    """And what it declares is in today's header, word for word."""
    then = (PLUGIN / "include" / "astra_sim" / "network.h").read_text()
    now = (ROOT / workspace.HEADERS / "astra_sim" / "network.h").read_text()
    code = re.compile(r"/\*.*?\*/|\s+", re.DOTALL)
    body = code.sub(" ", then.split('extern "C" {\n#endif\n')[1].split("#ifdef __cplusplus")[0])
    assert re.sub(" +", " ", body).strip() in re.sub(" +", " ", code.sub(" ", now))
    if (revision := of_revision("core/src/astra_sim/include/astra_sim/network.h")) is not None:
        assert then == revision.read().decode()


# -- The names that plugins may import ---------------------------------------------------------------------------------


def missing(then: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    """What plugins may import or call in one version and not in another, and what they have to have in it and not before."""
    for name, old in then.items():
        if name not in now:
            yield name
        elif isinstance(old, dict) and isinstance(now[name], dict):
            yield from (f"{name}: needs {method}" for method in now[name].get("abstract", []) if method not in old.get("abstract", []))
            for member, wanted in old.items():
                what = f"{name}.{member}".rstrip(".")
                if member not in now[name]:
                    yield what
                elif member != "abstract":
                    yield from (f"{what}({wrong})" for wrong in misfits(wanted, now[name][member]))
        else:
            yield from (f"{name}({wrong})" for wrong in misfits(old, now[name]))


def misfits(then: list[str] | None, now: list[str] | None) -> Iterator[str]:
    """Why a call that was right is none now: parameters that are gone or have moved, and those that have come and have no default."""
    if then is None or now is None:
        return
    before, after = ([each.rstrip("=") for each in listed] for listed in (then, now))
    places = [each for each in before if not each.startswith(("*", "-"))]
    moved = [each for each in places if each not in after and f"--{each}" not in after and "**" not in "".join(after)]
    yield from moved or (each for each, there in zip(places, after, strict=False) if each != there and "*" not in there)
    yield from (each for each in before if each.startswith("--") and each not in after and each[2:] not in after)
    yield from (
        each for each in now if not each.endswith("=") and not each.startswith("*") and each not in before and each[2:] not in before
    )


def test_names_that_could_be_imported_can_be() -> None:
    """But for those that the changelog lists."""
    listed = set(re.findall(r"^\| `([^`]+)` \|", CHANGES.split("### Removed\n")[1].split("\n### ")[0], re.MULTILINE))
    assert set(missing(NAMES, public_names(NAMES))) == listed
    assert len(NAMES) > 200


def test_what_is_missing_is_found() -> None:
    then = {"m:f": ["a", "b="], "m:C": {"": ["x"], "go": ["self", "n"], "abstract": ["go"]}, "m:value": None}
    assert list(missing(then, then)) == []
    assert list(missing(then, {**then, "m:f": ["a", "b=", "c=", "--d="]})) == []
    assert list(missing(then, {"m:C": then["m:C"], "m:value": None})) == ["m:f"]
    assert list(missing(then, {**then, "m:f": ["a"]})) == ["m:f(b)"]
    assert list(missing(then, {**then, "m:f": ["b=", "a="]})) == ["m:f(a)", "m:f(b)"]
    assert list(missing(then, {**then, "m:f": ["a", "b=", "--c"]})) == ["m:f(--c)"]
    assert list(missing(then, {**then, "m:C": {"": ["x", "y"], "abstract": ["go", "stop"]}})) == ["m:C: needs stop", "m:C(y)", "m:C.go"]


# -- Deprecated features -----------------------------------------------------------------------------------------------


def test_functions_that_a_table_needs_may_still_be_named_when_it_is_made() -> None:
    inner = network("plugin:ring?size=8&links=2&" + LINKS.format(50, 500))
    assert isinstance(inner, RouteDelayNetwork)
    with pytest.warns(
        DeprecationWarning, match=r"^FunctionTable\(needed=\.\.\.\) is deprecated, and gone in astra 0\.3; use .*require"
    ) as result:
        table = FunctionTable(inner.function_table(), needed=["delay", "inject"])
    assert result[0].filename == __file__
    assert table.delay(0, 1, 1000) == inner.message_delay(0, 1, 1000)


def test_a_function_may_have_its_former_name() -> None:
    dimensions = [LogicalDimension(2, 1, None), LogicalDimension(4, 2, None)]
    with pytest.warns(DeprecationWarning, match=r"^joined is deprecated, and gone in astra 0\.3; use product_dimension") as result:
        product = joined(dimensions)
    assert result[0].filename == __file__
    assert product == product_dimension(dimensions)


def test_a_network_may_have_the_former_names_of_its_methods_and_attributes() -> None:
    reported: list[int] = []
    with pytest.warns(DeprecationWarning, match="of a network is deprecated, and gone in astra 0.3; use") as warned:

        class Former(Later):
            charged_dimension = "lowest"

            def watch(self, tell: Callable[[int], None] | None) -> None:
                if tell is not None:
                    tell(7)

    assert len(warned) == 2
    former = Former(network("plugin:ring?size=8&links=2&" + LINKS.format(50, 500)).platform)
    assert former.accounting_dimension == "lowest"
    former.on_progress(reported.append)
    assert reported == [7]
    with pytest.warns(DeprecationWarning, match="charged_dimension"):
        assert former.charged_dimension == "lowest"
    with pytest.warns(DeprecationWarning, match="charged_dimension"):
        former.charged_dimension = "highest"
    assert str(former.accounting_dimension) == "highest"


def test_a_session_may_assign_queues_under_the_former_name() -> None:
    with pytest.warns(DeprecationWarning, match=r"^place of a session is deprecated, and gone in astra 0\.3; use assign_queue") as warned:

        class Former(SystemSession):
            queues = ()

            def issue(self, operation: Communicate, now_ps: int) -> Sequence[ChunkPlan]:
                return ()

            def place(self, operation: Communicate, dimension: int, logical: LogicalDimension | Group) -> QueueAssignment:
                return QueueAssignment(-1, dimension)

    assert [each.filename for each in warned] == [__file__]
    operation, logical = Communicate((), Collective.ALL_REDUCE, 8, (0,), 0, Pass.FORWARD), LogicalDimension(2, 1, None)
    assert Former().assign_queue(operation, 5, logical) == (-1, 5)


@pytest.mark.parametrize(
    ("module", "old", "new"), [(schedule, "Carriage", schedule.BusTransfer), (system, "Place", QueueAssignment)], ids=["schedule", "system"]
)
def test_a_class_may_have_its_former_name(module: ModuleType, old: str, new: type) -> None:
    with pytest.warns(DeprecationWarning, match=f"{old} is deprecated, and gone in astra 0.3; use {new.__name__}") as warned:
        assert getattr(module, old) is new
    assert warned[0].filename == __file__


@pytest.mark.parametrize(
    ("spec", "old", "new", "value"),
    [
        ("analytical", "charged_dimension", "accounting_dimension", "lowest"),
        ("roce", "equal_ways", "equal_cost_paths", "descending"),
        ("packet", "interface_lanes", "injection_ports", 2),
    ],
)
def test_an_option_may_have_its_former_name(spec: str, old: str, new: str, value: object) -> None:
    cls = shared_plugins().components("network")[spec].load_options()
    assert cls is not None
    with pytest.warns(DeprecationWarning, match=f"the option {old} is deprecated, and gone in astra 0.3; use {new}"):
        assert structure(cls, {old: value}, "network") == structure(cls, {new: value}, "network")
    with pytest.raises(InputError, match=f"{old} and {new} are one option; expected {new} alone"):
        structure(cls, {old: value, new: value}, "network")


def test_what_is_deprecated_is_not_kept_for_longer_than_was_said() -> None:
    series = tuple(map(int, release.version().split(".")[:2]))
    source = (ROOT / "core" / "src" / "astra_sim").rglob("*.py")
    ends = [end for path in source for end in re.findall(r"^ +deprecated\(.*\"(\d+\.\d+)\"\)$", path.read_text(), re.MULTILINE)]
    assert ends
    assert all(tuple(map(int, end.split("."))) > series for end in ends)


# -- The packages of that version --------------------------------------------------------------------------------------


def of_revision(path: str) -> Any:
    """A file of the revision of that version, or (a path that ends with /) a folder as a tar archive; None where it is not known here."""
    command = ["git", "archive", REVISION, path] if path.endswith("/") else ["git", "show", f"{REVISION}:{path}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    return io.BytesIO(done.stdout) if done.returncode == 0 else None


@pytest.mark.skipif(not os.environ.get("ASTRA_LONG_BUILDS"), reason=".ci/nightly runs it")
def test_all_packages_of_that_version_keep_their_contracts(tmp_path: Path) -> None:
    """Those that work without compiled parts, with nothing of this version but the kernel."""
    archive = of_revision("plugins/") or pytest.skip(f"the history does not have {REVISION}")
    with tarfile.open(fileobj=archive) as files:
        files.extractall(tmp_path, filter="data")
    folders = [path.parent for path in sorted(tmp_path.glob("plugins/*/pyproject.toml"))]
    packages = [folder for folder in folders if not workspace.is_compiled(folder) or workspace.works_without(folder)]
    for folder in packages:
        project = workspace.toml_of(folder)["project"]
        information = tmp_path / "installed" / f"{project['name'].replace('-', '_')}-{VERSION}.dist-info"
        information.mkdir(parents=True)
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {VERSION}\n")
        points = "\n".join(f"{name} = {module}" for name, module in project["entry-points"]["astra_sim"].items())
        (information / "entry_points.txt").write_text(f"[astra_sim]\n{points}\n")
    (tmp_path / "libraries").mkdir()
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if not path.name.startswith(("astra_sim", "_astra", "__editable__")) and path.suffix != ".pth":
            (tmp_path / "libraries" / path.name).symlink_to(path)
    places = [tmp_path / "installed", ROOT / "core" / "src", *(folder / "src" for folder in packages), tmp_path / "libraries"]
    code = f"import sys; sys.path[:0] = {[str(place) for place in places]}; from astra_sim.__main__ import main; main()"
    command = [sys.executable, "-S", "-c", code, "plugins", "check"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert done.stdout.count("\n") > 70
