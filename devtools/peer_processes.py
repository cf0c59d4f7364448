"""Other programs that benchmarks run beside astra: what a process takes, and why it gives no answer."""

from __future__ import annotations

import resource
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

LIMIT_S = 600.0
"""A process that is not at its end after this is killed."""


class NoAnswer(Exception):
    """Why a program gave no answer, in a few words, and what it printed."""

    def __init__(self, reason: str, printed: str = "") -> None:
        super().__init__(f"{reason}\n{printed[-2000:]}")
        self.reason = reason


def used(command: Sequence[str], folder: Path, status: int = 0) -> tuple[float, str]:
    """CPU seconds of a process, and what it printed. Raises NoAnswer if it does not end with a status."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with (folder / "printed").open("w+", encoding="utf-8", errors="replace") as printed:  # a pipe is open as long as any process has it
        try:
            ended = subprocess.run(command, check=False, stdout=printed, stderr=subprocess.STDOUT, cwd=folder, timeout=LIMIT_S).returncode
        except OSError as error:
            raise NoAnswer(f"not started: {error.strerror}") from None
        except subprocess.TimeoutExpired:
            raise NoAnswer(f"no end in {LIMIT_S:g} s", _text(printed)) from None
        text = _text(printed)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if ended != status:
        raise NoAnswer(f"ended by {signal.Signals(-ended).name}" if ended < 0 else f"ended with status {ended}", text)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, text


def _text(printed: TextIO) -> str:
    printed.seek(0)
    return printed.read()
