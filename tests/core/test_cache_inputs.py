"""Nothing that a run depends on is forgotten in what its results are kept by.

What follows from equal inputs is kept from run to run. Each input of each component is changed in turn, and a run after others must say
what it says where nothing is kept. Components are those of the registry: one that is added is tested, and so is an option.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import operator
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import astra_sim
import attrs
import pytest
from astra_sim.context import Context
from astra_sim.errors import AstraError, InputError
from astra_sim.fabric import RouteRules
from astra_sim.graph import Communicate, Pass
from astra_sim.memo import clear_caches, without_cache
from astra_sim.platform import Dimension, LogicalDimension, Platform
from astra_sim.providers import Provider, options_of
from astra_sim.schedule import Collective, Request, lower
from astra_sim.setup.plugin_modules import KINDS
from astra_sim.setup.plugins import shared_plugins
from astra_sim.setup.run_options import RunOptions
from astra_sim.system import PhasePlan
from astra_sim.value_objects import ValueObject
from astra_sim_systems.choice import automatic
from support import figures
from support.caches import changes
from support.components import components_of

LINKS = {"link_bandwidth_gib_per_s": 25, "link_latency_ns": 500}
RING: dict[str, Any] = {"topology": "ring", "size": 4, "links": 2, **LINKS}
MESH: dict[str, Any] = {"topology": "mesh", "sizes": [4], **LINKS}
COLLECTIVE = {"plugin": "collective", "bytes": 64}
PLATFORM = {"dimensions": [RING, MESH]}
"""Two dimensions, on the second of which `auto` compares algorithms."""
MESHES = {"dimensions": [MESH, {**MESH, "link_bandwidth_gib_per_s": 1, "link_latency_ns": 9000}]}

WITHOUT_RUNS = ("format", "report", "command", "model", "serving_policy", "explainer", "account", "placement")
"""Kinds of components that change no figure of a run of a workload."""

COMPONENTS = [(kind, name) for kind in KINDS if kind not in WITHOUT_RUNS for name in shared_plugins().components(kind)]

ELSEWHERE = [
    "platform.dimensions.0.link_latency_ns=50",
    "platform.dimensions.1.link_bandwidth_gib_per_s=3",
    "platform.dimensions.1.nic_latency_ns=90",
    "platform.dimensions.0.size=8",
    "network.congestion=aware",
    "network.accounting_dimension=lowest",
    "network.rounding=picosecond",
    "compute.scale=2",
    "memory.latency_ns=100",
]
"""Changes of other components than the one that is tested."""


def context_of(table: dict[str, Any]) -> Context:
    """The context of a run on a platform."""
    components = components_of(workload=COLLECTIVE, platform=table)
    return Context(shared_plugins(), components.platform, RunOptions(), components.compute)


def layer(name: str, computing: dict[str, Any]) -> dict[str, Any]:
    collectives = {"forward": ("all_gather", 512), "input_gradient": ("all_to_all", 2048), "weight_gradient": ("all_reduce", 4096)}
    passes = {each: {**computing, "collective": kind, "collective_bytes": size} for each, (kind, size) in collectives.items()}
    return {"name": name, "loop": "data", **passes}


def experiment(kind: str, provider: Provider, options: dict[str, Any]) -> dict[str, Any]:
    """A run with a component, on two dimensions."""
    name, spec = provider.name, "?".join([provider.name, *["&".join(f"{key}={value}" for key, value in options.items())][: len(options)]])
    computing = {"gemm": {"m": 64, "n": 64, "k": 64}} if kind == "compute" and name != "recorded" else {"compute_ns": 300}
    result: dict[str, Any] = {"workload": {"plugin": "layers", "loop": "data", "layers": [layer(each, computing) for each in "abc"]}}
    result["platform"] = PLATFORM
    match kind:
        case "workload":
            if name != "layers":  # whose example needs a compute model that it does not have
                result["workload"] = {"plugin": name, **options}
            if name == "llm":
                result["compute"] = {"plugin": "roofline", "peak_tera_ops_per_s": 50, "memory_bandwidth_gb_per_s": 100}
            if name in ("hlo", "torch_capture"):
                result["platform"] = {"dimensions": [RING, {**MESH, "sizes": [2]}]}
                result["compute"] = {"plugin": "gpu", "device": "h100"}
            if name == "chakra":
                result["platform"] = {"dimensions": [RING, {**MESH, "sizes": [2]}]}
                result["memory"] = {"plugin": "remote", "bandwidth_gb_per_s": 10}
        case "training_loop":
            result["workload"] |= {"loop": name, "loop_options": options}
        case "collective":
            result["system"] = {"plugin": "astra1", "all_gather" if name.startswith(("msccl", "one_msccl")) else "all_reduce": spec}
            if name == "in_network":
                result["platform"] = {"dimensions": [{"topology": "switch", "size": 4, "in_network_reduction": True, **LINKS}]}
            if name in ("one_chakra", "one_msccl", "one_mscclpp"):
                result["platform"] = {"dimensions": [RING]}
            if name == "synthesized":  # whose cost grows fast with the NPUs
                result["platform"] = {"dimensions": [{**RING, "size": 2}, {**MESH, "sizes": [2]}]}
        case "scheduler":
            which = "intra" if provider.orders == "queue" else "inter"  # type: ignore[attr-defined]
            result["system"] = {"plugin": "astra1", "splits": 4, f"{which}_dimension_scheduling": spec}
        case "platform" if "file" in options or name == "gpu_mesh":  # whose links differ
            result["platform"] = {"dimensions": [{"topology": name, **options}]}
            result["network"] = {"plugin": "analytical", "congestion": "aware"}
        case "engine":
            result[kind] = name
        case "variation":
            result["experiment"] = astra_sim.Experiment(plugin_sections={name: options})
        case _:
            result[kind] = {"plugin": name, **options}
    return result


def changed(kind: str, provider: Provider, options: dict[str, Any], first: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """What changes, and the run: each option of a component with other values, and for the first of its examples each other thing."""
    name = provider.name
    result = experiment(kind, provider, options)
    for key, value in changes(provider.load_options(), options):
        if kind in ("training_loop", "collective", "scheduler") or "file" in options:
            yield key, experiment(kind, provider, {**options, key: value})
        else:
            yield key, {**result, "set": [f"{name if kind == 'variation' else kind}.{key}={value}"]}
    if kind in ("workload", "training_loop", "system", "collective") and options == first:
        yield from ((key, {**result, key: value}) for key, value in changes(RunOptions, {}))
        elsewhere = (text.replace("size=8", "size=3") if name == "synthesized" else text for text in ELSEWHERE)
        yield from ((text, {**result, "set": [text]}) for text in elsewhere)


def outcome(given: dict[str, Any]) -> str:
    """The figures of a run, or its error."""
    try:
        return json.dumps(figures(astra_sim.simulate(**given)), default=str)
    except AstraError as error:
        return str(error)


@pytest.mark.filterwarnings("ignore::astra_sim.errors.InputWarning")
@pytest.mark.parametrize(("kind", "name"), COMPONENTS, ids=map(":".join, COMPONENTS))
def test_a_run_says_what_it_says_where_nothing_is_kept(kind: str, name: str, tmp_path: Path) -> None:
    provider = shared_plugins().get(kind, name)
    examples = [dict(options) for options in provider.load_examples(tmp_path)] or [{}]
    for options in examples[:2]:
        if "nvl72" in name and "nodes" in options:  # a fabric of 288 NPUs is routed again in each run
            options["nodes"] = 2
        assert outcome(experiment(kind, provider, options)).startswith("{"), "the component is not run"
        runs: list[dict[str, Any]] = []
        after_others: list[str] = []
        for _, same in itertools.groupby(changed(kind, provider, options, examples[0]), key=operator.itemgetter(0)):
            outcome(experiment(kind, provider, options))  # what is kept of it is the newest, and would do if this option were forgotten
            runs += [run for _, run in same]
            after_others += [outcome(run) for run in runs[len(after_others) :]]
        for each, result in zip(runs, after_others, strict=True):
            clear_caches()
            assert outcome(each) == result, each


OPERATIONS = [
    Communicate((), kind, size, dimensions, 0, Pass.FORWARD, urgent=urgent)
    for kind in Collective
    for size in (65536, 1 << 24)
    for dimensions in ((0,), (0, 1))
    for urgent in (False, True)
]

RUN_BY_CONTEXT: dict[str, list[Any]] = {
    "platform": [],  # its dimensions are changed one figure at a time
    "run": [],  # its options are
    "compute": [None],
    "tick_ps": [1000],
    "groups": [{"pair": (0, 1)}],
    "replay_only": [True],
    "node_algorithms": [{0: "ring"}],
    "messages_wait": [False],
    "held_bytes": [math.inf],
    "route_rules": [RouteRules("never", "all")],
    "collectives_of": ["h100"],
    "varies": [True],
}
"""What a context says, with other values than that of the runs here; a test holds that it is all."""

LEFT_OUT = {
    "plugins": "what is kept goes by the objects that providers are, and other plugins have others",
    "groups_in_use": "what workloads write while they are made, for a warning; nothing that is kept reads it",
}


def contexts(context: Context) -> Iterator[Context]:
    """A context that differs in one thing at a time from another."""
    for key, values in RUN_BY_CONTEXT.items():
        yield from (attrs.evolve(context, **{key: value}) for value in values)
    for key, value in changes(RunOptions, {}):
        yield attrs.evolve(context, run=attrs.evolve(context.run, **{key: value}))
    dimensions = context.platform.dimensions
    for number, dimension in enumerate(dimensions):
        for field in attrs.fields(Dimension):
            value = getattr(dimension, field.name)
            if isinstance(value, (int, float)) and field.name != "size":
                changed_field: dict[str, Any] = {field.name: value * 2 + 1}
                other = attrs.evolve(dimension, **changed_field)
                yield attrs.evolve(context, platform=Platform((*dimensions[:number], other, *dimensions[number + 1 :])))
    yield attrs.evolve(context, platform=Platform(dimensions[:1]))
    yield attrs.evolve(context, platform=Platform(tuple(reversed(dimensions))))
    yield attrs.evolve(context, platform=attrs.evolve(context.platform, name="other", device="h100"))


def session_of(provider: Provider, options: Any, context: Context) -> Any:
    """A session of a system layer; None where it refuses what it is given."""
    try:
        system = provider.create(options, context)
        return system.session(context.platform.logical_dimensions())
    except (AstraError, AttributeError):
        return None


def planned(session: Any) -> list[Any]:
    """What a session plans, in figures that say all of it."""

    def phase(plan: PhasePlan) -> tuple[Any, ...]:
        figures_of = attrs.astuple(plan, recurse=False, filter=lambda field, _: field.name not in ("schedule", "counted"))
        return (
            *figures_of,
            plan.schedule.output_bytes,
            [(program.starts, program.cycle, program.runs) for program in lower(plan.schedule)],
        )

    result: list[Any] = []
    for operation in OPERATIONS:
        try:
            result.append([(chunk.priority, [phase(each) for each in chunk.phases]) for chunk in session.issue(operation, 0)])
        except AstraError as error:
            result.append(str(error))
    return result


def test_all_that_a_context_says_is_changed() -> None:
    result = {field.name for field in attrs.fields(Context) if not field.name.startswith("_")}
    assert result == {*RUN_BY_CONTEXT, *LEFT_OUT}


@pytest.mark.parametrize("table", [PLATFORM, MESHES], ids=["ring and mesh", "meshes"])
@pytest.mark.parametrize("name", [name for kind, name in COMPONENTS if kind == "system"])
def test_sessions_with_one_content_plan_the_same(name: str, table: dict[str, Any]) -> None:
    """Whatever input is changed, the content is another, or the plans are the same where nothing is kept."""
    provider = shared_plugins().get("system", name)
    cls = provider.load_options()
    first = context_of(table)
    assert cls is not None
    options = cls()
    others = [(options, context) for context in contexts(first)]
    for key, value in changes(cls, {}):
        with contextlib.suppress(InputError):
            others.append((options_of(provider, {key: value}, "options"), first))
    others += [(options, first)]
    clear_caches()
    session = session_of(provider, options, first)
    content, plans = session.content, planned(session)
    assert content is not None
    alike = 0
    for changed_options, context in others:
        other = session_of(provider, changed_options, context)
        if other is not None and other.content == content:
            alike += 1
            with without_cache("systems: plans", "systems: sessions"):
                assert planned(session_of(provider, changed_options, context)) == plans, (changed_options, context.run, context.platform)
    assert 10 < alike < len(others) - 10


@pytest.mark.parametrize("table", [PLATFORM, MESHES], ids=["ring and mesh", "meshes"])
def test_what_auto_picks_follows_from_its_content(table: dict[str, Any]) -> None:
    """The same for the algorithms among which `auto` chooses; what keeps plans has the dimension in its key besides."""
    first = context_of(table)
    requests = [Request(kind, 4, size) for kind in Collective for size in (64, 1 << 16, 1 << 24)]
    changed_contexts = [(0.0, first), (500.0, first), *((0.0, context) for context in contexts(first))]
    picks: dict[Any, list[str]] = {}
    for endpoint_ns, context in changed_contexts:
        for kind in Collective:
            for dimension in range(len(context.platform.dimensions)):
                automatic_ = automatic(kind, endpoint_ns, context, dimension)
                logical = LogicalDimension(4, context.platform.strides[dimension], dimension)
                result = [
                    f"{pick.algorithm.name} {pick.reason}"
                    for pick in (automatic_.pick(each, logical) for each in requests if each.collective is kind)
                ]
                assert picks.setdefault((kind, logical, automatic_.content), result) == result
    assert len({tuple(each) for each in picks.values()}) > 5


@pytest.mark.parametrize(("kind", "name"), COMPONENTS, ids=map(":".join, COMPONENTS))
def test_options_that_are_equal_are_alike_in_everything(kind: str, name: str) -> None:
    """Options are what components are kept by: no field may be left out when they are compared."""

    def check(cls: type) -> None:
        assert "__eq__" in vars(cls) or issubclass(cls, ValueObject), cls
        for field in attrs.fields(cls):
            assert field.eq is True, (cls, field.name)
            assert field.hash in (None, True), (cls, field.name)
            for part in (field.type, *typing.get_args(field.type)):
                if isinstance(part, type) and attrs.has(part):
                    check(part)

    cls = shared_plugins().get(kind, name).load_options()
    if cls is not None:
        check(cls)
