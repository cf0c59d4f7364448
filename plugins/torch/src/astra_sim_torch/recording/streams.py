"""Streams and events of a device, which record who waits for whom. They are in for those of `torch.cuda` and `torch.cpu`."""

from __future__ import annotations

import itertools
from typing import Any, ClassVar

from .events import TorchEvents

_numbers, _marks = itertools.count(1), itertools.count(1)


class _Recording:
    """The common log of all streams and events."""

    events: ClassVar[TorchEvents]


class TorchEvent(_Recording):
    """A point on a stream."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.mark = 0

    def record(self, stream: Any = None) -> TorchEvent:
        """Mark the work issued to a stream until now."""
        self.mark = next(_marks)
        self.events.add("mark", mark=self.mark, **_on(stream))
        return self

    def wait(self, stream: Any = None) -> None:
        """Let a stream wait for it."""
        if self.mark:
            self.events.add("wait_mark", mark=self.mark, **_on(stream))

    def query(self) -> bool:
        """Whether it has been reached."""
        return True

    def synchronize(self) -> None:
        """Let the host wait: it is ahead of the device in this model."""

    def elapsed_time(self, other: Any) -> float:
        """Milliseconds to another event; nothing is timed here."""
        return 1.0


class TorchStream(_Recording):
    """A queue of kernels. Stream 0 is the default stream."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self._be(next(_numbers))

    def _be(self, number: int) -> TorchStream:
        self.number = self.stream_id = self.cuda_stream = number
        return self

    @classmethod
    def numbered(cls, number: int) -> TorchStream:
        """The stream of a number."""
        return cls.__new__(cls)._be(number)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TorchStream) and self.number == other.number

    def __hash__(self) -> int:
        return hash(self.number)

    def record_event(self, event: Any = None) -> TorchEvent:
        """Record an event on this stream; none: a new one."""
        recorded: TorchEvent = (TorchEvent() if event is None else event).record(self)
        return recorded

    def wait_event(self, event: Any) -> None:
        """Wait for an event."""
        if event is not None:
            event.wait(self)

    def wait_stream(self, stream: Any) -> None:
        """Wait for the work issued to another stream."""
        self.wait_event(stream.record_event())

    def synchronize(self) -> None:
        """Let the host wait."""

    def query(self) -> bool:
        """Whether it is idle."""
        return True


class StreamContext(_Recording):
    """Makes a stream the current one; None changes nothing."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __enter__(self) -> Any:
        self._before = self.events.stream
        if self._stream is not None:
            self.events.stream = self._stream.number
        return self._stream

    def __exit__(self, *_: object) -> None:
        self.events.stream = self._before


def _on(stream: Any) -> dict[str, int]:
    return {} if stream is None else {"stream": stream.number}


def names(events: TorchEvents) -> dict[str, Any]:
    """The names that `torch.cuda` and `torch.cpu` use for these."""
    _Recording.events = events
    return {
        "Stream": TorchStream,
        "Event": TorchEvent,
        "StreamContext": StreamContext,
        "stream": StreamContext,
        "current_stream": lambda device=None: TorchStream.numbered(events.stream),
        "default_stream": lambda device=None: TorchStream.numbered(0),
    }
