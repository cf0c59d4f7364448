"""Which collective algorithm runs in which dimension."""

from __future__ import annotations

from urllib.parse import parse_qsl

import attrs
from astra_sim import InputError, option
from astra_sim.context import Algorithm, Context
from astra_sim.options import Typed, structure
from astra_sim.platform import Dimension
from astra_sim.providers import CollectiveProvider
from astra_sim.schedule import Collective
from astra_sim.value_objects import ValueObject

from astra_sim_systems.choice import automatic
from astra_sim_systems.names import SYNTHESIZED

AUTO = "auto"


@attrs.frozen(eq=False, repr=False)
class ChoiceOptions(ValueObject):
    """The options of `auto`, as in `auto?synthesize=true`."""

    synthesize: bool = option(False, help="collectives over all NPUs are designed for the platform (package astra-sim-synthesis)")


def auto_options(name: str) -> ChoiceOptions | None:
    """The options of `auto` that a name of an algorithm has; None if it is another algorithm. Raises InputError."""
    plugin, question, query = name.partition("?")
    if plugin != AUTO:
        return None
    table = {key: Typed(value) for key, value in parse_qsl(query, keep_blank_values=True)}
    if question and not table:
        raise InputError(f"{name!r}; expected auto, or auto?synthesize=true")
    options: ChoiceOptions = structure(ChoiceOptions, table, AUTO)
    return options


class TooFewAlgorithms(InputError):
    """A collective has fewer algorithms than there are dimensions."""


def algorithms_of(kind: Collective, chosen: str | tuple[str, ...], endpoint_ns: float, context: Context) -> list[Algorithm]:
    """The algorithm of each physical dimension, or fewer if the last runs over the whole platform, as `chosen` in the options.

    `auto` chooses by how long messages take, their endpoint delay with them. Raises InputError if it does not fit the platform,
    TooFewAlgorithms if there are fewer than dimensions.
    """
    platform = context.platform
    if isinstance(chosen, str):
        first = None if auto_options(chosen) is not None else context.algorithm(chosen, kind.value)
        names = [chosen] if first is not None and first.whole_platform else [chosen] * len(platform.dimensions)
    else:
        names = list(chosen)
    algorithms: list[Algorithm] = []
    for index, name in enumerate(names):
        if auto_options(name) is not None and index < len(platform.dimensions):
            algorithms.append(automatic(kind, endpoint_ns, context, index))
            continue
        algorithms.append(context.algorithm(name, kind.value))
        end = len(platform.dimensions) if algorithms[-1].whole_platform else index + 1
        for number, dimension in enumerate(platform.dimensions[index:end], index):
            _check_needs(kind, name, number, dimension, context)
        if algorithms[-1].whole_platform and index < len(names) - 1:
            raise InputError(f"{kind.value}: {name} runs over the whole platform, so no algorithm can follow it")
    # In ASTRA-sim 1.0 a collective with fewer algorithms never does the other dimensions; with more, behaviour is undefined.
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
    kind: Collective, chosen: str | tuple[str, ...], algorithms: list[Algorithm], endpoint_ns: float, context: Context
) -> Algorithm:
    """The algorithm of a dimension of a workload that reaches over several of the platform: that of the first."""
    if auto_options(chosen if isinstance(chosen, str) else chosen[0]) is None:
        return algorithms[0]
    return automatic(kind, endpoint_ns, context)


def designed_algorithm(kind: Collective, chosen: str | tuple[str, ...], context: Context) -> Algorithm | None:
    """The algorithm of collectives over all NPUs if `chosen` is `auto?synthesize=true`: designed for the platform. None: not asked for.

    Raises InputError if only some dimensions ask for it, or no plugin has it.
    """
    asked = [options.synthesize for options in map(auto_options, (chosen,) if isinstance(chosen, str) else chosen) if options is not None]
    if not any(asked):
        return None
    if not isinstance(chosen, str):
        raise InputError(f"{kind.value}: synthesize=true is for the whole platform; expected one algorithm, auto?synthesize=true")
    return context.algorithm(SYNTHESIZED, kind.value)


def _check_needs(kind: Collective, name: str, index: int, dimension: Dimension, context: Context) -> None:
    """Raise InputError if the topology of a dimension lacks attributes that an algorithm needs."""
    provider, _ = context.component("collective", name, kind.value)
    for need in provider.missing(dimension.topology) if isinstance(provider, CollectiveProvider) else ():
        raise InputError(
            f"{kind.value}: {name} needs a topology with {need}, and dimension {index} ({dimension.topology.name}) has none;"
            f" expected another algorithm, or a topology that has it (such as a switch with {need} = true)"
        )
