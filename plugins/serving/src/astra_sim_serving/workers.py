"""Processes beside this one, which simulate some of several runs."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import warnings
from collections.abc import Callable
from multiprocessing.pool import Pool
from types import TracebackType
from typing import Any, Self

from astra_sim import AstraError
from astra_sim.processors import processors

Work = Callable[..., Any]


class Workers:
    """A process for each processor, at most `most`, that calls `work`: on Linux, if there are several. They are forked when it is entered,
    and have what this process has then: so that should be before it has threads.
    """

    def __init__(self, work: Work, most: int) -> None:
        self._work = work
        self._most = most
        self._pool: Pool | None = None
        self.count = 0
        """Processes; 0: there are none, and nothing can be started."""

    def __enter__(self) -> Self:
        count = min(processors(), self._most)
        if count > 1 and sys.platform == "linux":
            self.count = count
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of threads, which pytest-xdist has
                self._pool = multiprocessing.get_context("fork").Pool(count, _begin, (self._work,))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._pool is not None:
            self._pool.terminate()
            self._pool.join()

    def start(self, *arguments: Any) -> Callable[[], Any]:
        """Let a process call the work with arguments. Returns who gives the result: None if there was an error."""
        assert self._pool is not None
        return self._pool.apply_async(_result, arguments).get


_WORK: list[Work] = []
"""What this process is for."""


def _begin(work: Work) -> None:
    """Prepare a process. The first one gets Ctrl-C, too, and ends it by SIGTERM: at once, for a handler of Python may never run here."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _WORK[:] = [work]


def _result(*arguments: Any) -> Any:
    """The result of the work; None if there is an error."""
    try:
        return _WORK[0](*arguments)
    except AstraError:
        return None
