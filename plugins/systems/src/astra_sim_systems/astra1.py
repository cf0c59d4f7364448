"""The system layer of ASTRA-sim 1.0."""

from __future__ import annotations

from astra_sim import InputError
from astra_sim.context import Context
from astra_sim.schedule import Collective

from astra_sim_systems.chunking import ChunkingRules, ChunkingSystem
from astra_sim_systems.options import ChunkingOptions
from astra_sim_systems.queues import all_slots


class Astra1System(ChunkingSystem):
    """Rules of ASTRA-sim 1.0. A phase ends on all NPUs at once."""

    def __init__(self, options: ChunkingOptions, context: Context) -> None:
        super().__init__(options, context)
        algorithms = self.algorithms  # not this object, so that nothing refers to itself and all goes when a run is over
        self.rules = ChunkingRules(chunk_sizes, all_slots, group_algorithm=lambda collective: algorithms[collective][0])


def chunk_sizes(collective: Collective, size: int, splits: int, npus: int) -> list[int]:
    """Bytes of the chunks, all equal but for the last. Raises InputError."""
    each = size // splits
    if each == 0:
        raise InputError(f"{size} bytes cannot be cut into {splits} chunks (system: splits)")
    count, last = divmod(size, each)
    return [each] * count + [last] * (last > 0)
