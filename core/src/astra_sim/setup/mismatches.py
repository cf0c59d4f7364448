"""Parts of an experiment that were not made for each other: platform, device, network, software and precision."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from astra_sim._boundary import call, shown
from astra_sim.compute import Compute
from astra_sim.errors import PluginError
from astra_sim.graph import ExecutionGraph
from astra_sim.network import Network
from astra_sim.platform import Platform, device_family
from astra_sim.value_objects import ValueObject


@attrs.frozen(eq=False, repr=False)
class Mismatch(ValueObject):
    """Two sections of an experiment that contradict each other, and a description of the contradiction."""

    sections: tuple[str, str]
    message: str


def mismatches(platform: Platform, compute: Compute, network: Network, graph: ExecutionGraph) -> list[Mismatch]:
    """All mismatches of a run. Devices are compared if both sides name one."""
    return [*_of_devices(platform, compute, network), *_of_compute(compute, graph)]


def _of_devices(platform: Platform, compute: Compute, network: Network) -> Iterator[Mismatch]:
    if not platform.device:
        return
    name = platform.name or "the platform"
    for section, device, what in (("compute", compute.device, "kernels"), ("network", network.device, "collectives")):
        if isinstance(device, str) and device and device_family(device) != device_family(platform.device):
            remedy = f"leave out {section}.device, or name the platform's own (platform.device)"
            yield Mismatch(
                ("platform", section), f"{what} are those of device {device}, and the device of {name} is {platform.device}: {remedy}"
            )


def _of_compute(compute: Compute, graph: ExecutionGraph) -> Iterator[Mismatch]:
    what = f"compute {type(compute).__name__}: mismatches"
    messages = call(what, compute.mismatches, graph.precision)
    if not isinstance(messages, (list, tuple)):
        raise PluginError(f"{what} returned {shown(messages)}; expected a list of texts")
    for message in messages:
        yield Mismatch(("compute", "workload"), str(message))
