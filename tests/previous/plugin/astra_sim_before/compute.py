"""The compute model: how long some work takes."""

from __future__ import annotations

import attrs
from astra_sim import option
from astra_sim.compute import Compute, MissingWork, Work


@attrs.frozen
class RateOptions:
    """Options of the model."""

    tera_ops_per_s: float = option(100.0, above=0, help="operations that the device does", unit="10^12 operations/s")
    launch_ns: float = option(1000.0, minimum=0, help="time to launch a kernel", unit="ns")


class RateCompute(Compute):
    """Work takes the time of a launch, and its operations at one rate."""

    def __init__(self, options: RateOptions) -> None:
        self._options = options

    def duration_ns(self, work: Work) -> float:
        """Nanoseconds. Raises MissingWork where operations are not known."""
        operations = work.count_operations()
        if operations is None:
            raise MissingWork("it has neither operations nor a shape, from which they would follow")
        return self._options.launch_ns + operations / (self._options.tera_ops_per_s * 1000)

    def peak_ops_per_s(self, element_type: str) -> float:
        """The rate, for all element types."""
        return self._options.tera_ops_per_s * 1e12
