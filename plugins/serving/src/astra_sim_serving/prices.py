"""What a fleet costs: prices of NPUs by the hour, and dollars of a run."""

from __future__ import annotations

from astra_sim import InputError

from astra_sim_serving.compiled import CompiledFleet
from astra_sim_serving.fleet import ServingFleet
from astra_sim_serving.options import ServingOptions
from astra_sim_serving.result import ServingResult

SECONDS_PER_HOUR = 3600


def prices_of(options: ServingOptions, where: str) -> list[float] | None:
    """The price of an NPU-hour of each pool, in USD; None if none is given. Raises InputError if some pools have none."""
    prices = [pool.gpu_hour_usd if pool.gpu_hour_usd is not None else options.gpu_hour_usd for pool in options.pool]
    known = [price for price in prices if price is not None]
    if known and len(known) < len(prices):
        raise InputError(
            f"{where}: serving.pool.{prices.index(None)}: gpu_hour_usd is missing, and another pool has one; expected a price of each,"
            " or serving.gpu_hour_usd"
        )
    return known or None


def add_costs(result: ServingResult, fleet: ServingFleet | CompiledFleet, options: ServingOptions, prices: list[float]) -> None:
    """Set the dollars of the NPUs of a run from the first arrival to the last token, of all pools and of those of each model."""
    span = result.makespan_s
    begin = result.sequences[0].request.arrival if result.sequences else 0.0
    usd = []
    for number, (pool, price) in enumerate(zip(options.pool, prices, strict=True)):
        npu_s = pool.instances * pool.sharding.npus * span
        if fleet.scaler is not None:
            npu_s = fleet.scaler.document(begin, begin + span, [fleet.scaler.pools[number]])["npu_s"]
        usd.append(price * npu_s / SECONDS_PER_HOUR)
    result.usd = sum(usd)
    for name, part in result.models.items():
        part.usd = sum(each for each, pool in zip(usd, options.pool, strict=True) if pool.model == name)
