"""From the tables of an experiment to the components of a run."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import attrs

from astra_sim._boundary import COUNT, call, checked, contain_exits, shown
from astra_sim.compute import Compute, NpuPs, Variation
from astra_sim.context import Context
from astra_sim.engine.interface import EngineType
from astra_sim.errors import AstraError, InputError, PluginError, RunError, located, locating, reworded, warn
from astra_sim.fabric import RouteRules
from astra_sim.files import Table
from astra_sim.graph import ExecutionGraph, check_graph, chooses_algorithms
from astra_sim.memory import Memory
from astra_sim.network import EventNetwork, Network, RefiningNetwork, RouteDelayNetwork
from astra_sim.platform import Dimension, Platform, Preset, Topology, with_logical_dimensions
from astra_sim.providers import Provider, options_of
from astra_sim.run.alone import AloneRuns
from astra_sim.run.simulation import simulate_graph
from astra_sim.setup.changed_links import with_changed_links, without_parts
from astra_sim.setup.defaults import dotted, taken_defaults, with_defaults
from astra_sim.setup.engines import find_engine
from astra_sim.setup.experiment import DEFAULTS, SECTION_KINDS, Experiment
from astra_sim.setup.groups import check_groups
from astra_sim.setup.mismatches import Mismatch, mismatches
from astra_sim.setup.plugins import Plugins
from astra_sim.setup.provenance import Provenance, provenance
from astra_sim.setup.run_options import RunOptions
from astra_sim.setup.slow_npus import npu_times
from astra_sim.setup.specs import component_of, sizes_of
from astra_sim.system import System


class PluginSection(NamedTuple):
    """A section of an experiment for a plugin: the kind of its component, the options, and its name in errors."""

    kind: str
    provider: Provider
    options: Any
    where: str

    def instance_of(self, *context: Any) -> Any:
        """The component that its factory makes. Raises InputError."""
        with locating(self.where):
            return self.provider.create(self.options, *context)

    def figures(self, result: Any, platform: Platform) -> Mapping[str, Any]:
        """The figures of an account. Raises InputError."""
        results = self.instance_of(result, platform)
        if not isinstance(results, Mapping):
            raise PluginError(f"account {self.provider.name!r} returned {shown(results)}; expected figures by name")
        return results


@attrs.frozen(eq=False, repr=False)
class Components:
    """The components of a run, ready to be simulated. `provenance` is the experiment they were built from, if any.

    `stated` is the platform in the experiment, before the compute model's `collective_share` slows links between nodes.
    `engine` simulates it. `npu_ps` is the compute time of each NPU; None: the same on all.
    `taken` are the options of the workload that come from the compute model's software, by name; `mismatches` are contradictions.
    `accounts` compute the cost of the run.
    """

    graph: ExecutionGraph
    platform: Platform
    system: System
    network: Network
    compute: Compute
    memory: Memory
    run: RunOptions
    names: dict[str, str]
    provenance: Provenance | None = None
    taken: Mapping[str, Any] = attrs.field(factory=dict)
    mismatches: Sequence[Mismatch] = ()
    stated: Platform | None = None
    npu_ps: NpuPs | None = None
    engine: EngineType = attrs.field(factory=find_engine)
    accounts: Sequence[PluginSection] = ()


@contain_exits()
def build(experiment: Experiment, plugins: Plugins) -> Components:
    """Build everything that an experiment names. Raises InputError, naming if, if something does not fit."""
    plugins.tell()
    run = experiment.run_options()
    engine = find_engine(run.engine, plugins, f"{experiment.where('run')}: engine")
    sections = _plugin_sections(experiment, plugins)
    _check_workload(experiment)
    names: dict[str, str] = {}
    maker = _Maker(experiment, plugins, names)
    for kind in DEFAULTS:
        if kind != "platform":
            maker.provider(kind)
    network = maker.instance("network", (RouteDelayNetwork, EventNetwork))
    platform = maker.instance("platform", Platform)
    if platform is None:
        platform = (
            network.platform if network is not None and "platform" not in experiment.sections else build_platform(experiment, plugins)
        )
    compute, stated = maker.compute(platform), platform
    memory = maker.instance("memory", Memory) or maker.make("memory", Memory)
    maker.warn_of_left_out()
    variations = _variations(sections, platform)
    changes = [change for each in variations for change in each.links]
    if network is None:
        platform = with_changed_links(platform.slowed_between_nodes(compute.collective_share), changes)
    elif changes:
        raise InputError(f"{changes[0].where}: a network that is given brings its own links; expected a network by name")
    elif compute.collective_share != 1:
        warn(f"{experiment.where('compute')}: collective_share has no effect: a network that is given brings its own platform")
    network = network or maker.make("network", (RouteDelayNetwork, EventNetwork), platform)
    if network.platform is not platform and network.platform != platform:
        raise InputError(
            f"network: {type(network).__name__} is made for {_shape(network.platform)}, and the platform is {_shape(platform)};"
            " expected one platform for both (a network given as an object brings its own)"
        )
    npu_variations = [each.npu_ps for each in variations if each.npu_ps is not None]
    npu_ps = npu_times(compute, run.slow_npus, npu_variations, platform.npus, f"{experiment.where('run')}: slow_npus")
    groups = check_groups(run.groups, platform.npus, experiment.where("groups"))
    waits = isinstance(network, EventNetwork)
    held_bytes, rules = (network.held_bytes, network.route_rules) if isinstance(network, EventNetwork) else (0.0, RouteRules())
    context = Context(
        plugins,
        platform,
        run,
        compute,
        groups=groups,
        messages_wait=waits,
        held_bytes=held_bytes,
        route_rules=rules,
        collectives_of=network.device,
        varies=bool(variations),
    )
    system = maker.instance("system", System) or maker.make("system", System, context)
    context = attrs.evolve(
        context,
        tick_ps=system.tick_ps,
        replay_only=system.replay_only,
        node_algorithms=system.node_algorithms,
        time_alone=AloneRuns(simulate_graph, system, network, memory, engine).duration_ps,
    )
    graph = maker.instance("workload", ExecutionGraph)
    taken: Table = {}
    if graph is None:
        taken = taken_defaults(maker.provider("workload"), maker.table("workload"), compute, context)
        graph = maker.make("workload", ExecutionGraph, context, defaults=taken)
    try:
        check_graph(graph, platform.npus)
    except ValueError as error:
        raise InputError(f"{experiment.where('workload')}: {error}") from None
    if system.one_at_a_time_unless_ordered:
        call(f"system {type(system).__name__}: one_at_a_time", setattr, system, "one_at_a_time", not graph.keeps_order)
    _warn_of_unread(experiment, system, graph, context)
    if graph.footprint_bytes is not None:
        memory.require(graph.footprint_bytes, experiment.where("workload"))
    result = mismatches(platform, compute, network, graph)
    for mismatch in result:
        warn(mismatch.message)
    maker.options.update({each.provider.name: each.options for each in sections})
    origin = provenance(experiment, plugins, maker.options, taken, compute.workload_defaults.get(names["workload"], {}))
    for difference in origin.changed_inputs():
        warn(f"{difference}: the result may be another")
    return Components(
        graph=graph,
        platform=platform,
        system=system,
        network=network,
        compute=compute,
        memory=memory,
        run=run,
        engine=engine,
        names=names,
        provenance=origin,
        taken=dict(dotted(taken)),
        mismatches=result,
        stated=stated,
        npu_ps=npu_ps,
        accounts=[each for each in sections if each.kind == "account"],
    )


def _plugin_sections(experiment: Experiment, plugins: Plugins) -> list[PluginSection]:
    """The sections of an experiment that are of plugins, in the order in which plugins list them. Raises InputError."""
    plugin_sections = []
    for kind in SECTION_KINDS if experiment.plugin_sections else ():
        for name in plugins.components(kind):
            if name in experiment.plugin_sections:
                provider, where = plugins.get(kind, name), experiment.where(name)
                plugin_sections.append(PluginSection(kind, provider, options_of(provider, experiment.plugin_sections[name], where), where))
    return plugin_sections


def _check_workload(experiment: Experiment) -> None:
    """Raise InputError if there is no workload."""
    if "workload" not in experiment.sections:
        raise InputError("no workload is given (--workload FILE or plugin:NAME, or an experiment file)")


def _variations(sections: Sequence[PluginSection], platform: Platform) -> list[Variation]:
    """The variations of the sections. Raises InputError."""
    result = []
    for section in sections:
        if section.kind == "variation":
            variation = section.instance_of(platform)
            if not isinstance(variation, Variation) and not callable(variation):
                raise PluginError(f"a variation is {shown(variation)}; expected a Variation, or a function of an operation that starts")
            result.append(variation if isinstance(variation, Variation) else Variation(variation))
    return result


def _warn_of_unread(experiment: Experiment, system: System, graph: ExecutionGraph, context: Context) -> None:
    """Warn of algorithms of nodes and of communicator groups that no operation of the graph asks for."""
    if system.node_algorithms and not chooses_algorithms(graph):
        ids = ", ".join(map(str, system.node_algorithms))
        warn(f"{experiment.where('system')}: the algorithms of single nodes have no effect: no collective of the workload has the id {ids}")
    if context.groups and not context.groups_in_use and isinstance(experiment.sections.get("workload"), Mapping):
        warn(f"{experiment.where('groups')}: has no effect: no operation of the workload names one of these communicator groups")


def check_options(experiment: Experiment, plugins: Plugins) -> None:
    """Raise InputError if a component is unknown or has no such option, or a value is not one of the option's, without making any."""
    experiment.run_options()
    _plugin_sections(experiment, plugins)
    _check_workload(experiment)
    maker = _Maker(experiment, plugins, {})
    for kind in DEFAULTS:
        if kind != "platform" and (provider := maker.provider(kind)) is not None:
            options_of(provider, maker.table(kind), experiment.where(kind))
    table = experiment.sections.get("platform")
    if isinstance(table, Mapping):
        where = experiment.where("platform")
        _, _, parts = _described({key: value for key, value in table.items() if key != "without"}, where)
        for number, part in enumerate(parts):
            _part_options(part, f"{where}: dimension {number}", plugins)


def make_network(experiment: Experiment, plugins: Plugins, platform: Platform) -> Network | None:
    """The network of an experiment once more, without its warnings; None if it was given as an object."""
    if not isinstance(experiment.sections.get("network", {}), Mapping):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        network: Network = _Maker(experiment, plugins, {}).make("network", (RouteDelayNetwork, EventNetwork), platform)
    return network


def network_of(plugins: Plugins, platform: Platform, where: str, spec: str) -> Network:
    """The network that a spec (`NAME?key=value`) names, on a platform. Raises InputError beginning with `where`."""
    provider, options = component_of(plugins, "network", spec, where)
    if provider.takes_networks:
        raise InputError(f"{where}: {spec!r} is a network that is made of others; expected one that is not")
    network: Network = provider.instance_of(options, platform)
    return network


def component(kind: str, spec: str, plugins: Plugins, where: str) -> Any:
    """The compute or memory model that a spec string or the path of a file names, made by itself. Raises InputError."""
    experiment = Experiment()
    experiment.use(kind, spec, plugins, where=where)
    return _Maker(experiment, plugins, {}).make(kind, {"compute": Compute, "memory": Memory}[kind])


def _shape(platform: Platform) -> str:
    return "a platform of " + " x ".join(f"{d.size} ({d.topology.name})" for d in platform.dimensions) + " NPUs"


@attrs.frozen(eq=False, repr=False)
class _Maker:
    """Makes the components that the sections of an experiment describe; `names` gets the name of each, `options` its options, if any."""

    experiment: Experiment
    plugins: Plugins
    names: dict[str, str]
    options: dict[str, Any] = attrs.field(factory=dict)

    def instance(self, kind: str, classes: Any) -> Any:
        """The object that was given for a section in Python, or None."""
        value = self.experiment.sections.get(kind)
        if value is None or isinstance(value, Mapping):
            return None
        if not isinstance(value, classes):
            raise InputError(f"{kind}: {value!r} is not a spec string, a path, a table or a {kind}")
        self.names[kind] = type(value).__name__
        return checked(value)

    def provider(self, kind: str) -> Any:
        """The plugin that a section's table names. Raises PluginError if there is none; None if an object is given."""
        table = self.experiment.sections.get(kind, {})
        if not isinstance(table, Mapping):
            return None
        where = self.experiment.where(kind)
        name = table.get("plugin", DEFAULTS[kind])
        if not isinstance(name, str):
            raise InputError(f"{where}: plugin is {name!r}, not a name")
        with locating(where):
            return self.plugins.get(kind, str(name))

    def warn_of_left_out(self) -> None:
        """Warn if the platform's file has a network of the chosen plugin with other options, which are not used."""
        beside, table = self.experiment.left_out, self.experiment.sections.get("network", {})
        provider = self.provider("network")
        if beside is None or provider is None or beside.get("plugin") != provider.name:
            return
        where = self.experiment.where("network")
        of_table, of_file = ({key: value for key, value in options.items() if key != "plugin"} for options in (table, {**beside, **table}))
        chosen, meant = options_of(provider, of_table, where), options_of(provider, of_file, where)
        others = [f"network.{key}={of_file[key]}" for key in of_file if getattr(chosen, key) != getattr(meant, key)]
        if others:
            warn(
                f"{self.experiment.where('platform')}: only the platform is taken from this file, not the rules of its network:"
                f" {', '.join(others)} (--set gives them, or the file as --network)"
            )

    def table(self, kind: str) -> Table:
        """A section's table without the name of its plugin."""
        table: Table = dict(self.experiment.sections.get(kind, {}))
        table.pop("plugin", None)
        return table

    def compute(self, platform: Platform) -> Compute:
        """The compute model on a platform."""
        result: Compute = self.instance("compute", Compute) or self.make("compute", Compute)
        result = self._placed(result, "for_platform", platform)
        if isinstance(self.experiment.sections.get("workload"), Mapping):
            workload = self.provider("workload")
            result = self._placed(result, "for_workload", workload.name, workload.traits_of(self.table("workload")))
        return result

    def _placed(self, model: Compute, asked: str, *arguments: Any) -> Compute:
        """The model that a model gives for a platform or a workload."""
        what = f"compute {type(model).__name__}: {asked}"
        with locating(self.experiment.where("compute")):
            placed = call(what, getattr(model, asked), *arguments)
        if not isinstance(placed, Compute):
            raise PluginError(f"{what} returned {shown(placed)}, which is not a compute model")
        checked(placed)
        return placed

    def make(self, kind: str, classes: Any, *context: Any, defaults: Mapping[str, Any] | None = None) -> Any:
        """The component that a section's table describes, with `defaults` for absent options."""
        provider = self.provider(kind)
        where = self.experiment.where(kind)
        table = with_defaults(self.table(kind), defaults or {})
        self.names[kind] = provider.name
        options = self.options[kind] = options_of(provider, table, where)
        if provider.takes_networks:
            (platform,) = context
            context = platform, partial(network_of, self.plugins, platform, where)
        try:
            result = provider.instance_of(options, *context)
        except AstraError as error:
            raise located(_with_origin(error, defaults or {}), where) from None
        except MemoryError:
            raise RunError(f"{where}: memory ran out when {kind} {provider.name!r} was made; expected more memory") from None
        if not isinstance(result, classes):
            raise PluginError(f"{kind} plugin {provider.name!r} returned {shown(result)}, which is not a {kind}")
        simulates_links = isinstance(result, EventNetwork) and not isinstance(result, RefiningNetwork)
        if kind == "network" and context[0].changed_links and not simulates_links:
            raise InputError(
                f"{where}: network {provider.name!r} does not simulate links, some of which are slower or down (variation.links,"
                " platform.without); expected one that does, such as plugin:analytical?congestion=aware"
            )
        return result


def _with_origin(error: AstraError, defaults: Mapping[str, Any]) -> AstraError:
    """The error with those of the compute model's defaults that its message names, which the experiment does not have."""
    names = [name for name, _ in dotted(defaults) if name in str(error)]
    if not isinstance(error, InputError) or not names:
        return error
    return reworded(error, f"{error} ({', '.join(names)}: of the compute model's stack, unless the workload gives it)")


def build_platform(experiment: Experiment, plugins: Plugins) -> Platform:
    """The platform that the section of an experiment describes. Raises InputError."""
    where = experiment.where("platform")
    table = dict(experiment.sections.get("platform", {}))
    without = table.pop("without", None)
    results, logical, parts = _described(table, where)
    structured = [_part(part, f"{where}: dimension {number}", plugins) for number, part in enumerate(parts)]
    presets = [preset for preset, _ in structured if preset is not None]
    dimensions = [dimension for _, each in structured for dimension in each]
    whole = presets[0] if len(structured) == len(presets) == 1 else None
    name = whole.name if whole is not None else ""
    device = next((preset.device for preset in presets), "")
    platform = Platform(
        tuple(dimensions), results.get("name", name), results.get("device", device), whole.physical if whole is not None else None
    )
    if logical is not None:
        with locating(where):
            platform = with_logical_dimensions(platform.wired(), logical)
    return platform if without is None else without_parts(platform, without, f"{where}: without")


def _described(section: Mapping[str, Any], where: str) -> tuple[dict[str, str], list[int] | None, Sequence[Any]]:
    """A platform's section: its name and device, sizes of logical dimensions, and a table for each part. Raises InputError."""
    table = dict(section)
    if not table:
        raise InputError("no platform is given (--platform FILE or plugin:NAME, or a network file that holds one)")
    result: dict[str, str] = {key: _text(table.pop(key), f"{where}: {key}") for key in ("name", "device") if key in table}
    logical = sizes_of(table.pop("logical_dims"), f"{where}: logical_dims") if "logical_dims" in table else None
    if not table:
        raise InputError(f"{where}: logical dimensions alone; expected a platform with links, too (as config.txt names)")
    if "plugin" in table:
        if "topology" in table:
            raise InputError(f"{where}: plugin and topology are given; expected one of the two")
        parts: Any = [{("topology" if key == "plugin" else key): value for key, value in table.items()}]
    else:
        parts = table.pop("dimensions", ())
        for key in table:
            raise InputError(
                f"{where}: unknown key {key!r}; known: name, device, logical_dims, without, dimensions, or plugin and its options"
            )
        if not isinstance(parts, Sequence) or isinstance(parts, str) or not parts:
            raise InputError(f"{where}: dimensions is {parts!r}, not a list of at least one dimension")
    return result, logical, parts


def build_compute(experiment: Experiment, plugins: Plugins, platform: Platform | None = None) -> Compute:
    """The compute model of an experiment on its platform, by themselves. Raises InputError."""
    maker = _Maker(experiment, plugins, {})
    return maker.compute(build_platform(experiment, plugins) if platform is None else platform)


def workload_options(experiment: Experiment, plugins: Plugins, compute: Compute, context: Context) -> Any:
    """The options of an experiment's workload, with those that it takes from the compute model. Raises InputError."""
    maker = _Maker(experiment, plugins, {})
    provider, table = maker.provider("workload"), maker.table("workload")
    return options_of(provider, with_defaults(table, taken_defaults(provider, table, compute, context)), experiment.where("workload"))


def dimensions_of(preset: Preset, where: str, plugins: Plugins) -> Sequence[Dimension]:
    """The dimensions of a preset. Raises InputError, naming `where`, PluginError if it names no topology."""
    dimensions: list[Dimension] = []
    for table in preset.dimensions:
        inner, part = _part(table, where, plugins)
        if inner is not None:
            raise PluginError(f"{where}: preset {preset.name!r} is made of preset {inner.name!r}; expected topologies")
        dimensions += part
    return dimensions


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise InputError(f"{where} is {value!r}, not text")
    return str(value)


def _part(part: Any, where: str, plugins: Plugins) -> tuple[Preset | None, Sequence[Dimension]]:
    """The dimensions of a table, usually one, and the preset that has them, if it names one."""
    provider, options = _part_options(part, where, plugins)
    with locating(where):
        dimensions = provider.instance_of(options)
    if isinstance(dimensions, Preset):
        return dimensions, dimensions_of(dimensions, where, plugins)
    if not isinstance(dimensions, (list, tuple)) or not dimensions or not all(isinstance(dimension, Dimension) for dimension in dimensions):
        raise PluginError(f"{where}: platform plugin {provider.name!r} returned {shown(dimensions)}, which is not a list of dimensions")
    for dimension in dimensions:
        _check_topology(dimension.topology, f"{where}: platform plugin {provider.name!r}: topology {dimension.topology.name!r}")
    return None, dimensions


def _check_topology(topology: Topology, what: str) -> None:
    """Raise PluginError unless a topology has the methods of one, and a number of links."""
    for name in ("hops", "is_symmetric", "links_per_message", "links_per_npu"):
        method = call(f"{what}: {name}", getattr, topology, name)
        if not callable(method):
            raise PluginError(f"{what}: {name} is {shown(method)}; expected a method")
        if name.startswith("links") and not COUNT.is_right(links := call(f"{what}: {name}", method), topology):
            raise PluginError(f"{what}: {name} returned {shown(links)}; expected {COUNT.words}")


def _part_options(part: Any, where: str, plugins: Plugins) -> tuple[Any, Any]:
    """The topology that the table of a dimension names, and its options. Raises InputError."""
    if not isinstance(part, Mapping):
        raise InputError(f"{where}: {part!r} is not a table")
    options = dict(part)
    topology = options.pop("topology", None)
    if not isinstance(topology, str):
        raise InputError(f"{where}: topology is missing" if topology is None else f"{where}: topology is {topology!r}, not a name")
    with locating(where):
        provider = plugins.get("platform", str(topology))
        return provider, options_of(provider, options, where)
