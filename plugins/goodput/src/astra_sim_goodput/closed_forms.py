"""Closed forms for a job that writes a checkpoint every so often and is interrupted at random times. All times in seconds.

`mtti` is the mean time between interruptions of the job, `write` the time that a checkpoint blocks, `restart` that from an interruption to
the first new step, `interval` the work between two checkpoints. Interruptions come at a constant rate, during restarts, too.
"""

from __future__ import annotations

import math

from astra_sim.errors import InputError


def young_interval(mtti: float, write: float) -> float:
    """Young's interval, sqrt(2 C M): the optimum to first order (Young, CACM 17(9), 1974)."""
    return math.sqrt(2 * write * mtti)


def daly_interval(mtti: float, write: float) -> float:
    """The interval for which `daly_efficiency` is greatest: M (1 + W0(-exp(-C/M - 1))). The restart does not move it."""
    return mtti * (1 + lambert_w0_of(write / mtti))


def daly_efficiency(mtti: float, write: float, restart: float, interval: float) -> float:
    """The share of time that is work (Daly, Future Generation Computer Systems 22, 2006, the complete model).

    W of work takes M exp(R/M) (exp((T + C)/M) - 1) W/T.
    """
    exponent = (interval + write) / mtti
    if exponent + restart / mtti > _LARGEST_EXPONENT:
        return 0.0
    return interval / (mtti * math.exp(restart / mtti) * math.expm1(exponent))


def saxena_interval(mtti: float, write: float, restart: float) -> float:
    """The interval, with its write, of greatest availability: C + sqrt(2 (M + R) C + C^2) (Saxena et al., arXiv 2410.18124)."""
    return write + math.sqrt(2 * (mtti + restart) * write + write * write)


def first_order_efficiency(mtti: float, write: float, restart: float, interval: float) -> float:
    """The share of time that is work, to first order: (1 - (R + T/2)/M) / (1 + C/T) (Kokolis et al., arXiv 2410.21680).

    Raises InputError if it is not above 0: interruptions come too fast for a first order.
    """
    left = 1 - (restart + interval / 2) / mtti
    if left <= 0:
        raise InputError(
            f"to first order nothing is left: restart {restart:g} s and half an interval of {interval:g} s are no less than the mean time"
            f" between interruptions, {mtti:g} s; expected longer times between them, or the complete model"
        )
    return left / (1 + write / interval)


_LARGEST_EXPONENT = 700.0


def lambert_w0_of(ratio: float) -> float:
    """W0(-exp(-ratio - 1)) for a ratio of at least 0: the w of [-1, 0) with w e^w = -e^(-ratio - 1).

    With w = -1 + d it is the d of (0, 1) with -log(1 - d) - d = ratio, which Newton's method finds from d = sqrt(2 ratio). For larger
    ratios d loses its digits, and w = -exp(-ratio - 1 - w) comes closer by a factor of |w| < 0.3 in each turn.
    """
    if ratio <= 0:
        return -1.0
    if ratio > 0.5:
        w = -math.exp(-ratio - 1)
        for _ in range(40):
            w = -math.exp(-ratio - 1 - w)
        return w
    d = min(math.sqrt(2 * ratio), 0.9)
    for _ in range(60):
        step = (-math.log1p(-d) - d - ratio) * (1 - d) / d
        smaller = d - step
        d = smaller if 0 < smaller < 1 else (d + (0 if smaller <= 0 else 1)) / 2
        if abs(step) <= 1e-15 * d:
            break
    return -1 + d


def erlang_b(servers: int, load: float) -> float:
    """The share of time in which all of some servers are busy, for a load in Erlangs; new work is lost then (Erlang, 1917).

    It holds for any distribution of the service time.
    """
    blocked = 1.0
    for number in range(1, servers + 1):
        blocked = load * blocked / (number + load * blocked)
    return blocked
