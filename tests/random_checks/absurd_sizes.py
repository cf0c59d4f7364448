"""Options with sizes that no machine can hold: each is refused at once, with the option or the limit named, or makes no difference."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from astra_sim.commands import shared_plugins
from astra_sim.options import describe_options
from astra_sim.toml_text import to_toml
from support.limited import ended

IN_TESTS = 40
IN_NIGHTLY = 3000

_KINDS = ("platform", "platform", "platform", "network", "workload", "workload", "system", "compute", "memory")
_LINKS = {"link_bandwidth_gb_per_s": 50, "link_latency_ns": 500}
_RING: dict[str, Any] = {"plugin": "ring", "size": 4, "links": 2, **_LINKS}
_BASES: dict[tuple[str, str], dict[str, Any]] = {
    ("platform", "ring"): _RING,
    ("platform", "switch"): {"size": 4, **_LINKS},
    ("platform", "fully_connected"): {"size": 4, "links": 3, **_LINKS},
    ("workload", "collective"): {"bytes": 1 << 20},
    ("workload", "llm"): {"model": "llama3-8b", "global_batch": 4, "tensor_parallel": 4},
    ("compute", "gpu"): {"device": "h100"},
}
_MODEL = {"layers": 4, "hidden": 64, "heads": 4, "ffn": 128, "vocab": 1000}
_HUGE = [10**10, *(2**power for power in (32, 33, 40, 48, 53, 61))]
"""Below these a limit may be the memory or the time that there is."""
_NETWORKS: list[dict[str, Any]] = [
    {},
    {},
    {"plugin": "analytical", "congestion": "aware"},
    {"plugin": "flow"},
    {"plugin": "packet"},
    {"plugin": "roce"},
]
_COMMANDS = [
    ("run",),
    ("run",),
    ("explain",),
    ("memory",),
    ("compare", "--set", "system.splits=1", "--set", "system.splits=2"),
]


def check(seed: int, folder: Path) -> list[str]:
    """Run an experiment in which one option is huge, or two."""
    random = Random(seed)
    experiment: dict[str, Any] = {"workload": {"plugin": "collective", "bytes": 1 << 20}, "platform": dict(_RING)}
    network = random.choice(_NETWORKS)
    kind = random.choice(_KINDS)
    if network and not (kind == "workload" and network["plugin"] in ("packet", "roce")):  # many packets take long, as many as they are
        experiment["network"] = dict(network)
    name = random.choice(sorted(each for each, options in _options(kind).items() if options))
    table = experiment[kind] = {"plugin": name, **_base(kind, name)}
    if random.random() < 0.3 and name == "llm":
        table["model"] = {**_MODEL, random.choice(sorted(_MODEL)): random.choice(_HUGE)}
    if kind == "compute":
        experiment["workload"] = {"plugin": "llm", **_base("workload", "llm")}
        experiment["platform"]["size"] = 4
    for option in random.sample(_options(kind)[name], min(len(_options(kind)[name]), random.choice([1, 1, 2]))):
        table[option] = random.choice(_HUGE)
    if isinstance(table.get("sizes"), list | tuple) and random.random() < 0.7:
        table["sizes"] = [random.choice(_HUGE), *table["sizes"][1:]]
    if random.random() < 0.2:
        experiment["run"] = {random.choice(["passes", "queues_per_dim"]): random.choice(_HUGE)}
    (folder / "e.toml").write_text(to_toml(experiment))
    command, *more = random.choice(_COMMANDS)
    fault = ended(folder, command, "e.toml", *more).fault
    return [] if fault is None else [f"{command} {' '.join(more)} of {experiment}: {fault}"]


@cache
def _options(kind: str) -> dict[str, list[str]]:
    """The names of the options that are whole numbers, of each component that needs no file."""
    result = {}
    for name, provider in shared_plugins().components(kind).items():
        options = describe_options(provider.load_options())
        if not any(each.name in ("file", "prefix") for each in options):
            result[name] = [each.name for each in options if each.type in ("int", "int or str") and "." not in each.name]
    return result


@cache
def _base(kind: str, name: str) -> dict[str, Any]:
    """Options with which a component runs."""
    if (kind, name) in _BASES:
        return _BASES[kind, name]
    examples = shared_plugins().components(kind)[name].examples
    return dict(examples[0]) if isinstance(examples, (tuple, list)) and examples else {}
