"""Slim Fly: switches of the McKay-Miller-Siran graphs, which are two links apart at most (Besta and Hoefler, SC 2014)."""

from __future__ import annotations

import attrs
from astra_sim import InputError, option
from astra_sim.fabric import Wire
from astra_sim.platform import Dimension

from astra_sim_platforms.topologies import Graph, LinkOptions, check_size, pair


@attrs.frozen
class SlimFlyOptions(LinkOptions):
    """Options of a Slim Fly."""

    q: int = option(minimum=3, maximum=43, help="a prime above 2: there are 2 q^2 switches")
    npus: int | None = option(
        None, minimum=1, maximum=256, help="NPUs of a switch; default: half of its links to other switches, rounded up"
    )


def slim_fly(options: SlimFlyOptions) -> list[Dimension]:
    """Switches (0, x, y) and (1, m, c) modulo q; the first are joined along y, the others along c, and y = m x + c joins the two kinds.

    Raises InputError unless q is an odd prime.
    """
    q = options.q
    if q % 2 == 0 or any(q % divisor == 0 for divisor in range(3, q, 2)):
        raise InputError(f"q is {q}; expected a prime above 2")
    even, odd = _generators(q)
    npus = options.npus if options.npus is not None else (len(even) + q + 1) // 2
    size, switches = 2 * q * q * npus, 2 * q * q
    check_size("slim_fly", size)
    links: list[Wire] = []
    for npu in range(size):
        links += pair(npu, size + npu // npus)
    for kind, differences in enumerate((even, odd)):
        for row in range(q):
            first = size + (kind * q + row) * q
            for low in range(q):
                for high in range(low + 1, q):
                    if high - low in differences:
                        links += pair(first + low, first + high)
    for x in range(q):
        for m in range(q):
            for c in range(q):
                links += pair(size + x * q + (m * x + c) % q, size + (q + m) * q + c)
    return [options.dimension(Graph("slim_fly", size, switches, tuple(links)), size)]


def _generators(q: int) -> tuple[set[int], set[int]]:
    """The differences of joined switches of either kind, for q = 4 w + 1 or 4 w - 1 (Hafner, 2004)."""
    root = next(each for each in range(2, q) if len({pow(each, power, q) for power in range(q - 1)}) == q - 1)
    if q % 4 == 1:
        return {pow(root, 2 * k, q) for k in range((q - 1) // 2)}, {pow(root, 2 * k + 1, q) for k in range((q - 1) // 2)}
    w = (q + 1) // 4
    even = {pow(root, 2 * k, q) for k in range(w)}
    odd = {pow(root, 2 * k + 1, q) for k in range(w)}
    return even | {q - each for each in even}, odd | {q - each for each in odd}
