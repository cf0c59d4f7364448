"""Which collective algorithm runs in which dimension."""

from __future__ import annotations

from astra_sim import InputError
from astra_sim.context import Algorithm, Context
from astra_sim.platform import Dimension
from astra_sim.providers import CollectiveProvider
from astra_sim.schedule import Collective

from astra_sim_systems.choice import automatic


class TooFewAlgorithms(InputError):
    """A collective has fewer algorithms than there are dimensions."""


def algorithms_of(kind: Collective, chosen: str | tuple[str, ...], endpoint_ns: float, context: Context) -> list[Algorithm]:
    """The algorithm of each physical dimension, or fewer if the last runs over the whole platform, as `chosen` in the options.

    `auto` chooses by how long messages take, their endpoint delay with them. Raises InputError if it does not fit the platform,
    TooFewAlgorithms if there are fewer than dimensions.
    """
    platform = context.platform
    if isinstance(chosen, str):
        first = None if chosen == "auto" else context.algorithm(chosen, kind.value)
        names = [chosen] if first is not None and first.whole_platform else [chosen] * len(platform.dimensions)
    else:
        names = list(chosen)
    algorithms: list[Algorithm] = []
    for index, name in enumerate(names):
        if name == "auto" and index < len(platform.dimensions):
            algorithms.append(automatic(kind, endpoint_ns, context, index))
            continue
        algorithms.append(context.algorithm(name, kind.value))
        end = len(platform.dimensions) if algorithms[-1].whole_platform else index + 1
        for number, dimension in enumerate(platform.dimensions[index:end], index):
            _check_needs(kind, name, number, dimension, context)
        if algorithms[-1].whole_platform and index < len(names) - 1:
            raise InputError(f"{kind.value}: {name} runs over the whole platform, so no algorithm can follow it")
    complete = algorithms and algorithms[-1].whole_platform
    if not names:
        key = f"{kind.value.replace('_', '-')}-implementation"
        raise TooFewAlgorithms(
            f"{kind.value} has 0 algorithms for {len(platform.dimensions)} dimensions (in a file of ASTRA-sim, {key} is missing);"
            " expected one for each dimension"
        )
    if len(names) > len(platform.dimensions) or (len(names) < len(platform.dimensions) and not complete):
        raise (InputError if len(names) > len(platform.dimensions) else TooFewAlgorithms)(
            f"{kind.value} has {len(names)} algorithms ({', '.join(names)}) for {len(platform.dimensions)} dimensions;"
            " expected one for each dimension"
        )
    return algorithms


def algorithm_across(
    kind: Collective, chosen: str | tuple[str, ...], own: list[Algorithm], endpoint_ns: float, context: Context
) -> Algorithm:
    """The algorithm of a dimension of a workload that reaches over several of the platform: that of the first."""
    if (chosen if isinstance(chosen, str) else chosen[0]) != "auto":
        return own[0]
    return automatic(kind, endpoint_ns, context)


def _check_needs(kind: Collective, name: str, index: int, dimension: Dimension, context: Context) -> None:
    """Raise InputError if the topology of a dimension lacks attributes that an algorithm needs."""
    provider, _ = context.component("collective", name, kind.value)
    for need in provider.missing(dimension.topology) if isinstance(provider, CollectiveProvider) else ():
        raise InputError(
            f"{kind.value}: {name} needs a topology with {need}, and dimension {index} ({dimension.topology.name}) has none;"
            f" expected another algorithm, or a topology that has it (such as a switch with {need} = true)"
        )
