"""The bus between an NPU and its memory, shared by everything its endpoint handles: ASTRA-sim 1.0's LogGP model.

A bus has two sides, NPU and memory, each a half-duplex LogGP endpoint (Alexandrov et al., 1995): it sends or receives one transfer at
a time. The NPU side reads and writes through a second bus of the same kind, between it and local memory.
A bus works for the tokens of one NPU; `Buses` has those of all NPUs, and reports when a token has been carried.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import attrs

from astra_sim.engine.interface import BusOptions
from astra_sim.engine.reference.events import BusCall, Events, TokenReady
from astra_sim.schedule import BusTransfer
from astra_sim.units import PS_PER_NS

if TYPE_CHECKING:
    from astra_sim.engine.reference.phases import Rank


@attrs.define(slots=True, eq=False)
class _Transfer:
    """`bytes` on their way; at the other end they are `reduced`, or come back (`returned`), or are done with."""

    bytes: int
    reduced: bool
    returned: bool
    done: Callable[[], None]


Schedule = Callable[[int, Callable[[], None]], None]
"""Calls a function after some nanoseconds."""


class SharedBus:
    """The bus of one NPU. `now_ns` tells the time, `after` schedules a call."""

    def __init__(self, options: BusOptions, now_ns: Callable[[], int], after: Schedule, inner: bool = True) -> None:
        self._npu = _Side(options, now_ns, after)
        self._memory = _Side(options, now_ns, after)
        self._npu.partner, self._memory.partner = self._memory, self._npu
        if inner:
            below = attrs.evolve(options, G=options.memory_gap_per_byte)
            self._npu.inner = SharedBus(below, now_ns, after, inner=False)

    def to_memory(self, size: int, reduced: bool, returned: bool, done: Callable[[], None]) -> None:
        """Move bytes from the NPU side to the memory side."""
        self._npu.request(_Transfer(size, reduced, returned, done))

    def to_npu(self, size: int, reduced: bool, returned: bool, done: Callable[[], None]) -> None:
        """Move bytes from the memory side to the NPU side."""
        self._memory.request(_Transfer(size, reduced, returned, done))


_FREE, _SENDING, _RECEIVING = range(3)


class _Side:
    """One end of a bus."""

    partner: _Side
    inner: SharedBus | None = None

    def __init__(self, options: BusOptions, now_ns: Callable[[], int], after: Schedule) -> None:
        self._options = options
        self._now_ns = now_ns
        self._after = after
        self._state = self._previous = _FREE
        self._last_end = 0
        self._burst = 0
        self._sends: deque[_Transfer] = deque()
        self._receives: deque[_Transfer] = deque()
        self._reductions: deque[_Transfer] = deque()
        self._reducing = False

    def request(self, transfer: _Transfer) -> None:
        """Send a transfer when its turn comes; the NPU side first reads it through the inner bus."""
        if self.inner is not None:
            self.inner.to_npu(transfer.bytes, False, False, lambda: self._join(transfer))
        else:
            self._join(transfer)

    def _join(self, transfer: _Transfer) -> None:
        self._sends.append(transfer)
        self._try()

    def _try(self) -> None:
        """Send the next transfer, if this side is free and it is not the other's turn."""
        if self._state != _FREE or not self._sends:
            return
        partner = self.partner
        burst = self._options.burst
        # A side that has sent a burst lets the other go first, if that has something to send and has had no burst of its own.
        if self._burst > burst and partner._sends and partner._burst <= burst:
            partner._try()
            return
        # LogGP (Alexandrov et al., SPAA 1995): o before a send, at least g between the ends of two sends in a row, G for each further byte.
        wait = self._options.o
        if self._previous == _SENDING:
            since = self._now_ns() - self._last_end
            wait = self._options.o if self._options.o + since > self._options.g else self._options.g - since
        transfer = self._sends.popleft()
        partner._receive(transfer, wait)
        self._state = _SENDING
        self._after(int(wait + self._options.G * (transfer.bytes - 1)), self._sent)

    def _sent(self) -> None:
        self._last_end = self._now_ns()
        self._previous, self._state = self._state, _FREE
        self._burst += 1
        self._try()

    def _receive(self, transfer: _Transfer, wait: int) -> None:
        """A transfer begins to come in."""
        self._receives.append(transfer)
        self._previous, self._state = self._state, _RECEIVING
        self._burst = 0
        options = self._options
        self._after(int(wait + (transfer.bytes - 1) * options.G + options.L + options.o), self._received)

    def _received(self) -> None:
        """The oldest transfer has arrived: reduce it if it must be, else hand it on, and start the next."""
        self._last_end = self._now_ns()
        self._previous = self._state
        # The partner may have begun another transfer while this one was on its way; then this side goes on receiving.
        if len(self._receives) == 1:
            self._state = _FREE
        transfer = self._receives.popleft()
        if transfer.reduced:
            transfer.reduced = False
            self._through_inner(transfer, True, self._reduce)
        else:
            self._hand_on(transfer)
        self._try()

    def _hand_on(self, transfer: _Transfer) -> None:
        """The step after reception and reduction: back to the other side, or done."""
        if transfer.returned:
            transfer.returned = False
            self._through_inner(transfer, True, self._sends.append)
        else:
            self._through_inner(transfer, False, lambda finished: finished.done())

    def _through_inner(self, transfer: _Transfer, returned: bool, then: Callable[[_Transfer], None]) -> None:
        if self.inner is None:
            then(transfer)
            return

        def moved() -> None:
            then(transfer)
            self._try()

        self.inner.to_memory(transfer.bytes, False, returned, moved)

    def _reduce(self, transfer: _Transfer) -> None:
        self._reductions.append(transfer)
        self._start_reduction()

    def _start_reduction(self) -> None:
        if self._reducing or not self._reductions:
            return
        self._reducing = True
        # Whole hundreds of bytes, as ASTRA-sim 1.0 counts them.
        reduction = self._reductions[0].bytes // 100 * self._options.reduction_delay
        self._after(reduction + self._options.reduction_overhead, self._reduced)

    def _reduced(self) -> None:
        self._reducing = False
        self._hand_on(self._reductions.popleft())
        self._start_reduction()
        self._try()


class Carried(NamedTuple):
    """A token that the bus carries: of a rank, and the step after it (memory and computing; None: nothing)."""

    rank: Rank
    after_ps: int | None


class Buses:
    """The shared buses of all NPUs, each made when it is first used; none if there are no `options`.

    `on_token` hears of tokens that a bus has carried and that nothing follows.
    """

    def __init__(self, options: BusOptions | None, events: Events, on_token: Callable[[Rank], None]) -> None:
        self._options = options
        self._events = events
        self._on_token = on_token
        self._buses: dict[int, SharedBus] = {}

    def shared(self) -> bool:
        """Whether endpoints share a bus."""
        return self._options is not None

    def carry(self, npu: int, transfer: BusTransfer, reduced: bool, token: Carried) -> None:
        """Let the bus of an NPU carry a token, and at the other end reduce it or not."""
        bus = self._bus_of(npu)
        carry = bus.to_npu if transfer.to_npu else bus.to_memory
        carry(transfer.bytes, reduced, transfer.returned, lambda: self._carried(npu, token))

    def _carried(self, npu: int, token: Carried) -> None:
        """A token has been carried: its next step begins, or it counts at once."""
        if token.after_ps is None:
            self._on_token(token.rank)
        else:
            self._events.push(self._events.now + token.after_ps, npu, TokenReady(token.rank))

    def _bus_of(self, npu: int) -> SharedBus:
        assert self._options is not None
        bus = self._buses.get(npu)
        if bus is None:

            def after(nanoseconds: int, call: Callable[[], None]) -> None:
                self._events.push(self._events.now + nanoseconds * PS_PER_NS, npu, BusCall(call))

            bus = self._buses[npu] = SharedBus(self._options, lambda: self._events.now // PS_PER_NS, after)
        return bus
