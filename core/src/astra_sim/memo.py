"""Caches of values that follow from equal inputs: bounded, cleared and counted in one place.

Thousands of runs in a process are a normal use, and most of a short run is set-up. A cache is found by a key that holds every input of its
values (`tests/core/test_cache_inputs.py` changes each input of each component). Whether a cache is worth its lines is measured:
`python3 dev.py bench caches` switches off one at a time.

Values that follow from a class alone (the names of its fields, its converter) stay in `functools.cache`: there are as many as classes. What
one object computes for itself, within a run, stays in that object.

Example:

    >>> from astra_sim.memo import cache_statistics, cached, clear_caches, without_cache
    >>> @cached("example.squares", 100)
    ... def square(number):
    ...     print("squaring", number)
    ...     return number * number
    >>> square(12), square(12)
    squaring 12
    (144, 144)
    >>> statistics = cache_statistics()["example.squares"]
    >>> statistics.hits, statistics.misses, statistics.entries
    (1, 1, 1)
    >>> with without_cache("example.squares"):
    ...     square(12)
    squaring 12
    144
    >>> clear_caches()
    >>> cache_statistics()["example.squares"].entries
    0
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Hashable, Iterator
from typing import Any, Generic, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

import attrs

__all__ = [
    "cache_statistics",
    "cached",
    "clear_caches",
    "without_cache",
]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
P = ParamSpec("P")

_ABSENT: Any = object()


@attrs.define(eq=False)
class CacheStatistics:
    """The hits, misses and size of a cache."""

    hits: int = 0
    misses: int = 0
    entries: int = 0


class Cache(Generic[K, V]):
    """At most `most` values by key, or values whose sizes add up to no more; one above `largest` is not kept.

    It is known to `clear_caches` and the like by its name, unless that is empty.

    When it is full the oldest values go. Moving a value to the end on each hit would keep those in use longer, but hash its key a second
    time, and keys are large here: a hit would cost twice as much, for a value that is computed again once in `most` misses.
    """

    def __init__(self, name: str, most: int, largest: int | None = None) -> None:
        self._most = most
        self._largest = most if largest is None else largest
        self._entries: dict[K, tuple[V, int]] = {}
        self._size = 0
        self._statistics = CacheStatistics()
        self._is_on = True
        if name:
            _caches[name] = self

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def size(self) -> int:
        """The sizes of its values together."""
        return self._size

    def get(self, key: K) -> V | None:
        """The value of a key; None if there is none, or if the key cannot be hashed, such as a mutable object."""
        find: V | None = self._find(key, None)
        return find

    def add(self, key: K, value: V, size: int = 1) -> None:
        """Keep the value of a key that it does not have, unless the key cannot be hashed."""
        if size > self._largest or not self._is_on or not is_hashable(key) or key in self._entries:
            return
        while self._entries and self._size + size > self._most:
            self._size -= self._entries.pop(next(iter(self._entries)))[1]
        self._entries[key] = value, size
        self._size += size

    def replace(self, key: K, value: V, size: int = 1) -> None:
        """Keep the value of a key, which may have had another."""
        self._size -= self._entries.pop(key, (value, 0))[1]
        self.add(key, value, size)

    def value(self, key: K, compute: Callable[[], V]) -> V:
        """The value of a key, which `compute` makes if it is not cached. Exceptions of `compute` are not cached."""
        find: V = self._find(key, _ABSENT)
        if find is _ABSENT:
            find = compute()
            self.add(key, find)
        return find

    def clear(self) -> None:
        """Give up all values."""
        self._entries.clear()
        self._size = 0

    def statistics(self) -> CacheStatistics:
        """Hits and misses since the process began, and the entries of now."""
        return attrs.evolve(self._statistics, entries=len(self._entries))

    def _find(self, key: K, default: Any) -> Any:
        try:
            result = self._entries.get(key)
        except TypeError:
            return default
        if result is None:
            self._statistics.misses += 1
            return default
        self._statistics.hits += 1
        return result[0]

    def _switch(self, is_on: bool) -> None:
        self.clear()
        self._is_on = is_on


class ObjectCaches(Generic[K, V]):
    """A cache of at most `most` values for each of some objects, which goes when its object does.

    Values must not refer to the object, which else would never go.
    """

    def __init__(self, name: str, most: int, largest: int | None = None) -> None:
        self._limits = most, largest
        self._caches: WeakKeyDictionary[Any, Cache[K, V]] = WeakKeyDictionary()
        self._statistics = CacheStatistics()
        self._is_on = True
        if name:
            _caches[name] = self

    def of(self, owner: object) -> Cache[K, V]:
        """The cache of an object. One that may equal another, since its class defines equality, gets an empty cache each time."""
        if type(owner).__hash__ is not object.__hash__:
            return self._new()
        cache = self._caches.get(owner)
        if cache is None:
            cache = self._caches[owner] = self._new()
        return cache

    def clear(self) -> None:
        """Give up all values."""
        for cache in list(self._caches.values()):
            cache.clear()

    def statistics(self) -> CacheStatistics:
        """Hits and misses since the process began, and the entries of now."""
        return attrs.evolve(self._statistics, entries=sum(map(len, self._caches.values())))

    def _new(self) -> Cache[K, V]:
        cache: Cache[K, V] = Cache("", *self._limits)
        cache._statistics = self._statistics
        cache._is_on = self._is_on
        return cache

    def _switch(self, is_on: bool) -> None:
        self._is_on = is_on
        for cache in list(self._caches.values()):
            cache._switch(is_on)


_caches: dict[str, Cache[Any, Any] | ObjectCaches[Any, Any]] = {}
"""By name. A cache of a module that is loaded again, as plugin files are, takes the place of its earlier self."""


def cached(name: str, most: int) -> Callable[[Callable[P, V]], Callable[P, V]]:
    """Decorate a function of positional arguments that tells all it depends on: its results are kept, if the arguments can be hashed.

    Arguments that are equal count as the same, so a function that tells 1 from 1.0 needs another key.
    """

    def decorate(function: Callable[P, V]) -> Callable[P, V]:
        cache: Cache[Any, V] = Cache(name, most)

        @functools.wraps(function)
        def call(*arguments: P.args, **_: P.kwargs) -> V:
            find: V = cache._find(arguments, _ABSENT)
            if find is _ABSENT:
                find = function(*arguments)  # type: ignore[call-arg]
                cache.add(arguments, find)
            return find

        return call

    return decorate


def is_hashable(value: Any) -> bool:
    """Whether a value can be hashed, so that it cannot change and derived data may be cached."""
    try:
        hash(value)
    except TypeError:
        return False
    return True


def clear_caches() -> None:
    """Empty all caches of the process, so that the next run is like its first."""
    for cache in _caches.values():
        cache.clear()


def cache_statistics() -> dict[str, CacheStatistics]:
    """Hits, misses and entries of each cache of the process, by name."""
    return {name: cache.statistics() for name, cache in _caches.items()}


@contextlib.contextmanager
def without_cache(*names: str) -> Iterator[None]:
    """Switch caches of these names off in the block, all if none is named. Raises KeyError for a name that no cache has."""
    chosen = [_caches[name] for name in names] if names else list(_caches.values())
    for cache in chosen:
        cache._switch(False)
    try:
        yield
    finally:
        for cache in chosen:
            cache._switch(True)
