"""Runs on the workers of a scheduler of Dask, on as many machines as it has.

A task of Dask is a batch of points. The worker of Dask has them run by a worker process of its own for each thread, so that a plugin that
crashes or hangs costs a point and not a worker of Dask. If a worker of Dask ends, Dask gives its batches to others.
"""

from __future__ import annotations

import atexit
import json
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from typing import Any

from astra_sim import AstraError, InputError, RunError

from astra_sim_sweep.outcomes import SweepOutcome
from astra_sim_sweep.processes import BatchSize, Processes

BATCH_S = 1.0
LARGEST_BATCH = 1024
_BATCHES_OF_A_THREAD = 2
_MOST_LOSSES = 2
_TURN_S = 0.5
_CONNECT_S = 10
WORKER_TIMEOUT_S = 300.0
"""The default time that a scheduler may have no worker: jobs wait in the queues of clusters."""

# -- On the workers ----------------------------------------------------------------------------------------------------

_idle: dict[tuple[bytes, float | None], list[Processes]] = {}
_lock = threading.Lock()


def run_batch(plan: bytes, numbers: Sequence[int], timeout: float | None) -> list[SweepOutcome]:
    """Run points of a packed plan in a process that is kept for the next batch."""
    key = plan, timeout
    with _lock:
        others = [each for other in list(_idle) if other != key for each in _idle.pop(other)]
        idle = _idle.setdefault(key, [])
        processes = idle.pop() if idle else Processes(plan, 1, timeout, keep=True)
    for other in others:
        other.close()
    outcomes = [outcome for some in processes.outcomes(iter(numbers)) for outcome in some]
    with _lock:
        _idle.setdefault(key, []).append(processes)
    return outcomes


@atexit.register
def end_idle() -> None:
    """End the processes that wait for the next batch."""
    for some in _idle.values():
        for processes in some:
            processes.close()
    _idle.clear()


_PROBE = """
def probe():
    try:
        import astra_sim_sweep.dask_workers
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None
"""
"""A function that travels by value: a worker that lacks this package would end when it is sent one of it."""

# -- On this machine ---------------------------------------------------------------------------------------------------


class Dask:
    """Runs points on the workers of a scheduler: that at an address, or in a scheduler file, or that of a client, which stays open.

    A point that takes longer than `timeout` seconds is an error, and so is a scheduler without workers for `worker_timeout` seconds. A
    worker has at most `batch` points at a time. Raises InputError if there is no scheduler, or Dask is not installed.
    """

    def __init__(
        self,
        plan: bytes,
        timeout: float | None,
        address: str | None,
        client: Any = None,
        batch: int = LARGEST_BATCH,
        worker_timeout: float = WORKER_TIMEOUT_S,
    ) -> None:
        try:
            import distributed
        except ImportError:
            raise InputError("a scheduler of Dask needs distributed: pip install 'astra-sim-sweep[dask]'") from None
        self._plan, self._timeout = plan, timeout
        self._owns = client is None
        if client is None:
            assert address is not None
            shown = address
            if _is_file(address):
                address = _address_in(address, worker_timeout)
                shown = f"{shown} ({address})"
            try:
                client = distributed.Client(address, timeout=_CONNECT_S, set_as_default=False)  # type: ignore[no-untyped-call]
            except (OSError, ValueError, TypeError) as error:
                reason = str(error) or type(error).__name__
                raise InputError(f"scheduler {shown!r}: {reason}; expected such as tcp://10.0.0.1:8786, or a scheduler file") from None
        elif not isinstance(client, distributed.Client) or client.asynchronous:
            raise InputError(f"client is {client!r}; expected a distributed.Client that is not asynchronous")
        self._client = client
        self._pending: dict[Any, list[int]] = {}
        self._again: deque[int] = deque()
        self._losses: Counter[int] = Counter()
        self._size = BatchSize(BATCH_S, batch)
        self._batches_of_a_thread = _BATCHES_OF_A_THREAD if batch > 1 else 1
        self._worker_timeout = worker_timeout
        self._alone_since: float | None = None
        self._probed: set[str] = set()

    def outcomes(self, numbers: Iterator[int | None]) -> Iterator[list[SweepOutcome]]:
        """The outcomes of points, as their batches end; some of the lists are empty. `numbers` is read on when workers have room.

        Raises RunError if the scheduler has lost its batches, or has had no workers for too long.
        """
        try:
            while True:
                threads = self._threads()
                if not threads:
                    time.sleep(_TURN_S)
                    yield []
                    continue
                yield from self._submit(numbers, threads)
                if not self._pending:
                    return
                yield self._collect()
        finally:
            self._client.cancel(list(self._pending), force=True)
            self._pending.clear()
            if self._owns:
                self._client.close()

    def _threads(self) -> int:
        """The number of threads of all workers. Raises RunError if there has been none for too long."""
        workers = self._client.nthreads()
        self._probe([address for address in workers if address not in self._probed])
        threads: int = sum(workers.values())
        now = time.monotonic()
        self._alone_since = None if threads else now if self._alone_since is None else self._alone_since
        if self._alone_since is not None and now - self._alone_since > self._worker_timeout:
            scheduler = self._client.scheduler.address if self._client.scheduler is not None else "of the client"
            raise RunError(
                f"the scheduler {scheduler} has had no worker for {self._worker_timeout:g} s (--worker-timeout); expected some, such as of"
                f" dask worker {scheduler}; finished points are kept, and --resume goes on"
            )
        return threads

    def _probe(self, workers: list[str]) -> None:
        """Raise RunError if one of new workers has no such package as this."""
        if not workers:
            return
        self._probed.update(workers)
        scope: dict[str, Any] = {"__name__": "__main__"}
        exec(_PROBE, scope)
        for address, problem in self._client.run(scope["probe"], workers=workers, on_error="ignore").items():
            if problem is not None:
                raise RunError(
                    f"the worker {address} has no package astra-sim-sweep that runs: {problem}; expected the same packages as here"
                )

    def _submit(self, numbers: Iterator[int | None], threads: int) -> Iterator[list[SweepOutcome]]:
        """Hand over batches, as many as keep all threads busy."""
        room = self._batches_of_a_thread * threads
        while len(self._pending) < room:
            batch = [self._again.popleft()] if self._again else []
            while not batch or (len(batch) < self._size.points and batch[0] not in self._losses):
                number = next(numbers, -1)
                if number is None:
                    yield []
                elif number < 0:
                    break
                else:
                    batch.append(number)
            if not batch:
                return
            self._pending[self._client.submit(run_batch, self._plan, batch, self._timeout, pure=False)] = batch

    def _collect(self) -> list[SweepOutcome]:
        """The batches that have ended, or end soon."""
        import distributed

        try:
            with self._client.as_current():
                some = distributed.wait(list(self._pending), timeout=_TURN_S, return_when="FIRST_COMPLETED")  # type: ignore[no-untyped-call]
        except TimeoutError:
            return []
        except distributed.CancelledError:
            raise RunError("the scheduler has lost its batches; finished points are kept, and --resume goes on") from None
        outcomes: list[SweepOutcome] = []
        for future in some.done:
            batch = self._pending.pop(future)
            outcomes += self._outcomes_of(future, batch)
        return outcomes

    def _outcomes_of(self, future: Any, batch: list[int]) -> list[SweepOutcome]:
        """The outcome of a batch. If Dask has given it up because its workers end, its points are run one by one."""
        import distributed

        try:
            outcomes: list[SweepOutcome] = future.result()
        except distributed.scheduler.KilledWorker as error:
            lost = []
            for number in batch:
                self._losses[number] += 1
                if self._losses[number] >= _MOST_LOSSES:
                    lost.append(SweepOutcome(number, None, f"workers of Dask ended with this point: {error}", 0.0))
                else:
                    self._again.append(number)
            return lost
        except AstraError:
            raise
        except Exception as error:
            raise RunError(f"a worker of Dask failed: {type(error).__name__}: {error}") from None
        for outcome in outcomes:
            self._size.add(outcome.wall_s)
        return outcomes


def _is_file(address: str) -> bool:
    """Whether a scheduler is given by the file that it has written."""
    return "://" not in address and (address.endswith(".json") or os.path.isfile(address))


def _address_in(path: str, patience: float) -> str:
    """The address of a scheduler, in the file that it writes when it has begun. Raises InputError if it does not come in time."""
    end = time.monotonic() + patience
    while True:
        try:
            with open(path, encoding="utf-8") as file:
                address = json.load(file)["address"]
            if isinstance(address, str):
                return address
            reason = f"its address is {address!r}"
        except FileNotFoundError:
            reason = "no such file"
        except OSError as error:
            raise InputError(f"scheduler {path}: {error.strerror}") from None
        except (ValueError, KeyError, TypeError):
            reason = "not a file of a scheduler of Dask"
        if time.monotonic() > end:
            expected = "expected the output of dask scheduler --scheduler-file"
            raise InputError(f"scheduler {path}: {reason}, for {patience:g} s (--worker-timeout); {expected}") from None
        time.sleep(min(0.2, patience))
