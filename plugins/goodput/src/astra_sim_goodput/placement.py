"""The NPUs of jobs: those in the file, or those of a placement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import parse_qsl

import attrs
from astra_sim import InputError, option
from astra_sim.commands import Plugins, shared_plugins
from astra_sim.experiments import check_npus
from astra_sim.options import Typed
from astra_sim.providers import options_of
from astra_sim.random import RandomStream

FORMS = (
    'ranks such as "0-63", "0:64:2", "0-7,16-23" or a list; or npus with placement = "packed", "striped:8", "random?seed=1" or'
    ' "racks?npus=32"'
)


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
    """The NPUs of `first-last` (as in other sections), `first:end`, `first:end:step`, or of one number. Raises ValueError."""
    first_of, dash, last = part.partition("-")
    if dash and 0 <= int(first_of) <= int(last) < npus:
        return range(int(first_of), int(last) + 1)
    numbers = [int(number) for number in part.split(":")]
    if len(numbers) == 1:
        return range(numbers[0], numbers[0] + 1)
    first, end, step = (*numbers, 1) if len(numbers) == 2 else numbers
    if step < 1 or not 0 <= first <= end <= npus:
        raise ValueError
    return range(first, end, step)


Placement = Callable[[Sequence[int], int], Sequence[int]]
"""From the free NPUs in rising order, and a number, to as many of these. Raises ValueError if there is no place."""


def placement_of(placement: str, where: str, plugins: Plugins) -> Placement:
    """The placement that a text names: `packed`, `striped:N`, or a plugin's with its options. Raises InputError."""
    name, _, query = placement.removeprefix("plugin:").partition("?")
    name, colon, stride = name.partition(":")
    try:
        provider = plugins.get("placement", name)
        table = dict(parse_qsl(query, keep_blank_values=True)) | ({"stride": stride} if colon else {})
        options = options_of(provider, {key: Typed(value) for key, value in table.items()}, name)
    except InputError as error:
        raise InputError(f"{where}: placement is {placement!r}: {error}; expected {FORMS}") from None
    result: Placement = provider.create(options)
    return result


def placed(placement: str, count: int, free: Sequence[int], where: str, plugins: Plugins | None = None) -> tuple[int, ...]:
    """`count` of the free NPUs (in rising order), as a placement chooses them; ranks rise with the numbers of NPUs. Raises InputError."""
    choose = placement_of(placement, where, plugins or shared_plugins())
    if count > len(free):
        raise InputError(f"{where}: npus is {count}, and {len(free)} NPUs are free; expected at most these")
    try:
        return chosen(choose, free, count)
    except ValueError as error:
        raise InputError(f"{where}: placement is {placement!r}: {error}; expected {FORMS}") from None


def chosen(choose: Placement, free: Sequence[int], count: int) -> tuple[int, ...]:
    """The NPUs that a placement chooses, in rising order. Raises ValueError if it finds no place, or others than free ones."""
    result = tuple(sorted(choose(free, count)))
    if len(set(result)) != count or not set(result) <= set(free):
        raise ValueError(f"it chose {len(set(result))} of the free NPUs, or others; expected {count} of them")
    return result


@attrs.frozen
class StripedOptions:
    """Options of the placement `striped`."""

    stride: int = option(minimum=1, help="every n-th free NPU is taken, from the lowest on")


@attrs.frozen
class RandomOptions:
    """Options of the placement `random`."""

    seed: int = option(0, minimum=0, help="of the draws: the same NPUs on every machine")


@attrs.frozen
class RacksOptions:
    """Options of the placement `racks`."""

    npus: int = option(minimum=1, help="NPUs of a rack, in the order of their numbers")


def packed() -> Placement:
    """The lowest free NPUs."""
    return lambda free, count: free[:count]


def striped(options: StripedOptions) -> Placement:
    """Every n-th of the free NPUs, from the lowest on."""

    def choose(free: Sequence[int], count: int) -> Sequence[int]:
        if (count - 1) * options.stride >= len(free):
            raise ValueError(f"every {options.stride} of {len(free)} free NPUs are fewer than {count}")
        return free[: (count - 1) * options.stride + 1 : options.stride]

    return choose


def random(options: RandomOptions) -> Placement:
    """Drawn from the free NPUs, each set as likely; the same for a seed on every machine."""
    stream = RandomStream(options.seed, "placement")
    return lambda free, count: sorted(free, key=stream.word)[:count]


def racks(options: RacksOptions) -> Placement:
    """As few racks as possible: the fullest rack in which all fits, else the emptiest racks first."""

    def choose(free: Sequence[int], count: int) -> Sequence[int]:
        of_rack: dict[int, list[int]] = {}
        for npu in free:
            of_rack.setdefault(npu // options.npus, []).append(npu)
        fitting = [rack for rack in of_rack.values() if len(rack) >= count]
        if fitting:
            return min(fitting, key=lambda rack: (len(rack), rack[0]))[:count]
        emptiest = sorted(of_rack.values(), key=lambda rack: (-len(rack), rack[0]))
        return [npu for rack in emptiest for npu in rack][:count]

    return choose
