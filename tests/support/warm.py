"""The command `astra` in processes of its own that start at once: each is forked from one that has imported what runs need.

`astra()` is the path of a program that does what `python -m astra_sim` does: arguments, folder, environment, streams, limits and status are
its own. It differs where a process ends by a signal, and in what Python itself reads when it starts. Tests of just that start Python.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import resource
import select
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, NoReturn

MODULES = (
    "astra_sim.api",
    "astra_sim.command.cli",
    "astra_sim.commands",
    "astra_sim.reports",
    "astra_sim.function_table",
    "astra_sim_collectives.plugin",
    "astra_sim_network_analytical.plugin",
    "astra_sim_systems.plugin",
    "astra_sim_systems.chunking",
    "csv",
    "tempfile",
    "importlib.resources",
)
PROGRAM = """#!{python} -IS
import json, os, resource, socket, sys
limits = [(each, resource.getrlimit(each)) for each in (resource.RLIMIT_CPU, resource.RLIMIT_FSIZE, resource.RLIMIT_AS)]
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    asked = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ), limits]).encode()
    socket.send_fds(server, [len(asked).to_bytes(8, "big")], [0, 1, 2])
    server.sendall(asked)
    status = server.recv(1)
sys.exit(status[0] if status else "the process has ended without a status")
"""


@functools.cache
def astra() -> str:
    """The path of the program. The process from which others are forked lives as long as this one."""
    folder = Path(tempfile.mkdtemp(prefix="astra-warm-"))
    address = folder / "socket"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    tests = str(Path(__file__).parents[1])
    environment["PYTHONPATH"] = tests
    command = [sys.executable, "-m", "support.warm", str(address)]  # it has the folder in which it starts on its path
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd=tests)
    assert server.stdin is not None
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    program = folder / "astra"
    program.write_text(PROGRAM.format(python=sys.executable, address=str(address)))
    program.chmod(0o755)

    def end() -> None:
        server.communicate()
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()

    atexit.register(end)
    return str(program)


def serve(address: str) -> None:
    """Fork a process for each that asks, until the standard input ends."""
    for module in MODULES:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen(64)
        print("ready", flush=True)
        while True:
            ready = select.select([listening, sys.stdin], [], [], 1.0)[0]
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            if sys.stdin in ready:
                return
            if listening in ready:
                asking = listening.accept()[0]
                if os.fork() == 0:
                    listening.close()
                    _answer(asking)
                asking.close()


def _answer(asking: socket.socket) -> NoReturn:
    """Run the command that is asked for, and end."""
    head, streams, _, _ = socket.recv_fds(asking, 8, 3)
    size = int.from_bytes(head, "big")
    text = b""
    while len(text) < size:
        text += asking.recv(size - len(text))
    arguments, folder, environment, limits = json.loads(text)
    asking.set_inheritable(False)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    encoding = environment.get("PYTHONIOENCODING") or "utf-8"
    sys.stdin = os.fdopen(0, encoding=encoding, closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding=encoding, closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding=encoding, errors="backslashreplace", closefd=False)
    sys.path[:] = [each for each in sys.path if each != os.fspath(Path(__file__).parents[1])]
    sys.path[:0] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    sys.argv = ["astra", *arguments]
    for kind, (soft, hard) in limits:
        resource.setrlimit(kind, (soft, hard))
    importlib.invalidate_caches()
    status = _status()
    with contextlib.suppress(OSError):
        asking.send(bytes([status & 255]))
    os._exit(status)


def _status() -> int:
    """The status of the command, as Python would end with it."""
    from astra_sim import __main__ as command

    sys.modules["__main__"] = command  # which processes of multiprocessing import again
    code: Any = None
    try:
        command.main()
    except SystemExit as end:
        code = end.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    if isinstance(code, str):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            code = code or 120
    return int(code or 0)


if __name__ == "__main__":
    serve(sys.argv[1])
