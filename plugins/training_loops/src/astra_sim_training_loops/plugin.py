"""Hooks."""

from __future__ import annotations

import functools

from astra_sim import FileFormat, Provider, hookimpl

_HERE = "astra_sim_training_loops"


@hookimpl
def astra_workloads() -> list[Provider]:
    gradient = {"compute_ns": 1000, "collective": "all_reduce", "collective_bytes": 65536}
    return [
        Provider(
            "layers",
            "Layers with three passes, run by a training loop",
            f"{_HERE}.workloads:layers",
            f"{_HERE}.workloads:LayersOptions",
            examples=[{"loop": "data", "layers": [{"name": "dense", "weight_gradient": gradient}]}],
        ),
        Provider(
            "collective",
            "One collective, as often as there are passes",
            f"{_HERE}.workloads:collective",
            f"{_HERE}.workloads:CollectiveOptions",
            examples=[{"bytes": 65536}, {"bytes": 4096, "collective": "all_to_all"}],
        ),
    ]


@hookimpl
def astra_training_loops() -> list[Provider]:
    loop = functools.partial(Provider, pure=True)
    loops, options = f"{_HERE}.loops", f"{_HERE}.loop_options"
    transformer = f"{options}:TransformerOptions"
    dlrm = f"{options}:DlrmOptions"
    groups = [{"model_parallel_npus": npus} for npus in (1, 2, 4)]
    bottom = [{"last_bottom_layer": 1}]
    return [
        loop("data", "Data parallel", f"{loops}:data"),
        loop("data_reorder", "Data parallel, gradients of inputs before those of weights", f"{loops}:data_reorder"),
        loop("model", "Model parallel", f"{loops}:model"),
        loop("hybrid_data_model", "Data parallel, model parallel in dimension 0", f"{loops}:hybrid_data_model"),
        loop("hybrid_model_data", "Model parallel, data parallel in dimension 0", f"{loops}:hybrid_model_data"),
        loop("hybrid_customized", "Every layer parallelised in its own way", f"{loops}:hybrid_customized"),
        loop(
            "hybrid_transformer",
            "Model parallel in groups, data parallel between them",
            f"{loops}:hybrid_transformer",
            transformer,
            examples=groups,
        ),
        loop(
            "hybrid_transformer_fwd_in_bckwd",
            "The same, with parts of the forward pass recomputed in the backward pass",
            f"{loops}:hybrid_transformer_fwd_in_bckwd",
            f"{options}:RecomputingTransformerOptions",
            examples=[{"model_parallel_npus": 4, "checkpoints": [0], "checkpoint_initiates": [2]}],
        ),
        loop("hybrid_dlrm", "DLRM: embedding exchanged all-to-all, the rest data parallel", f"{loops}:hybrid_dlrm", dlrm, examples=bottom),
        loop(
            "hybrid_dlrm_enhanced",
            "The same, not waiting for the embedding in the backward pass",
            f"{loops}:hybrid_dlrm_enhanced",
            dlrm,
            examples=bottom,
        ),
        loop("micro", "The weight-gradient collective of the first layer, and nothing else", f"{loops}:micro"),
        loop("distributed_inference", "Forward passes, model parallel", f"{loops}:distributed_inference"),
    ]


@hookimpl
def astra_formats() -> list[FileFormat]:
    return [
        FileFormat(
            "astra-sim-1-workload",
            "Text workload of ASTRA-sim 1.0",
            kinds=("workload",),
            recognises=f"{_HERE}.astra1_file:recognises",
            read=f"{_HERE}.astra1_file:read",
        )
    ]
