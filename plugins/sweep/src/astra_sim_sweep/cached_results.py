"""Whole results of points, each in a file of its own beside the table, named by the key of its run: several sweeps may share the folder."""

from __future__ import annotations

import json
import os

from astra_sim.display import write_document
from astra_sim.experiments import invocation

from astra_sim_sweep.plan import RESULT

__all__ = ["RESULT", "CachedResults"]


class CachedResults:
    """The results in a folder. `table` is that of the sweep, beside which the folder is."""

    def __init__(self, folder: str, table: str) -> None:
        self._folder = folder
        self._base = os.path.dirname(os.path.abspath(table))

    def path(self, key: bytes) -> str:
        """The file of a run."""
        return os.path.join(self._folder, f"{key.hex()}.json")

    def cell(self, key: bytes) -> str:
        """The same, relative to the folder of the table."""
        return os.path.relpath(self.path(key), self._base)

    def has(self, key: bytes) -> bool:
        """Whether the result of a run is there."""
        path = self.path(key)
        return os.path.isfile(path) and os.path.getsize(path) > 0

    def write(self, key: bytes, document: str) -> None:
        """Keep a result as JSON. The command line is that of this process, not that of its worker. Raises RunError."""
        table = json.loads(document)
        command = invocation("", 0.0)["command"]
        write_document({**table, "invocation": {**table["invocation"], "command": command}}, self.path(key))
