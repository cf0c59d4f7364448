"""Orders that NPUs have in common, so that no two of them wait for each other.

A phase of a chunk ends when all ranks of its group have run it, and a rank that has begun keeps its slot of a queue, or its unit, until
then. If NPUs are out of step (messages wait for each other in the network), each for itself would begin what it has ready; then one
holds its slots for chunks that another has not begun, because its slots hold others: neither goes on. So programs may **agree**: for each
queue, and each unit, there is one order of what their NPUs begin. The NPU that comes to a place of it first decides by its own order what
is there, and all others follow; one that does not have it ready yet waits.

Why no NPUs that agree can wait for each other in a circle: of all that has begun somewhere and not ended everywhere, take what began
first, by the time of its first NPU. All that began before has ended on every NPU. On each NPU of its group (1) what it waits for had
ended on the first NPU, so it began earlier, and has ended here too: it is ready, or has begun; (2) what is in front of it in the order of
the queue has ended, so it is next, and there is a slot. So it begins on all its ranks, and a schedule whose ranks have all begun ends.
If nothing has begun, an NPU that has something ready may begin it, since it is the first to come to its place.

The groups of phases must be within the NPUs that agree, and these must run the same operations, which may take different times.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence

Key = tuple[int, int]
"""An item that begins in the same order on all NPUs: a chunk in a queue, as (task, chunk), or a collective with a unit, as (task, 0)."""


class Agreement:
    """The order of one queue or unit, for so many NPUs; places that all of them have passed are forgotten."""

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
        """An NPU begins what is next."""
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
