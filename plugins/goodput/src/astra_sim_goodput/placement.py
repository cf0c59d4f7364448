"""The NPUs of jobs: those in the file, or those of a placement."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

from astra_sim import InputError
from astra_sim.commands import check_npus
from astra_sim.random import RandomStream

FORMS = 'ranks such as "0:64", "0:64:2", "0:8,16:24" or a list; or npus with placement = "packed", "striped:8" or "random?seed=1"'


def ranks_of(ranks: Any, npus: int, where: str) -> tuple[int, ...]:
    """The NPUs of `ranks`, in the order of ranks. Raises InputError."""
    if isinstance(ranks, str):
        try:
            result = [npu for part in ranks.split(",") for npu in _range(part, npus)]
        except ValueError:
            raise InputError(f"{where}: ranks is {ranks!r}; expected {FORMS}") from None
    elif isinstance(ranks, (list, tuple)) and ranks and all(type(npu) is int for npu in ranks):
        result = list(ranks)
    else:
        raise InputError(f"{where}: ranks is {ranks!r}; expected {FORMS}")
    if not result:
        raise InputError(f"{where}: ranks is {ranks!r}, which is no NPU; expected {FORMS}")
    check_npus(result, npus, f"{where}: ranks")
    return tuple(result)


def _range(part: str, npus: int) -> range:
    """The NPUs of `first:end`, `first:end:step` or of one number."""
    numbers = [int(number) for number in part.split(":")]
    if len(numbers) == 1:
        return range(numbers[0], numbers[0] + 1)
    first, end, step = (*numbers, 1) if len(numbers) == 2 else numbers
    if step < 1 or not 0 <= first <= end <= npus:
        raise ValueError
    return range(first, end, step)


def placed(placement: str, count: int, free: Sequence[int], where: str) -> tuple[int, ...]:
    """So many of the free NPUs (in rising order), as a placement chooses them; ranks rise with the numbers of NPUs. Raises InputError."""
    name, _, rest = placement.partition("?")
    name, colon, step = name.partition(":")
    options = dict(parse_qsl(rest, keep_blank_values=True))
    if name not in PLACEMENTS or bool(colon) != (name == "striped") or set(options) - ({"seed"} if name == "random" else set()):
        raise InputError(f"{where}: placement is {placement!r}; expected {FORMS}")
    if count > len(free):
        raise InputError(f"{where}: npus is {count}, and {len(free)} NPUs are free; expected at most these")
    try:
        return tuple(sorted(PLACEMENTS[name](free, count, step, options)))
    except ValueError as error:
        raise InputError(f"{where}: placement is {placement!r}: {error}; expected {FORMS}") from None


def _packed(free: Sequence[int], count: int, step: str, options: Mapping[str, str]) -> Sequence[int]:
    """The lowest ones."""
    return free[:count]


def _striped(free: Sequence[int], count: int, step: str, options: Mapping[str, str]) -> Sequence[int]:
    """Every n-th of the free ones, from the lowest on."""
    stride = int(step)
    if stride < 1 or (count - 1) * stride >= len(free):
        raise ValueError(f"every {stride} of {len(free)} free NPUs are fewer than {count}")
    return free[: (count - 1) * stride + 1 : stride]


def _random(free: Sequence[int], count: int, step: str, options: Mapping[str, str]) -> Sequence[int]:
    """Drawn from them, each set as likely; the same for a seed on every machine."""
    stream = RandomStream(int(options.get("seed", "0")), "placement")
    return sorted(free, key=stream.word)[:count]


PLACEMENTS: Mapping[str, Callable[[Sequence[int], int, str, Mapping[str, str]], Sequence[int]]] = {
    "packed": _packed,
    "striped": _striped,
    "random": _random,
}
