"""A worker: a process that runs points and sends back the outcome of each.

It is a program of its own, and no fork: a plugin that crashes or hangs ends nothing but it, a script that sweeps needs no guard for being
imported again, and it may be started by a process of Dask, which may not have children of `multiprocessing`.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from multiprocessing.connection import Connection
from socket import socketpair
from typing import Any

from astra_sim import AstraError
from astra_sim.processors import share_processors

READY = "ready"


class Worker:
    """A worker process, from its parent's side. `connection` becomes ready when it has sent something, or has ended."""

    def __init__(self) -> None:
        ours, theirs = socketpair()
        with theirs:
            number = theirs.fileno()
            command = [sys.executable, "-c", f"from {__name__} import main; main({number})"]
            # A process group of its own: Ctrl-C is for the parent, which ends this process, from its first moment on.
            self.process = subprocess.Popen(command, pass_fds=[number], stdin=subprocess.DEVNULL, process_group=0)
        self.connection = Connection(ours.detach())

    def send(self, plan: bytes | None, numbers: Sequence[int]) -> None:
        """Have points run, of a packed plan if it is another one than before. OSError: the worker has ended."""
        self.connection.send((plan, list(numbers)))

    def receive(self) -> Any:
        """Its next message: READY, an Outcome, or an AstraError with which it ends. EOFError or OSError: it has ended."""
        return self.connection.recv()

    def end(self) -> None:
        """End it, whatever it does."""
        with contextlib.suppress(OSError):
            self.connection.close()
        self.process.kill()
        self.process.wait()

    def why(self) -> str:
        """Describe its end."""
        try:
            status = self.process.wait(5)
        except subprocess.TimeoutExpired:
            return "the worker process closed its connection"
        if status >= 0:
            return f"the worker process ended with status {status}"
        try:
            return f"the worker process was ended by {signal.Signals(-status).name}"
        except ValueError:
            return f"the worker process was ended by signal {-status}"


def main(number: int) -> None:
    """Run points received over the connection of that file descriptor until it is closed, as the parent has ended; then end at once."""
    connection = Connection(number)
    os.set_inheritable(number, False)
    share_processors()
    # Output of plugins must not go to the connection's parent, whose standard output may be a table.
    os.dup2(2, 1)
    tasks: queue.SimpleQueue[tuple[bytes | None, list[int]]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(connection, tasks), daemon=True).start()
    try:
        _serve(connection, tasks)
    except AstraError as error:
        connection.send(error)
    except OSError:
        return  # the parent has ended


def _listen(connection: Connection, tasks: queue.SimpleQueue[tuple[bytes | None, list[int]]]) -> None:
    try:
        while True:
            tasks.put(connection.recv())
    except (EOFError, OSError):
        os._exit(1)


def _serve(connection: Connection, tasks: queue.SimpleQueue[tuple[bytes | None, list[int]]]) -> None:
    """Run received points, and send each outcome as soon as it is there: so the parent knows the current one."""
    from astra_sim_sweep.outcomes import run_points
    from astra_sim_sweep.packing import unpacked

    plan: Any = None
    while True:
        data, numbers = tasks.get()
        if data is not None:
            plan = unpacked(data)
            connection.send(READY)
        for outcome in run_points(plan, numbers):
            connection.send(outcome)
