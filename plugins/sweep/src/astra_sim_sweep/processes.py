"""Runs on this machine, in several worker processes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from multiprocessing.connection import wait
from typing import Any

import attrs
from astra_sim import AstraError, RunError
from astra_sim.processors import processors

from astra_sim_sweep.outcomes import SweepOutcome
from astra_sim_sweep.worker import READY, Worker

BATCH_S = 0.25
"""Seconds of work that a worker is given at a time, so that runs of 2 ms are not lost in messages."""

LARGEST_BATCH = 256
_FIRST_BATCH = 2
_MOST_FAILED_STARTS = 3
_TURN_S = 0.5


class BatchSize:
    """The number of points in a batch of `seconds`, from the times of those before."""

    def __init__(self, seconds: float, largest: int = LARGEST_BATCH) -> None:
        self._seconds, self._largest, self._mean = seconds, largest, 0.0

    def add(self, wall_s: float) -> None:
        """A point has taken so long."""
        self._mean = 0.7 * self._mean + 0.3 * wall_s if self._mean else wall_s

    @property
    def points(self) -> int:
        """The size of the next batch."""
        return max(1, min(self._largest, int(self._seconds / self._mean))) if self._mean else min(self._largest, _FIRST_BATCH)


@attrs.define(eq=False)
class _Place:
    """A worker, its assigned points without an answer, in order, and since when it has been at the first."""

    worker: Worker
    is_ready: bool = False
    has_plan: bool = False
    batch_left: deque[int] = attrs.field(factory=deque)
    since: float = 0.0


class Processes:
    """Runs points in `jobs` worker processes.

    If a worker ends, another takes its place. The point that it was at is tried once more by itself; if that ends a worker again, the
    error is the point's. A point that takes longer than `timeout` seconds ends with its worker, and is an error.
    """

    def __init__(
        self, plan: bytes, jobs: int | None = None, timeout: float | None = None, keep: bool = False, batch: int = LARGEST_BATCH
    ) -> None:
        """Points of a packed plan; `keep`: workers without work stay, for points to come, until `close`.

        A worker has at most `batch` points at a time.
        """
        self._plan = plan
        self._keep = keep
        self._jobs = jobs or processors()
        self._timeout = timeout
        self._places: list[_Place] = []
        self._again: deque[int] = deque()
        self._suspects: deque[int] = deque()
        self._tried: set[int] = set()
        self._failed_starts = 0
        self._size = BatchSize(BATCH_S, batch)
        self._numbers: Iterator[int | None] = iter(())

    @property
    def workers(self) -> list[int]:
        """The process numbers of workers."""
        return [place.worker.process.pid for place in self._places]

    def outcomes(self, numbers: Iterator[int | None]) -> Iterator[list[SweepOutcome]]:
        """The outcomes of points, as they arrive; some of the lists are empty. `numbers` is read on when a worker has room.

        It gives None if it has passed many points that need not be run. Raises RunError if workers cannot be started.
        """
        self._numbers = numbers
        try:
            while True:
                yield from self._give()
                if not any(place.batch_left for place in self._places):
                    break
                yield list(self._collect())
        except BaseException:
            self.close()
            raise
        if not self._keep:
            self.close()

    def close(self) -> None:
        """End all workers."""
        for place in self._places:
            place.worker.end()
        self._places.clear()

    def _give(self) -> Iterator[list[SweepOutcome]]:
        """Give work to workers that have little, as long as there is some; a worker without any ends."""
        for index in range(self._jobs):
            place = self._places[index] if index < len(self._places) else None
            if place is not None and 2 * len(place.batch_left) > self._size.points:
                continue
            if self._suspects and (place is None or not place.batch_left):
                batch = [self._suspects.popleft()]
            elif place is not None and place.batch_left and place.batch_left[0] in self._tried:
                continue
            else:
                batch = []
                yield from self._next_batch(batch)
            if not batch:
                break
            if place is None:
                place = _Place(Worker())
                self._places.append(place)
            self._send(place, batch)
        for place in [place for place in self._places if not place.batch_left and not self._keep]:
            place.worker.end()
            self._places.remove(place)

    def _next_batch(self, batch: list[int]) -> Iterator[list[SweepOutcome]]:
        """Fill a batch."""
        size = self._size.points
        while len(batch) < size and self._again:
            batch.append(self._again.popleft())
        while len(batch) < size:
            try:
                number = next(self._numbers)
            except StopIteration:
                return
            if number is None:
                yield []
            else:
                batch.append(number)

    def _send(self, place: _Place, batch: list[int]) -> None:
        if not place.batch_left:
            place.since = time.monotonic()
        place.batch_left.extend(batch)
        try:
            place.worker.send(None if place.has_plan else self._plan, batch)
        except OSError:
            return  # it has ended, which is seen when it is read
        place.has_plan = True

    def _collect(self) -> Iterator[SweepOutcome]:
        """The messages of workers that are there now, or soon."""
        places = {place.worker.connection: place for place in self._places}
        for connection in wait(list(places), self._patience()):
            yield from self._receive(places[connection])  # type: ignore[index]
        if self._timeout is None:
            return
        now = time.monotonic()
        for place in list(self._places):
            if place.is_ready and place.batch_left and now - place.since > self._timeout and not place.worker.connection.poll():
                number = place.batch_left.popleft()
                self._remove(place)
                yield SweepOutcome(number, None, f"the run took more than {self._timeout:g} s (--timeout)", now - place.since)

    def _patience(self) -> float:
        """Seconds until something has to be done."""
        if self._timeout is None:
            return _TURN_S
        now = time.monotonic()
        return max(0.01, min([_TURN_S, *(place.since + self._timeout - now for place in self._places if place.is_ready)]))

    def _receive(self, place: _Place) -> Iterator[SweepOutcome]:
        """Take a worker's messages; one that has ended is replaced, and its current point is its failure."""
        try:
            while place.worker.connection.poll():
                message: Any = place.worker.receive()
                place.since = time.monotonic()
                if isinstance(message, AstraError):
                    raise message
                if message == READY:
                    place.is_ready, self._failed_starts = True, 0
                    continue
                place.batch_left.popleft()
                self._tried.discard(message.number)
                self._size.add(message.wall_s)
                yield message
        except (EOFError, OSError):
            yield from self._bury(place)

    def _bury(self, place: _Place) -> Iterator[SweepOutcome]:
        """A worker has ended by itself."""
        why = place.worker.why()
        if not place.is_ready:
            self._failed_starts += 1
            if self._failed_starts >= _MOST_FAILED_STARTS:
                raise RunError(f"workers do not start: {why}")
        elif place.batch_left:
            number = place.batch_left.popleft()
            if number in self._tried:
                self._tried.discard(number)
                yield SweepOutcome(number, None, f"{why}, twice", time.monotonic() - place.since)
            else:
                self._tried.add(number)
                self._suspects.append(number)
        self._remove(place)

    def _remove(self, place: _Place) -> None:
        """End a worker; its points are for others."""
        self._again.extend(place.batch_left)
        place.worker.end()
        self._places.remove(place)
