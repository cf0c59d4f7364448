"""What the version before promised: the names that plugins may import, and what its plugin package computes (tests/previous/).

In an environment with that package (`ASTRA_BEFORE_LIBRARY` names its compiled network), `python -m support.previous_version names` prints
the names of the installed kernel, and `python -m support.previous_version figures compiled` what runs on that engine give.
devtools/RELEASING.md says when their results become those of the version before.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import json
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

PREVIOUS = Path(__file__).resolve().parents[1] / "previous"
PLUGIN = PREVIOUS / "plugin"
TORUS = "plugin:torus?sizes=4,2&link_bandwidth_gib_per_s=50&link_latency_ns=500"
ALL_REDUCE = "plugin:collective?bytes=1000000"
RINGS = [f"system.{kind}=ring" for kind in ("all_reduce", "all_gather", "reduce_scatter")]
HALVINGS = [rule.replace("ring", "halving_doubling") for rule in RINGS]
"""What `auto` was in that version, on a torus and on a switch; what it picks may change."""
CASES: tuple[dict[str, Any], ...] = (
    *(
        {"experiment": "experiment.toml", "workload": "layers.csv", "network": f"plugin:{network}"}
        for network in ("before_network", "before_wires", "before_bus", "analytical", "analytical?congestion=aware")
    ),
    {"workload": "plugin:before_workload?steps=3&overlap=true", "platform": TORUS},
    {"experiment": "loop.toml", "set": HALVINGS},
    {"experiment": "loop.toml", "set": ["workload.loop_options.overlap=false", *HALVINGS]},
    *(
        {"experiment": "loop.toml", "platform": TORUS, "set": ["system.splits=8", *RINGS, f"system.{order}"]}
        for order in (
            "intra_dimension_scheduling=before_scheduler",
            "intra_dimension_scheduling=before_scheduler?by=remaining",
            "intra_dimension_scheduling=before_newest",
            "inter_dimension_scheduling=before_last",
        )
    ),
    {"workload": ALL_REDUCE, "platform": TORUS, "set": ["system.all_reduce=before_collective"]},
    {"workload": ALL_REDUCE, "platform": TORUS, "network": "plugin:before_bus", "symmetry": False},
)
"""Arguments of `simulate`; files are in the folder of the plugin package."""


# -- Figures -----------------------------------------------------------------------------------------------------------


def figures(engine: str) -> Iterator[dict[str, Any]]:
    """Each case with its figures: times in ns, messages, and what the network counts."""
    import astra_sim

    for case in CASES:
        arguments: dict[str, Any] = {
            name: str(PLUGIN / value) if str(value).endswith((".toml", ".csv")) else value for name, value in case.items()
        }
        if arguments.get("platform") == TORUS:
            arguments["platform"] += "&both_ways=true"  # the default of that version, in which a message was too fast
        result = astra_sim.simulate(arguments.pop("experiment", None), engine=engine, **arguments).to_dict()
        results = {name: result[name] for name in ("finish_ns", "compute_ns", "exposed_comm_ns", "npus", "messages")}
        counted = {name: result["network"][name] for name in ("payload_bytes", "busy_ns", "sending_ns") if name in result["network"]}
        yield {"case": case, "figures": {**results, **counted}}


# -- Names -------------------------------------------------------------------------------------------------------------


def public_names(former: Iterable[str] = ()) -> dict[str, Any]:
    """What plugins may import, as "module:name": a list of parameters of a function, a table of the members of a class, None for a value.

    With names of a former version, also those that are no longer public, but can be imported as then.

    A member of a class is a list of parameters, or None. That of no name is the class as it is called, and "abstract" are the methods that
    a class of a plugin has to have.
    """
    import astra_sim

    result = {}
    names = {f"{module}:{name}" for module in ("", *astra_sim.PUBLIC_MODULES) for name in _module(module).__all__}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        for each in sorted({*names, *former}):
            module, _, name = each.partition(":")
            if hasattr(_module(module), name):
                result[each] = _described(getattr(_module(module), name))
    return result


def _module(name: str) -> Any:
    return importlib.import_module(f"astra_sim.{name}".rstrip("."))


def _described(value: Any) -> Any:
    if inspect.isclass(value):
        members = {} if issubclass(value, (enum.Enum, BaseException)) else {"": parameters(value)}
        for cls in value.__mro__:
            if cls.__module__.startswith("astra_sim"):
                for name, member in vars(cls).items():
                    if not name.startswith("_"):
                        inner = member.__func__ if isinstance(member, staticmethod | classmethod) else member
                        members.setdefault(name, parameters(inner) if inspect.isfunction(inner) else None)
        if inspect.isabstract(value):
            members["abstract"] = sorted(vars(value)["__abstractmethods__"])
        return members
    return parameters(value) if inspect.isfunction(value) else None


def parameters(function: Callable[..., Any]) -> list[str] | None:
    """Names of parameters, those with a default with a = behind; None where they are not known."""
    try:
        listed = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    marks: dict[Any, str] = {
        inspect.Parameter.VAR_POSITIONAL: "*",
        inspect.Parameter.VAR_KEYWORD: "**",
        inspect.Parameter.KEYWORD_ONLY: "--",
    }
    return [f"{marks.get(each.kind, '')}{each.name}{'=' if each.default is not each.empty else ''}" for each in listed]


def main(arguments: list[str]) -> None:
    """Print names or figures as JSON, one of them a line."""
    match arguments:
        case ["names"]:
            rows = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in public_names().items()]
            print("{\n" + ",\n".join(rows) + "\n}")
        case ["figures", engine]:
            print("[\n" + ",\n".join(map(json.dumps, figures(engine))) + "\n]")
        case _:
            sys.exit("expected: names, or figures and an engine")


if __name__ == "__main__":
    main(sys.argv[1:])
