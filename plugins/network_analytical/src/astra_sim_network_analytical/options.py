"""Options of the analytical network."""

from __future__ import annotations

from typing import ClassVar

import attrs
from astra_sim import option
from astra_sim.value_objects import ValueObject

from astra_sim_network_analytical.nccl_devices import device_tables
from astra_sim_network_analytical.rounding import ROUNDINGS


@attrs.frozen(eq=False, repr=False)
class AnalyticalOptions(ValueObject):
    """Options of the analytical network."""

    renamed_options: ClassVar[dict[str, str]] = {"charged_dimension": "accounting_dimension"}

    congestion: str = option(
        "unaware",
        choices=("unaware", "aware"),
        help="unaware: messages never wait for each other; aware: every link carries one message after another",
    )
    switching: str = option(
        "store_and_forward",
        choices=("store_and_forward", "cut_through"),
        help="aware: a node passes a message on when all of it has arrived (as ASTRA-sim 2.x does), or when its head has",
    )
    rounding: str = option(
        "nanosecond",
        choices=ROUNDINGS,
        help="nanosecond: round down to whole ns after every term (ASTRA-sim 1.0); nanosecond_sum: round down the sum (2.x); "
        "picosecond: round the sum",
    )
    accounting_dimension: str = option(
        "highest",
        choices=("highest", "lowest"),
        help="unaware: of several dimensions in which a message's ends differ, the one it is charged for: "
        "the highest, as ASTRA-sim 1.0 does; the lowest, as 2.x does",
    )
    model: str = option(
        "schedule",
        choices=("schedule", "nccl"),
        help="time of collectives: by the messages of their schedules; nccl: as NCCL does them, by parameters of a device",
    )
    device: str | None = option(
        None,
        help="nccl: whose parameters hold in a node: a device with the newest version of NCCL that it has, or with that of a name "
        f"({', '.join(device_tables())}); none: the device that the platform names",
    )
    parameters: str | None = option(None, help="nccl: a file of parameters, such as `astra calibrate collective` writes", path="path")
    channels: int | None = option(None, minimum=1, help="nccl: the most channels, where those are fewer than NCCL would use")
    nic_efficiency: float | None = option(
        None, above=0, maximum=1, help="nccl: share of the NICs' bandwidth that collectives reach; none: the parameters'"
    )
    fabric_latency: str | None = option(
        None,
        help="nccl: the fabric between nodes (infiniband, efa, tcpxo), or the latency of a message between nodes (us), in place of the "
        "platform's; set it for machines in clouds",
    )
    link_figures: bool = option(False, help="aware: the result has figures of every link that carried something")
