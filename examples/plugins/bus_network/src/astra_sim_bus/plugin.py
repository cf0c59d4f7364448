"""What this package offers."""

from __future__ import annotations

from astra_sim import Provider, hookimpl


@hookimpl
def astra_networks() -> list[Provider]:
    return [
        Provider(
            "bus",
            "All messages share one bus",
            factory="astra_sim_bus.network:BusNetwork",
            options="astra_sim_bus.network:BusOptions",
            examples=[{}, {"latency_ns": 0}],
        )
    ]
