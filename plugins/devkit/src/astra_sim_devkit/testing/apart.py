"""Checks components in processes of their own, which can be ended: one that hangs, crashes or leaves Python does not stop the others."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import tempfile
import warnings
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import NamedTuple

from astra_sim.errors import AstraError
from astra_sim.providers import FileFormat, Provider, describe_exception

from astra_sim_devkit.testing.components import check_component


class CheckOutcome(NamedTuple):
    """Describe the error in a component, and why its contract was not run; None if it passed."""

    problem: str | None = None
    note: str | None = None


def check_apart(kind: str, component: Provider | FileFormat, timeout_s: float) -> CheckOutcome:
    """Check one component in a process of its own, which is ended after `timeout_s` seconds.

    If there is no fork, which inherits components registered by hand, it is checked in this process, without a limit of time.
    """
    if not hasattr(os, "fork"):
        return _outcome(kind, component)
    fork = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory(prefix="astra-check-") as folder:  # deleted by this process: the other may be killed
        answer, sender = fork.Pipe(duplex=False)
        process = fork.Process(target=_tell, args=(sender, kind, component, folder))
        try:
            with _delayed_interrupts(), warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of threads, which pytest-xdist has
                process.start()
            sender.close()
            if not answer.poll(timeout_s):
                return CheckOutcome(
                    f"the check of {kind} {component.name} has not ended after {timeout_s:g} s (--timeout); expected an end"
                )
            try:
                return CheckOutcome(*answer.recv())
            except EOFError:
                process.join()
                return CheckOutcome(f"the check of {kind} {component.name} ended its process: {_end_of(process.exitcode)}")
        finally:
            if process.pid is not None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)  # with its own children
                process.kill()
                process.join()


@contextlib.contextmanager
def _delayed_interrupts() -> Iterator[None]:
    """Let Ctrl-C wait until a process has a number, by which it can be ended: it would outlive this one, and hold its output open."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _outcome(kind: str, component: Provider | FileFormat) -> CheckOutcome:
    try:
        return CheckOutcome(None, check_component(kind, component) or None)
    except AstraError as error:
        return CheckOutcome(str(error))
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and not hasattr(os, "fork"):
            raise
        return CheckOutcome(describe_exception(error))


def _tell(channel: Connection, kind: str, component: Provider | FileFormat, folder: str) -> None:
    """Check a component, and send the outcome. Its output goes to standard error, so that the results stay readable."""
    os.setpgid(0, 0)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    with contextlib.suppress(OSError):
        os.dup2(2, 1)
    sys.stdout = sys.stderr
    tempfile.tempdir = folder
    channel.send(tuple(_outcome(kind, component)))
    channel.close()


def _end_of(code: int | None) -> str:
    """The exit of a process."""
    return f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit status {code}"
