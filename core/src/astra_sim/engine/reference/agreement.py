"""Orders that NPUs have in common, so that no two of them wait for each other.

A phase of a chunk ends when all ranks of its group have run it, and a rank that has begun keeps its slot of a queue, or its unit, until
then. If NPUs are out of step (messages wait for each other in the network), each alone would begin its own ready jobs; then one
holds its slots for chunks that another has not begun, because its slots hold others: neither goes on. So programs may **agree**: for each
queue, and each unit, there is one order in which their NPUs begin. The first NPU to come to a place of it decides by its own order which
job is there, and all others follow; one that does not have it ready yet waits.

Why NPUs that agree cannot wait for each other in a circle: of all jobs that have begun somewhere and not ended everywhere, take the one
that began first, by the time of its first NPU. All earlier ones have ended on every NPU. On each NPU of its group (1) its dependencies had
ended on the first NPU, so they began earlier, and have ended here too: it is ready, or has begun; (2) the jobs in front of it in the order
of the queue have ended, so it is next, and there is a slot. So it begins on all its ranks, and a schedule whose ranks have all begun ends.
If nothing has begun, an NPU that has something ready may begin it, since it is the first to come to its place.

The groups of phases must be within the NPUs that agree, and these must run the same operations, which may take different times.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence

Key = tuple[int, int]
"""An item that begins in the same order on all NPUs: a chunk in a queue, as (task, chunk), or a collective with a unit, as (task, 0)."""


class Agreement:
    """The order of one queue or unit, for `npus` NPUs; places that all of them have passed are dropped."""

    def __init__(self, npus: int) -> None:
        self._npus = npus
        self._first = 0
        self._keys: deque[Key] = deque()
        self._left: deque[int] = deque()  # by place, how many NPUs have not come there
        self._place: Counter[int] = Counter()  # of each NPU

    def next(self, npu: int) -> Key | None:
        """The next item that an NPU has to begin; None if it is the first to arrive there, and decides."""
        place = self._place[npu] - self._first
        return self._keys[place] if place < len(self._keys) else None

    def take(self, npu: int, key: Key) -> None:
        """An NPU begins the next job."""
        place = self._place[npu] - self._first
        self._place[npu] += 1
        if place == len(self._keys):
            self._keys.append(key)
            self._left.append(self._npus)
        self._left[place] -= 1
        while self._left and not self._left[0]:
            self._keys.popleft()
            self._left.popleft()
            self._first += 1


class Agreements:
    """Which NPUs agree, and the orders that they have in common. NPUs that agree with no other have none."""

    def __init__(self) -> None:
        self._number_of: dict[int, int] = {}
        self._members: Counter[int] = Counter()
        self._queues: dict[tuple[int, int], Agreement] = {}
        self._units: dict[tuple[int, int], Agreement] = {}

    def join(self, number: int, npus: Sequence[int]) -> None:
        """NPUs go by the orders of a number, with all others of that number. All join before the run."""
        self._number_of.update(dict.fromkeys(npus, number))
        self._members[number] += len(npus)

    def of_queue(self, npu: int, queue: int) -> Agreement | None:
        """The order of a queue for an NPU."""
        return self._find(self._queues, npu, queue)

    def of_unit(self, npu: int, unit: int) -> Agreement | None:
        """The order of a unit for an NPU."""
        return self._find(self._units, npu, unit)

    def _find(self, known: dict[tuple[int, int], Agreement], npu: int, place: int) -> Agreement | None:
        number = self._number_of.get(npu, -1)
        if self._members[number] < 2:
            return None
        if (number, place) not in known:
            known[number, place] = Agreement(self._members[number])
        return known[number, place]
