"""Options of the network `auto`."""

from __future__ import annotations

import attrs
from astra_sim import InputError, option


@attrs.frozen
class AutoOptions:
    """Options of the network `auto`."""

    error: str = option("1%", help="how wide the bound of the makespan may be, as a share of it: 1% or 0.01; --strict fails if it is wider")
    target: str = option("packet", specs="network", help="the network on which the whole run would be exact: NAME or NAME?key=value")
    part_bytes: int = option(
        1 << 36,
        minimum=1 << 30,
        unit="bytes",
        help="the most that NPUs send in all in a part that is simulated: larger ones are simulated at three smaller sizes, and continued"
        " to theirs, and a run that is not known as well as asked is simulated whole up to that size",
    )

    @property
    def share(self) -> float:
        """The error as a share of the makespan. Raises InputError."""
        text = self.error.strip()
        try:
            number = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            number = -1.0
        if not 0 < number < 1:
            raise InputError(f"error is {self.error!r}; expected a share of the makespan above 0 and below 1, such as 1% or 0.01")
        return number
