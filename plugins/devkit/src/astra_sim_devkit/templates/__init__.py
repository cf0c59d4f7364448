"""New plugin packages: `astra plugins new` writes one from the files of this folder.

Every kind has a folder; `package/` is for all of them, `python/` for packages without compiled parts. A file `NAME.txt` becomes `NAME`
at the same path, in which PACKAGE, TEST, TESTS and DOT are replaced. In its text `@@{word}` represents a word of `Package.words`.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import keyword
import re
import string
from collections.abc import Mapping
from pathlib import Path

import attrs
from astra_sim.commands import Plugins
from astra_sim.errors import InputError, suggestion
from astra_sim.files import FileSet
from astra_sim.function_table import get_include

FOLDER = Path(__file__).parent
HEADER = Path("include/astra_sim/network.h")
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_LONGEST_NAME = 60
_RUN = ("network-analytical", "systems", "collectives", "training-loops", "memory", "compute-recorded")
_EXAMPLE = "astra example.toml"
_ALL_REDUCE = "--workload 'plugin:collective?bytes=1000000'"
_SWITCH = "--platform 'plugin:switch?size=8&link_bandwidth_gb_per_s=50'"
_WHEEL = "`pip wheel --no-deps --wheel-dir dist .` builds the wheel."
_COMPILED = """
`network.cpp` fills the table of C functions that `include/astra_sim/network.h` declares. This header is a copy of that
of `astra-sim-core`, so that the package is built without astra. The table carries the version of the header, and a
kernel says so if it does not know that version. After a change of C++ install the package again."""


@attrs.frozen
class Kind:
    """A kind of package: its component, in the words of `KINDS` and of people, the example, and its use.

    `needs` are packages of astra that its example and tests need beside those of an ordinary run.
    """

    component: str
    words: str
    about: str
    use: tuple[str, ...]
    folders: tuple[str, ...] = ("package", "python")
    develop: str = ""
    needs: tuple[str, ...] = ()


KINDS: Mapping[str, Kind] = {
    "collective": Kind(
        "collective",
        "collective algorithm",
        "one other rank after another",
        (_EXAMPLE, f"{_EXAMPLE} --set 'system.all_reduce=@@{{name}}?window=3'"),
    ),
    "scheduler": Kind(
        "scheduler",
        "order of queues",
        "largest phase first",
        (_EXAMPLE, f"{_EXAMPLE} --set 'system.intra_dimension_scheduling=@@{{name}}?by=remaining'"),
    ),
    "training-loop": Kind(
        "training_loop",
        "training loop",
        "data parallel, with or without overlap",
        (_EXAMPLE, f"{_EXAMPLE} --set workload.loop_options.overlap=false"),
    ),
    "workload": Kind(
        "workload",
        "workload",
        "steps that compute and then all-reduce",
        (_EXAMPLE, f"astra --workload 'plugin:@@{{name}}?steps=8' {_SWITCH}"),
    ),
    "system": Kind(
        "system",
        "system layer",
        "equal chunks, through all dimensions in order",
        (f"{_EXAMPLE} --set system.splits=4", f"astra --system 'plugin:@@{{name}}?splits=4' {_SWITCH} {_ALL_REDUCE}"),
    ),
    "platform": Kind(
        "platform",
        "topology",
        "a ring with chords",
        (_EXAMPLE, f"{_EXAMPLE} --set platform.chord=5 --network 'plugin:analytical?congestion=aware'"),
    ),
    "network": Kind(
        "network",
        "network",
        "every NPU sends one message at a time",
        (_EXAMPLE, f"astra --network 'plugin:@@{{name}}?latency_ns=100' {_SWITCH} {_ALL_REDUCE}"),
    ),
    "network-cpp": Kind(
        "network",
        "network",
        "all messages share one bus, in C++",
        (_EXAMPLE, f"astra --network 'plugin:@@{{name}}?latency_ns=100' {_SWITCH} {_ALL_REDUCE}"),
        folders=("package",),
        develop=_COMPILED,
    ),
    "compute": Kind(
        "compute",
        "compute model",
        "a rate of operations and a time to launch",
        (_EXAMPLE, f"{_EXAMPLE} --compute 'plugin:@@{{name}}?tera_ops_per_s=200'"),
    ),
    "memory": Kind(
        "memory",
        "memory model",
        "local memory and a pool for all NPUs",
        (_EXAMPLE, f"{_EXAMPLE} --memory 'plugin:@@{{name}}?pool_bandwidth_gb_per_s=200'"),
    ),
    "format": Kind("format", "file format", "layers as CSV", (f"astra --workload example.csv {_SWITCH}",)),
    "report": Kind("report", "report", "times of runs as CSV", (f"{_EXAMPLE} --report '@@{{name}}?unit=ns' --output out",)),
    "serving-policy": Kind(
        "serving_policy",
        "serving policy",
        "the newest request first, prompts in chunks",
        ("astra serve example.toml", "astra serve example.toml --set 'serving.engine=@@{name}?chunk_tokens=32'"),
        needs=("serving", "compute-roofline"),
    ),
    "command": Kind("command", "command", "the links of a platform", (f"astra @@{{name}} {_SWITCH}", f"astra @@{{name}} {_SWITCH} --json")),
}
"""The files that `astra plugins new` writes."""


class _Text(string.Template):
    delimiter = "@@"


@attrs.frozen
class Package:
    """A package to be: its kind, a key of `KINDS`, and the name of its component."""

    kind: str
    name: str

    @property
    def distribution(self) -> str:
        """The name under which pip knows it."""
        return f"astra-sim-{self.name.replace('_', '-')}"

    @property
    def package(self) -> str:
        """The name under which Python imports it."""
        return f"astra_sim_{self.name}"

    def words(self) -> dict[str, str]:
        """The placeholders in its files."""
        kind = KINDS[self.kind]
        words = {
            "name": self.name,
            "distribution": self.distribution,
            "package": self.package,
            "words": kind.words,
            "article": "an" if kind.words[0] in "aeiou" else "a",
            "Words": kind.words[:1].upper() + kind.words[1:],
            "about": kind.about,
            "year": str(datetime.datetime.now(tz=datetime.UTC).year),
            "dependencies": _listed(kernel_range(importlib.metadata.version("astra-sim-core")), "attrs>=23.2"),
            "test_dependencies": ",\n    ".join(
                f'"{name}"' for name in ("pytest>=8.2", *(f"astra-sim-{name}" for name in (*_RUN, *kind.needs)))
            ),
        }
        use = "\n".join(f"    {_Text(command).substitute(words)}" for command in kind.use)
        return {**words, "use": use, "develop": f"{_WHEEL}\n{kind.develop}".rstrip()}

    def files(self) -> dict[str, str]:
        """The texts of its files, by path from its folder."""
        words = self.words()
        texts = {}
        for folder in (*KINDS[self.kind].folders, self.kind):
            base = FOLDER / folder
            for path in sorted(base.rglob("*.txt")):
                texts[self._place(path.relative_to(base))] = _Text(path.read_text(encoding="utf-8")).substitute(words)
        if "CMakeLists.txt" in texts:
            texts[HEADER.as_posix()] = Path(get_include(), *HEADER.parts[1:]).read_text(encoding="utf-8")
        return dict(sorted(texts.items()))

    def _place(self, path: Path) -> str:
        """The destination of a file."""
        place = path.as_posix().removesuffix(".txt").replace("PACKAGE", self.package)
        return place.replace("TESTS", "tests").replace("TEST", f"test_{self.name}").replace("DOT", ".")

    def write(self, folder: Path) -> list[str]:
        """Write its files into a new folder, all or none, and return their paths from there. Raises InputError if it exists."""
        if folder.exists() or folder.is_symlink():
            raise InputError(f"{folder} exists; expected the name of a new folder (--output DIR)")
        files = self.files()
        with FileSet() as written:
            for parent in sorted({(folder / path).parent for path in files}):
                written.make_folder(parent)
            for path, text in files.items():
                written.write(folder / path, [text])
        return list(files)


def new_package(kind: str, name: str, plugins: Plugins) -> Package:
    """The package of a kind and name. Raises InputError if there is no such kind, or the name cannot be that of a new component."""
    if kind not in KINDS:
        raise InputError(f"KIND is {kind!r}; {suggestion(kind, KINDS)}")
    if not _NAME.fullmatch(name) or keyword.iskeyword(name) or len(name) > _LONGEST_NAME:
        fitting = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_0123456789")[:_LONGEST_NAME]
        hint = f", such as {fitting}" if _NAME.fullmatch(fitting) and not keyword.iskeyword(fitting) else ""
        expected = f"expected at most {_LONGEST_NAME} small letters, digits and single _ between them, a letter first"
        raise InputError(f"NAME is {name!r}; {expected}, and no word of Python{hint}")
    package = Package(kind, name)
    if package.distribution in {*Plugins.OWN_DISTRIBUTIONS, "astra-sim-core"}:
        raise InputError(f"NAME is {name!r}, and {package.distribution} is a package of astra; expected another name")
    component = KINDS[kind].component
    if name in plugins.components(component):
        owner = plugins.owner(component, name)
        raise InputError(f"NAME is {name!r}, and plugin {owner} offers a {KINDS[kind].words} of that name; expected another one")
    return package


def kernel_range(version: str) -> str:
    """The requirement of a package written for a kernel: its series X.Y and the next (docs/plugins.md#what-stays-compatible)."""
    major, minor = (int(number) for number in version.split(".")[:2])
    first = f"{major}.{minor}.0.dev0" if re.search(r"(a|b|rc|\.dev)\d", version) else f"{major}.{minor}"
    return f"astra-sim-core>={first},<{major}.{minor + 2}"


def _listed(*names: str) -> str:
    return ", ".join(f'"{name}"' for name in names)
