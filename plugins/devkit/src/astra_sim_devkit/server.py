"""The command `astra server`: a warm process that runs the programs of a script, each in a fork of its own."""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import attrs
import click
from astra_sim.errors import InputError
from astra_sim.served import HEADER_BYTES, REFUSED, SERVER, Request, identity, request_of

_PROGRAMS = ("astra_sim.__main__", "astra_sim_compat.__main__")
"""Modules whose function `run_here` is a program."""

_IMPORTED_FIRST = ("astra_sim.command.cli", "astra_sim.api", "astra_sim.report.tables")
_LARGEST_NAMES = 60_000
"""Bytes of names of modules that a fork sends: the capacity of a pipe, so that it never waits."""


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def server(command: tuple[str, ...]) -> None:
    """Run COMMAND, a script or a shell, with a warm process for all its runs of astra.

    \b
    astra server ./many_runs.sh
    astra server bash

    Within COMMAND, `astra` and the programs of `astra compat install` print and write the same, without the time that a start takes: the
    server has imported their modules and forks for each. It ends with COMMAND, whose exit status is its own. Limits of resources are
    those of the server, and a change of installed packages counts for the next server.
    """
    if not hasattr(os, "fork"):
        raise InputError("astra server needs a system with fork, such as Linux or macOS")
    with _folder() as folder, socket.socket(socket.AF_UNIX) as listener:
        path = os.path.join(folder, "server")
        listener.bind(path)
        listener.listen(socket.SOMAXCONN)
        try:
            script = subprocess.Popen(command, stdout=sys.stdout.fileno(), env=os.environ | {SERVER: path})
        except OSError as error:
            raise InputError(f"{command[0]}: {error.strerror}") from error
        status = Server(listener, script).serve()
    sys.exit(128 - status if status < 0 else status)


@contextlib.contextmanager
def _folder() -> Iterator[str]:
    """A folder that only this user may enter. It is not a TemporaryDirectory, which a fork would remove when it ends."""
    path = tempfile.mkdtemp(prefix="astra-")
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@attrs.define(eq=False)
class _ServedRun:
    """A program that runs in a fork: the connection to who asked for it, and the names of modules that the fork imports."""

    connection: socket.socket
    names: io.FileIO


class Server:
    """Forks for the programs that a script starts, until the script has ended and they have, too."""

    def __init__(self, listener: socket.socket, script: subprocess.Popen[bytes]) -> None:
        self._listener, self._script = listener, script
        self._runs: dict[int, _ServedRun] = {}
        self._selector = selectors.DefaultSelector()
        self._identity = identity()
        self._wakeup, self._woken = socket.socketpair()

    def serve(self) -> int:
        """Serve. The return code of the script, negative for a signal."""
        for each in (self._wakeup, self._woken):
            each.setblocking(False)
        signal.set_wakeup_fd(self._woken.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, lambda *_: None)  # the script's, which decides whether it ends
        signal.signal(signal.SIGTERM, lambda *_: self._script.terminate())
        self._selector.register(self._wakeup, selectors.EVENT_READ)
        self._selector.register(self._listener, selectors.EVENT_READ)
        _import_first()
        while self._script.poll() is None or self._runs:
            for key, _ in self._selector.select():
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj is self._wakeup:
                    self._wakeup.recv(4096)
                    self._collect()
                else:
                    self._stop(key.fileobj)
        return int(self._script.returncode)

    def _accept(self) -> None:
        """Fork for a program, or refuse it."""
        connection, _ = self._listener.accept()
        streams: list[int] = []
        try:
            header, streams, _, _ = socket.recv_fds(connection, HEADER_BYTES, 3)
            sent, request = request_of(_received(connection, int.from_bytes(header, "big")))
        except (OSError, ValueError, EOFError, TypeError):
            connection.close()
            request = None
        if request is not None and (sent != self._identity or len(streams) != 3 or request[0] not in _PROGRAMS):
            connection.sendall(REFUSED.to_bytes(HEADER_BYTES, "big"))
            connection.close()
        elif request is not None:
            self._fork(connection, streams, request)
        for stream in streams:
            os.close(stream)

    def _fork(self, connection: socket.socket, streams: Sequence[int], request: Request) -> None:
        """Start the program in a fork, and tell its caller the number of the process."""
        readable, writable = os.pipe()
        gc.freeze()  # present objects stay shared between the processes
        child = os.fork()
        if child == 0:
            self._leave_to_child()
            connection.close()
            os.close(readable)
            _run(streams, request, writable)
        os.close(writable)
        self._runs[child] = _ServedRun(connection, io.FileIO(readable))
        with contextlib.suppress(OSError):
            connection.sendall(child.to_bytes(HEADER_BYTES, "big"))
        self._selector.register(connection, selectors.EVENT_READ, child)

    def _leave_to_child(self) -> None:
        """Close, in a fork, the server's sockets: one that stays open there would keep others waiting."""
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        self._selector.close()
        for each in (self._listener, self._wakeup, self._woken, *(run.connection for run in self._runs.values())):
            each.close()
        for run in self._runs.values():
            run.names.close()

    def _collect(self) -> None:
        """Report programs that have ended, and import the modules they had to import."""
        for child in [*self._runs]:
            ended, status = os.waitpid(child, os.WNOHANG)
            if not ended:
                continue
            run = self._runs.pop(child)
            code = os.waitstatus_to_exitcode(status)
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(run.connection)
            with contextlib.suppress(OSError):
                run.connection.sendall(code.to_bytes(HEADER_BYTES, "big", signed=True))
            run.connection.close()
            with run.names as names:
                _import(names.read().decode().split())

    def _stop(self, connection: Any) -> None:
        """End a program whose caller is gone."""
        child = self._selector.unregister(connection).data
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGTERM)


def _received(connection: socket.socket, size: int) -> bytes:
    """So many bytes. Raises EOFError if the caller ends before."""
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)


def _import_first() -> None:
    """Import the modules that all runs need, and the plugins."""
    from astra_sim.commands import shared_plugins

    shared_plugins().infos()
    _import(_IMPORTED_FIRST)


def _import(names: Sequence[str]) -> None:
    """Import modules, as far as that is possible. A program that needs one of the others reports its error."""
    for name in names:
        with contextlib.suppress(Exception):
            importlib.import_module(name)


def _run(streams: Sequence[int], request: Request, names: int) -> NoReturn:
    """Be the program that is asked for, to its end."""
    module, sys.argv, sys.path[:], folder, mask, environment = request
    status: Any = 1
    before = set(sys.modules)
    try:
        os.setsid()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        sys.stdin, sys.stdout, sys.stderr = (_stream(*each) for each in ((0, sys.__stdin__), (1, sys.__stdout__), (2, sys.__stderr__)))
        os.umask(mask)
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder)
        importlib.import_module(module).run_here()
        status = 0
    except SystemExit as end:
        status = end.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        _end(status, sorted(_of_astra(set(sys.modules) - before)), names)


def _stream(number: int, like: Any) -> Any:
    """A standard stream as Python opens it, on the file that has its number now."""
    mode = "r" if number == 0 else "w"
    encoding, errors = (like.encoding, like.errors) if like is not None else ("utf-8", "strict")
    buffering = 1 if os.isatty(number) or number == 2 else -1
    return open(number, mode, buffering, encoding, errors, closefd=False)


def _of_astra(names: set[str]) -> Iterator[str]:
    return (name for name in names if name.partition(".")[0].startswith("astra_sim"))


def _end(status: Any, modules: Sequence[str], names: int) -> NoReturn:
    """End a fork: streams are written, and the server gets the imported modules. atexit handlers run."""
    import atexit

    if isinstance(status, str):
        print(status, file=sys.stderr)
    with contextlib.suppress(Exception):
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os.write(names, " ".join(modules).encode()[:_LARGEST_NAMES])
    os._exit((status if isinstance(status, int) else bool(status)) & 0xFF)
