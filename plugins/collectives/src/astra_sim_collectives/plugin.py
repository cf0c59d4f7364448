"""Hooks."""

from __future__ import annotations

from astra_sim import CollectiveProvider, Provider, hookimpl

_HERE = "astra_sim_collectives"


@hookimpl
def astra_collectives() -> list[CollectiveProvider]:
    window = f"{_HERE}.direct:DirectOptions"
    directions = f"{_HERE}.ring:RingAlgorithmOptions"
    one_dimension = [
        ("ring", "Around a ring, one message at a time, or one in each direction", f"{_HERE}.ring:ring", directions),
        ("direct", "Straight to every other rank, all at once or a window at a time", f"{_HERE}.direct:direct", window),
        (
            "halving_doubling",
            "Recursive halving and doubling, for powers of two",
            f"{_HERE}.halving_doubling:halving_doubling",
            None,
        ),
    ]
    providers = [CollectiveProvider(*fields, examples=_examples(fields[-1]), pure=True) for fields in one_dimension]
    for name, summary, factory, options in one_dimension:
        text = f"{summary}; over all NPUs as one dimension"
        examples = _examples(options)
        providers.append(CollectiveProvider(f"one_{name}", text, factory, options, whole_platform=True, examples=examples, pure=True))
    providers.append(
        CollectiveProvider(
            "double_binary_tree",
            "All-reduce up and down two binary trees in turn, for powers of two",
            f"{_HERE}.double_binary_tree:double_binary_tree",
            variants=2,
            pure=True,
        )
    )
    providers.append(
        CollectiveProvider(
            "in_network",
            "In a switch that reduces data",
            f"{_HERE}.in_network:in_network",
            needs=("in_network_reduction",),
            pure=True,
        )
    )
    for name, summary in (
        ("msccl", "From a file in the XML format of MSCCL"),
        ("mscclpp", "From an execution plan in the JSON format of MSCCL++"),
    ):
        factory, files = f"{_HERE}.{name}:{name}", f"{_HERE}.examples:{name}"
        file_options = f"{_HERE}.{name}:{name.capitalize()}Options"
        providers.append(CollectiveProvider(name, summary, factory, file_options, examples=files))
        text = f"{summary}; over all NPUs as one dimension"
        providers.append(CollectiveProvider(f"one_{name}", text, factory, file_options, whole_platform=True, examples=files))
    return providers


@hookimpl
def astra_platforms() -> list[Provider]:
    return [
        Provider(
            "gpu_mesh",
            "GPUs with compute units, memory channels and I/O ports on a mesh of routers",
            f"{_HERE}.load_store.gpu_mesh:gpu_mesh",
            f"{_HERE}.load_store.gpu_mesh:GpuMeshOptions",
            examples=[{"gpus": 2, "columns": 2, "rows": 2, "router_compute_units": 1, "channels": 4, "ports": 4}],
            pure=True,
        )
    ]


@hookimpl
def astra_workloads() -> list[Provider]:
    return [
        Provider(
            "load_store",
            "A plan of MSCCL++, or an exchange of all pairs, as loads and stores of cache lines (platform gpu_mesh)",
            f"{_HERE}.load_store.workload:load_store",
            f"{_HERE}.load_store.workload:LoadStoreOptions",
            examples=[
                {"bytes": 4096, "workgroups": 2, "compute_units": 2, "channels": 2},
                {"bytes": 4096, "workgroups": 1, "compute_units": 1, "channels": 1, "collective": "reduce_scatter", "transfer": "get"},
            ],
        )
    ]


def _examples(options: str | None) -> list[dict[str, int]]:
    """The defaults, and other values of an option."""
    if options is None:
        return [{}]
    return [{}, {"directions": 2}] if options.endswith(":RingAlgorithmOptions") else [{}, {"window": 1}, {"window": 3}]
