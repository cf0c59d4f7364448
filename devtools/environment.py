"""Virtual environments of this checkout: the packages, editable, and the tools to develop them."""

from __future__ import annotations

import json
import os
import sys
import sysconfig
from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NoReturn

from devtools.workspace import (
    ROOT,
    build_requirements,
    compiled_bytes,
    fingerprint,
    in_parallel,
    is_compiled,
    members,
    requirements_of,
    run_quietly,
    separate,
    toml_of,
)

TOOLS = "development tools"
BUILD_TOOLS = "build tools"
OTHERS = "programs of others"
LIBRARIES = "libraries of ns-3"
SITE = "tools of the site"
_NO_PACKAGES = TOOLS, BUILD_TOOLS, OTHERS, LIBRARIES, SITE


@dataclass(frozen=True)
class Environment:
    """A virtual environment in a folder; its packages are built with these options of pip."""

    folder: Path = ROOT / ".venv"
    build_options: tuple[str, ...] = ()

    @property
    def python(self) -> Path:
        """Its Python."""
        return self.folder / "bin" / "python"

    def install(
        self,
        tools: bool = False,
        others: bool = False,
        apart: bool = False,
        docs: bool = False,
        later: Container[str] = (),
    ) -> None:
        """Bring it up to date: the packages, and if asked for the development tools, programs of others, packages built apart, and
        what builds the documentation site.

        What is built apart stays, and up to date, once it is there. Packages named in `later` are left out until they are installed
        by another call. Raises Failure.
        """
        installed = self._read_stamp()
        apart = apart or LIBRARIES in installed
        folders = {toml_of(member)["project"]["name"]: member for member in (*members(), *(separate() if apart else ()))}
        folders = {name: folder for name, folder in folders.items() if name not in later or installed.get(name)}
        groups = toml_of(ROOT)["dependency-groups"]
        chosen = {TOOLS: ("dev", tools), OTHERS: ("interop", others), SITE: ("docs", docs)}
        requirements = {BUILD_TOOLS: build_requirements(), **{name: groups[group] for name, (group, is_on) in chosen.items() if is_on}}
        alone = {LIBRARIES: groups["ns3"]} if apart else {}
        wanted = {name: fingerprint(member) for name, member in folders.items()}
        wanted |= {name: json.dumps(listed) for name, listed in (alone | requirements).items()}
        self.make()
        installed = self._read_stamp()
        changed = [name for name in wanted if installed.get(name) != wanted[name]]
        gone = [name for name in installed if name not in folders and name not in _NO_PACKAGES]
        if not changed and not gone:
            return
        # An installation that is broken off counts for nothing, but what it may have put there is not forgotten.
        installed.update(dict.fromkeys(changed + gone, ""))
        self._write_stamp(installed)
        self._change(gone, {name: requirements[name] for name in requirements if name in changed}, alone if LIBRARIES in changed else {})
        self._install_packages({name: folder for name, folder in folders.items() if name in changed})
        self._write_stamp({name: state for name, state in {**installed, **wanted}.items() if name not in gone})

    def has(self, package: str) -> bool:
        """Whether a package was installed, in whatever state."""
        return bool(self._read_stamp().get(package))

    def _change(self, gone: Sequence[str], requirements: dict[str, list[str]], alone: dict[str, list[str]]) -> None:
        """Uninstall what is gone, and install requirements together, and others alone, without what they need. Raises Failure."""
        if gone:
            run_quietly("uninstalling " + ", ".join(gone), self.python, "-m", "pip", "uninstall", "--yes", *gone)
        # Packages are built with what is in the environment: first the tools.
        listed = [requirement for needed in requirements.values() for requirement in needed]
        if listed:
            run_quietly("installing " + " and ".join(requirements), *self._pip_install, *listed)
        for name, needed in alone.items():
            run_quietly(f"installing {name}", *self._pip_install, "--no-deps", *needed)

    @property
    def _pip_install(self) -> tuple[str | Path, ...]:
        """The command that installs. Modules are compiled when they are first imported, but where Python would not keep the bytecode."""
        return (self.python, "-m", "pip", "install", *(() if sys.dont_write_bytecode else ("--no-compile",)))

    def _install_packages(self, folders: dict[str, Path]) -> None:
        """Install packages, editable, with what they need of others: as much at a time as there are processors.

        Compiled ones come last: the kernel has the headers that they include. Raises Failure.
        """
        if not folders:
            return
        options = ("--no-deps", "--no-build-isolation", *self.build_options)

        def install(*names: str, further: Sequence[str] = ()) -> None:
            arguments = [argument for name in names for argument in ("--editable", folders[name])]
            run_quietly("installing " + ", ".join(names), *self._pip_install, *options, *further, *arguments)

        compiled = sorted((name for name in folders if is_compiled(folders[name])), key=lambda name: -compiled_bytes(folders[name]))
        plain = [name for name in folders if name not in compiled]
        linked: tuple[str, ...] = ()

        def build_nanobind() -> None:
            nonlocal linked
            linked = self._shared_nanobind()

        def install_plain() -> None:
            if needed := requirements_of(folders.values()):
                run_quietly("installing what the packages need", *self._pip_install, *needed)
            if plain:
                install(*plain)

        in_parallel([*([build_nanobind] if compiled else []), install_plain])
        in_parallel([partial(install, name, further=linked) for name in compiled])

    def _shared_nanobind(self) -> tuple[str, ...]:
        """Build nanobind's runtime, once for this environment. Returns the options of pip with which packages link it. Raises Failure.

        Such builds have folders of their own: one without these options may be made anywhere, at any time.
        """
        build = self.folder / "nanobind"
        cmake = self.folder / "bin" / "cmake"
        settings = ("-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", f"-DPython_EXECUTABLE={self.python}")
        ninja = f"-DCMAKE_MAKE_PROGRAM={self.folder / 'bin' / 'ninja'}"
        run_quietly("preparing nanobind", cmake, "-S", ROOT / "devtools" / "nanobind", "-B", build, *settings, ninja)
        run_quietly("building nanobind, once for all packages", cmake, "--build", build)
        return self.linked()

    def linked(self) -> tuple[str, ...]:
        """The options of pip with which packages link the nanobind of this environment; none where it has none.

        Written out, since pip 23.0 (Python 3.11 of Debian 12) does not know -C.
        """
        build = self.folder / "nanobind"
        if not (build / "packages.cmake").exists():
            return ()
        named = any("build-dir" in option for option in self.build_options)
        folder = () if named else ("--config-settings=build-dir=build/development/{wheel_tag}",)
        return (f"--config-settings=cmake.define.CMAKE_PROJECT_INCLUDE={build / 'packages.cmake'}", *folder)

    def make(self) -> None:
        """Create it, or create it anew where it is incomplete or of another Python version. Raises Failure."""
        packages = sysconfig.get_path("purelib", "venv", {"base": str(self.folder)})
        if not self.python.exists() or not os.path.exists(os.path.join(packages, "pip", "__main__.py")):
            python = f"{sys.version_info.major}.{sys.version_info.minor}"
            run_quietly(f"creating {self.folder} with Python {python}", sys.executable, "-m", "venv", "--clear", self.folder)

    def install_builders(self) -> None:
        """Install what builds source distributions, and nothing else. Raises Failure."""
        run_quietly("installing what builds packages", *self._pip_install, "build>=1.2", *build_requirements())

    def variables(self) -> dict[str, str]:
        """The environment variables of a command: as if it were activated. Its processes keep compiled modules, as they do for users.

        Where the shell says otherwise (PYTHONDONTWRITEBYTECODE, as containers do), every process would compile all it imports again.
        """
        variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONHOME", "PYTHONDONTWRITEBYTECODE")}
        variables["VIRTUAL_ENV"] = str(self.folder)
        variables["PATH"] = os.pathsep.join([str(self.folder / "bin"), os.environ.get("PATH", os.defpath)])
        return variables

    def become(self, *command: str | Path) -> NoReturn:
        """Replace the process by another program, which so gets the terminal, the signals and the exit status."""
        sys.stdout.flush()
        sys.stderr.flush()
        os.execve(command[0], command, self.variables())

    @property
    def _stamp(self) -> Path:
        return self.folder / "astra-dev.json"

    def _read_stamp(self) -> dict[str, str]:
        """What is installed: names and fingerprints."""
        try:
            stamp = json.loads(self._stamp.read_text())
        except (OSError, ValueError):
            return {}
        return stamp if isinstance(stamp, dict) else {}

    def _write_stamp(self, installed: dict[str, str]) -> None:
        self._stamp.write_text(json.dumps(installed, indent=2) + "\n")
