"""Communicators: whose collectives are counted together. The n-th collective of one NPU of a group is the n-th of all its members.

Over dimensions a platform has many groups. Those that meet in a program are counted together, because its NPUs do the same; those that do
not, such as the tensor-parallel groups of two pipeline stages, have nothing to do with each other.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from astra_sim.graph import Communicate, NpuProgram
from astra_sim.platform import LogicalDimension
from astra_sim.run.symmetry import Scope, ScopeSelection, is_closed


@attrs.frozen(cache_hash=True)
class Communicator:
    """NPUs that count their collectives over `dimensions` together, or the members of a `group`; `programs` are those that they run."""

    dimensions: tuple[int, ...]
    group: tuple[int, ...] | None
    programs: tuple[int, ...]
    npus: Sequence[int] = attrs.field(eq=False)


class Communicators:
    """The communicators of a run."""

    def __init__(self, dimensions: Sequence[LogicalDimension], choice: ScopeSelection, programs: Sequence[NpuProgram], npus: int) -> None:
        self._dimensions = dimensions
        if len(programs) == 1:  # which one NPU may run for all
            self._members: list[Sequence[int]] = [range(npus)]
        elif choice.scope is Scope.CLASSES:
            self._members = [one.members for one in choice.classes]
        else:
            self._members = [program.npus for program in programs]
        self._over: dict[tuple[int, ...], list[Communicator]] = {}
        self.several = len(programs) > 1

    def of(self, program: int, operation: Communicate) -> Communicator:
        """The communicator of a collective of a program."""
        if operation.group is not None:
            return Communicator((), operation.group, (), operation.group)
        # An algorithm of its own runs a collective over all NPUs.
        over = tuple(range(len(self._dimensions))) if operation.algorithm else operation.dimensions
        if over not in self._over:
            self._over[over] = self._find(over)
        return self._over[over][program]

    def _find(self, over: tuple[int, ...]) -> list[Communicator]:
        """The communicator of each program over some dimensions."""
        dimensions = [self._dimensions[number] for number in over if self._dimensions[number].size > 1]
        parts = join_programs(dimensions, self._members)
        communicators: dict[int, Communicator] = {}
        for first in set(parts):
            programs = tuple(program for program, part in enumerate(parts) if part == first)
            members = [self._members[program] for program in programs]
            communicators[first] = Communicator(over, None, programs, members[0] if len(members) == 1 else sorted(set().union(*members)))
        return [communicators[part] for part in parts]


def join_programs(dimensions: Sequence[LogicalDimension], members: Sequence[Sequence[int]]) -> list[int]:
    """For each program the first of those with which it shares groups of some dimensions; `members` are the NPUs of each."""
    parts = list(range(len(members)))
    # Pipeline stages mostly hold whole groups, and then share no collective.
    if all(is_closed(dimensions, npus) for npus in members):
        return parts
    program_of = {npu: program for program, npus in enumerate(members) for npu in npus}
    # Union-find over programs: two of them count their collectives together if a group has NPUs of both. The lowest number is the root,
    # so that the result does not depend on the order in which groups are met.

    def root(program: int) -> int:
        while parts[program] != program:
            program = parts[program]
        return program

    for npu, program in program_of.items():
        for dimension in dimensions:
            other = program_of[dimension.group(npu)[0]]
            if other != program:
                low, high = sorted((root(program), root(other)))
                parts[high] = low
    return [root(program) for program in parts]
