"""The events of a recording, in the order in which the host issued them, and the file that they are written to."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

FORMAT, VERSION = "astra torch capture", 2

Event = dict[str, Any]

_IDLE = ("wait", "allocate", "free")
"""Events of steps in which nothing is done."""


class TorchEvents:
    """The events of each step of a script: a step ends with the step of an optimizer.

    `notes` say what is recorded in another way than it runs. Streams are numbered; 0 is the current stream at the start. `describe` gives
    the place of an event in the model and the script.
    """

    def __init__(self, script: str) -> None:
        self.steps: list[list[Event]] = [[]]
        self.peaks: list[dict[str, int]] = []
        self.stream = 0
        self.works = 0
        self.notes: list[str] = []
        self.describe: Callable[[], dict[str, str]] = dict
        self._script = script

    def add(self, kind: str, **fields: Any) -> None:
        """Add an event on the current stream."""
        self.steps[-1].append({"kind": kind, "stream": self.stream} | fields)

    def add_described(self, kind: str, **fields: Any) -> None:
        """Add an event that has a place in the model and in the script."""
        self.add(kind, **fields, **self.describe())

    def next_work(self) -> int:
        """A number for an event that others may wait for."""
        self.works += 1
        return self.works

    def end_step(self, peak: dict[str, int]) -> None:
        """Begin the next step; `peak` are the bytes at the peak of this one, by phase."""
        self.peaks.append(peak)
        self.steps.append([])

    def step(self, number: int) -> tuple[list[Event], dict[str, int]]:
        """The events and the peak of a step, counted from 1, or of the last one that did anything."""
        filled = [pair for pair in zip(self.steps, self.peaks, strict=False) if any(event["kind"] not in _IDLE for event in pair[0])]
        return filled[min(number, len(filled)) - 1] if filled else ([], {})

    def line(self) -> str:
        """The line of the script that is running, as FILE:LINE; the innermost that is no line of torch or of this package."""
        for frame in _frames(sys._getframe(1)):
            file = frame.f_code.co_filename
            if file == self._script or not is_library(file):
                return f"{short(file)}:{frame.f_lineno}"
        return ""


@functools.cache
def short(file: str) -> str:
    """A path from the folder of the process, if it is in that."""
    path = os.path.relpath(file)
    return file if path.startswith(os.pardir) else path


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


@functools.cache
def is_library(file: str) -> bool:
    """Whether a file is none of the user's: of a library, of Python, or of this package."""
    return "site-packages" in file or "/lib/python" in file or "_sim_torch/recording" in file or file.startswith("<")


def write(path: str, head: dict[str, Any], events: list[Event]) -> None:
    """Write a recording: a line for its head, and a line for each event."""
    with open(path, "w") as file:
        file.write(json.dumps({"format": FORMAT, "version": VERSION, **head}) + "\n")
        file.writelines(json.dumps(event, separators=(",", ":")) + "\n" for event in events)
