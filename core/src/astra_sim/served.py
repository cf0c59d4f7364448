"""Programs that a warm process runs: `astra` and the drop-in programs, if `ASTRA_SERVER` names its socket.

`astra server COMMAND` (astra-sim-devkit) is that process. It has imported all of astra and forks for each program, which then needs no
start. A program sends its arguments, folder, environment and standard streams, passes on signals, and ends as its fork has ended. It runs
by itself, with the same output, if no server listens or its Python, path or locale is not the server's.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import signal
import sys
from typing import Any

SERVER = "ASTRA_SERVER"
"""The variable that names the socket of the server."""

REFUSED = 0
"""Answered instead of a process number: the program runs by itself."""

HEADER_BYTES = 4
_DESCRIPTOR_BYTES = 4
_MARSHAL_VERSION = 4
_LOCALE = ("LANG", "LC_", "PYTHON")
"""Beginnings of variables that act when Python starts."""

Request = tuple[str, list[str], list[str], str, int, dict[str, str]]
"""The request of a program to the server: identity, module, arguments, path of modules, folder, mask of new files, environment."""


def identity() -> list[Any]:
    """The properties that a program and its server must share: the Python, the path of modules but for the script's own, the locale."""
    acting = sorted((key, value) for key, value in os.environ.items() if key.startswith(_LOCALE))
    return [sys.version, sys.executable, sys.path[-_shared() :], acting]


def _shared() -> int:
    """The number of path entries that all programs of an installation share: without the script's folder, unless it is safe."""
    return len(sys.path) - (not sys.flags.safe_path)


def run_served(module: str) -> None:
    """Run the function `run_here` of a module in the server, with the arguments of this process, and end as it has ended.

    Returns if there is no server for it.
    """
    import _socket as sockets  # `socket` takes as long to import as all of this

    with contextlib.closing(sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)) as connection:
        try:
            child = _ask(connection, module)
        except (OSError, ValueError):
            return
        if child == REFUSED:
            return
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda number, _: _pass_on(child, number))
        status = connection.recv(HEADER_BYTES)
    _end_like(int.from_bytes(status, "big", signed=True) if status else 1)


def _ask(connection: Any, module: str) -> int:
    """Send the request, and receive the process number of the fork. Raises OSError, and ValueError if it cannot be sent."""
    import _socket as sockets

    connection.connect(os.environ[SERVER])
    os.umask(mask := os.umask(0))
    request: Request = (module, sys.argv, sys.path, os.getcwd(), mask, dict(os.environ))
    body = marshal.dumps((identity(), request), _MARSHAL_VERSION)
    streams = b"".join(number.to_bytes(_DESCRIPTOR_BYTES, sys.byteorder) for number in (0, 1, 2))
    header = len(body).to_bytes(HEADER_BYTES, "big")
    connection.sendmsg([header], [(sockets.SOL_SOCKET, sockets.SCM_RIGHTS, streams)])
    connection.sendall(body)
    return int.from_bytes(connection.recv(HEADER_BYTES), "big")


def _pass_on(child: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, number)


def request_of(body: bytes) -> tuple[list[Any], Request]:
    """The identity and the request that a program has sent."""
    sent: tuple[list[Any], Request] = marshal.loads(body)
    return sent


def _end_like(status: int) -> None:
    """End this process as the served program has ended: with its exit status, or by the signal that ended it."""
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)
