"""The list of astra's own components, by package: python3 dev.py components writes it into the kernel.

The kernel says by it what to install for a component that is not there. It is made of what the installed packages of this checkout offer.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from astra_sim.setup.known_components import known_components
from astra_sim.setup.plugins import Plugins

from devtools.workspace import ROOT, members, separate, toml_of

FILE = ROOT / "core" / "src" / "astra_sim" / "setup" / "shipped.txt"
_FOUND_BY_CONTENT = "format"


def shipped(plugins: Plugins) -> set[tuple[str, str, str]]:
    """Package, kind and name of each component of this checkout's packages; of a package that offers nothing now, those that it had."""
    ours = {toml_of(folder)["project"]["name"] for folder in (*members(), *separate())}
    package_of = {info.name: info.distribution for info in plugins.infos()}
    result = {
        (package, kind, component.name)
        for kind, component in plugins.every_component()
        if kind != _FOUND_BY_CONTENT and (package := package_of[plugins.owner(kind, component.name)]) in ours
    }
    silent = ours - {package for package, _, _ in result}  # one that is built only where another program is
    return result | {entry for entry in known_components() if entry[0] in silent}


def text_of(components: Iterable[tuple[str, str, str]]) -> str:
    """The text of the file."""
    return "".join(f"{' '.join(entry)}\n" for entry in sorted(components))


def write(file: Path = FILE) -> None:
    """Write the file."""
    file.write_text(text_of(shipped(Plugins())), encoding="utf-8")


if __name__ == "__main__":
    write()
