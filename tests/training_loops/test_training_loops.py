"""What each training loop computes, issues and waits for, in order."""

from __future__ import annotations

from typing import Any

import astra_sim
import pytest
from astra_sim.graph import Communicate, Compute, Wait
from astra_sim.setup.components import build
from astra_sim.setup.experiment import Experiment
from astra_sim.setup.plugins import shared_plugins

SHORT = {"forward": "f", "input_gradient": "i", "weight_gradient": "w"}


def program(loop: str, count: int = 2, passes: int = 1, sizes: tuple[int, ...] = (2, 4), **options: Any) -> str:
    """The operations of a workload in which every pass has an all-reduce.

    C: compute, I: issue (! blocking, ^ urgent, @ dimensions), W: wait, G: the step to the next. Then pass and layer.
    """
    all_reduce = {"compute_ns": 5, "collective": "all_reduce", "collective_bytes": 64}
    forward = {**all_reduce, "collective": "all_to_all"} if "dlrm" in loop else all_reduce
    layer = {"forward": forward, "input_gradient": all_reduce, "weight_gradient": all_reduce}
    layers = [{"name": f"l{n}", **layer} for n in range(count)]
    for result, own in zip(layers, options.pop("loops", ()), strict=False):
        result["loop"] = own
    experiment = Experiment(
        sections={
            "workload": {"loop": loop, "loop_options": options, "layers": layers},
            "platform": {
                "dimensions": [
                    {"topology": "ring", "size": n, "links": 2, "link_bandwidth_gib_per_s": 1, "link_latency_ns": 1} for n in sizes
                ]
            },
        },
        run={"passes": passes},
    )
    words = []
    for operation in build(experiment, shared_plugins()).graph.operations:
        if isinstance(operation, Compute) and operation.idle:
            words.append("G")
            continue
        assert isinstance(operation, (Compute, Communicate, Wait))
        where = SHORT[operation.training_pass] + str(operation.layer)
        if isinstance(operation, Communicate):
            marks = "!" * operation.blocking + "^" * operation.urgent
            words.append("I" + where + marks + "@" + "".join(map(str, operation.dimensions)))
        else:
            words.append({Compute: "C", Wait: "W"}[type(operation)] + where)
    return " ".join(words)


def test_data_parallel() -> None:
    assert program("data") == "Cf0 G Cf1 G Cw1 Iw1@01 G Ci1 G Cw0 Iw0@01 G Ww0"


def test_data_parallel_with_gradients_of_inputs_first() -> None:
    assert program("data_reorder") == "Cf0 G Cf1 G Ci1 G Cw1 Iw1@01 G Cw0 Iw0@01 G Ww0"


def test_the_next_iteration_waits_for_weight_gradients() -> None:
    assert program("data", passes=2).split()[12:17] == ["Ww0", "Cf0", "G", "Ww1", "Cf1"]


def test_model_parallel() -> None:
    assert program("model") == "Cf0 If0!@01 G Cf1 If1!@01 G Ci1 Ii1@01 G Cw1 Wi1 G Ci0 G Cw0 G"


def test_hybrids_split_the_dimensions() -> None:
    assert program("hybrid_data_model") == "Cf0 If0!@0 G Cf1 If1!@0 G Ci1 Ii1@0 G Cw1 Iw1@1 Wi1 G Ci0 G Cw0 Iw0@1 G Ww0"
    assert program("hybrid_model_data") == "Cf0 If0!@1 G Cf1 If1!@1 G Ci1 Ii1@1 G Cw1 Iw1@0 Wi1 G Ci0 G Cw0 Iw0@0 G Ww0"


def test_every_layer_may_have_its_own_parallelisation() -> None:
    got = program("hybrid_customized", loops=("data", "hybrid_model_data"))
    assert got == "Cf0 If0!@ G Cf1 If1!@1 G Ci1 Ii1@1 G Cw1 Iw1@0 Wi1 G Ci0 G Cw0 Iw0@01 G Ww0"


@pytest.mark.parametrize(("group", "inside", "outside"), [(1, "", "01"), (2, "0", "1"), (8, "01", ""), (4, "01", "2")])
def test_transformer_is_model_parallel_within_groups(group: int, inside: str, outside: str) -> None:
    got = program("hybrid_transformer", 1, model_parallel_npus=group)
    assert got == f"Cf0 If0!@{inside} G Ci0 Ii0!@{inside} G Cw0 Iw0@{outside} G Ww0"


def test_transformer_repeats_forward_passes_from_a_checkpoint() -> None:
    got = program("hybrid_transformer_fwd_in_bckwd", 3, model_parallel_npus=2, checkpoints=[1], checkpoint_initiates=[2])
    forward = "Cf0 If0!@0 G Cf1 If1!@0 G Cf2 If2!@0 G"
    again = "G Cf1 If1!@0 G"
    backward = "Ci2 Ii2!@0 G Cw2 Iw2@1 G Ci1 Ii1!@0 G Cw1 Iw1@1 G Ci0 Ii0!@0 G Cw0 Iw0@1 G Ww0"
    assert got == f"{forward} {again} {backward}"


def test_dlrm_exchanges_the_embedding_beside_the_bottom_layers() -> None:
    got = program("hybrid_dlrm", 3, last_bottom_layer=1)
    forward = "Cf0 If0^@01 G Cf1 If1^@ G Cf2 If2^@ G"
    backward = "Cw2 Iw2@01 G Ci2 Ii0^@01 G Cw1 Iw1@01 G Ci1 G Cw0 Iw0@01 Wi0 G Ww0"
    assert got == f"{forward} {backward}"
    assert "Wi0" not in program("hybrid_dlrm_enhanced", 3, last_bottom_layer=1)


def test_micro_issues_everything_at_once() -> None:
    assert program("micro", passes=3) == "Iw0@01 Iw0@01 Iw0@01 Ww0"


def test_inference_runs_forward_only() -> None:
    assert program("distributed_inference") == "Cf0 If0!@01 G Cf1 If1!@01 G"


@pytest.mark.parametrize(
    ("loop", "options", "words"),
    [
        ("hybrid_transformer", {"model_parallel_npus": 3}, "3 NPUs"),
        ("hybrid_transformer", {"model_parallel_npus": 16}, "16 NPUs"),
        ("hybrid_dlrm", {"last_bottom_layer": 2}, "last_bottom_layer is 2"),
        ("hybrid_customized", {}, "layer l0: loop is None"),
        ("hybrid_transformer_fwd_in_bckwd", {"model_parallel_npus": 2, "checkpoint_initiates": [1]}, "no checkpoint"),
        ("hybrid_transformer_fwd_in_bckwd", {"model_parallel_npus": 2, "checkpoints": [7]}, "checkpoints has layer 7"),
        ("hybrid_transformer_fwd_in_bckwd", {"model_parallel_npus": 2, "checkpoints": [1], "checkpoint_initiates": [1]}, "run past"),
    ],
)
def test_loops_that_do_not_fit_are_errors(loop: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(astra_sim.InputError, match=words):
        program(loop, **options)
