"""Which NPUs of a platform an instance has."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from astra_sim import InputError
from astra_sim.experiments import check_npus
from astra_sim.platform import Platform

from astra_sim_serving.options import PoolOptions


def npus_of_pools(pools: Sequence[PoolOptions], platform: Platform, where: str) -> list[tuple[int, ...]]:
    """The NPUs of each pool: those that it names, else the first ones that no pool names. Raises InputError."""
    named = [_named(pool, platform.npus, f"{where}: serving.pool.{number}") for number, pool in enumerate(pools)]
    taken: set[int] = set()
    for number, npus in enumerate(named):
        twice = sorted(taken & set(npus))
        if twice:
            raise InputError(f"{where}: serving.pool.{number}: npus has {twice[0]}, which another pool has, too")
        taken |= set(npus)
    needed = sum(pool.instances * pool.sharding.npus for pool in pools)
    if needed > platform.npus:
        raise InputError(f"{where}: the instances need {needed} NPUs, and the platform has {platform.npus}")
    free = (npu for npu in range(platform.npus) if npu not in taken)
    return [npus or tuple(itertools.islice(free, pool.instances * pool.sharding.npus)) for pool, npus in zip(pools, named, strict=True)]


def _named(pool: PoolOptions, npus: int, where: str) -> tuple[int, ...]:
    """The NPUs that a pool names, in order; none if it names none."""
    if pool.npus is None:
        return ()
    result: list[int] = []
    for part in pool.npus.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or (dash and int(last) < int(first)):
            raise InputError(f"{where}: npus is {pool.npus!r}; expected numbers and ranges such as '0-3,8-11'")
        result += range(int(first), int(last if dash else first) + 1)
        check_npus(result[-1:], npus, f"{where}: npus")
    needed = pool.instances * pool.sharding.npus
    if len(result) != needed or len(set(result)) != needed:
        raise InputError(f"{where}: npus is {pool.npus!r}, which are {len(set(result))} NPUs; the instances of the pool need {needed}")
    return tuple(result)


def place_in_block(npus: Sequence[int], platform: Platform) -> tuple[int, ...]:
    """The same NPUs in the first of the smallest blocks of dimensions that hold all of them.

    Blocks of a platform of dimensions are alike, so that transfers of NPUs in one take as long as in any other.
    """
    block = 1
    for dimension in platform.dimensions:
        block *= dimension.size
        if len({npu // block for npu in npus}) == 1:
            break
    return tuple(npu % block for npu in npus)
