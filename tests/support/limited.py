"""Commands in processes of their own, each with a limit of time and memory: forked from one that has imported everything."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pkgutil
import resource
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

SECONDS = 20
"""Processor time that a command may take."""
BYTES = 1 << 30
"""The memory that it may take beyond that of the imports."""


class Ended(NamedTuple):
    """What became of a command; the status of one that a signal ended is negative."""

    status: int
    out: str
    errors: str

    @property
    def fault(self) -> str | None:
        """What a user should never see, if this is: a traceback, an internal error, the end of time or memory."""
        last = self.errors.strip().rpartition("\n")[2]
        if self.status < 0:
            return f"ended by signal {-self.status} (time, memory or a crash)"
        if "Traceback" in self.errors or "ASTRA_TRACEBACK" in self.errors or "more memory" in self.errors:
            return self.errors[-400:]
        return None if self.status in (0, 1) or "rror: " in last else f"status {self.status}: {last}"


@cache
def _server() -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "150"}
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, __file__], stdin=pipe, stdout=pipe, text=True, env=environment)


def ended(folder: Path, *arguments: str, memory: int = BYTES) -> Ended:
    """Run `astra` in a folder, with a limit of memory (bytes) beyond that of the imports."""
    if not hasattr(os, "fork"):
        pytest.skip("no processes to fork here")
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    print(json.dumps([str(folder), arguments, memory]), file=server.stdin, flush=True)
    return Ended(*json.loads(server.stdout.readline()))


def _import_everything() -> None:
    for package in ("astra_sim", *sorted(each.name for each in pkgutil.iter_modules() if each.name.startswith("astra_sim_"))):
        with contextlib.suppress(ImportError):
            import_module = importlib.import_module(package)
            for module in pkgutil.walk_packages(import_module.__path__, f"{package}."):
                if not module.name.endswith("__main__") and ".testing" not in module.name and "templates" not in module.name:
                    with contextlib.suppress(ImportError):
                        importlib.import_module(module.name)


def _in_child(folder: str, arguments: Sequence[str], most: int) -> Any:
    """The command, in the process that has been forked for it."""
    os.chdir(folder)
    for number, name in ((1, ".out"), (2, ".err")):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    sys.argv = ["astra", *arguments]
    from astra_sim.command.cli import main

    main()


def _serve() -> None:
    _import_everything()
    own = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() if os.path.exists("/proc/self/statm") else 1 << 32
    for line in sys.stdin:
        folder, arguments, memory = json.loads(line)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                _in_child(folder, arguments, own + memory)
                status = 0
            except SystemExit as stop:
                status = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
            finally:
                with contextlib.suppress(Exception):
                    sys.stdout.flush()
                    sys.stderr.flush()
                os._exit(status)
        _, how = os.waitpid(child, 0)
        result = [Path(folder, name).read_text(errors="replace") for name in (".out", ".err")]
        print(json.dumps([os.waitstatus_to_exitcode(how), *result]), flush=True)


if __name__ == "__main__":
    _serve()
