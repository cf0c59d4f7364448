"""Text workloads of ASTRA-sim 1.0."""

from __future__ import annotations

from pathlib import Path

from errors.inputs import FILES, HUGE, RECOMPUTING, WORKLOAD, Astra, Words, cases, one_layer, refused, two_layers, write


@cases(
    {
        "unknown policy": (one_layer(policy="DATUM"), "w.txt:1", "'DATUM'", "'DATA'"),
        "policy in small letters": (one_layer(policy="data"), "w.txt"),
        "no policy": ("1\nconv -1 1 NONE 0 1 NONE 0 1 NONE 0 1\n", "w.txt"),
        "policy alone": ("DATA", "w.txt:1", "number of layers"),
        "no layers": ("DATA\n0\n", "w.txt:2", "number of layers", "0", "at least 1"),
        "number of layers negative": ("DATA\n-1\n", "w.txt:2", "number of layers", "'-1'"),
        "number of layers a word": ("DATA\nmany\n", "w.txt:2", "number of layers", "'many'"),
        "number of layers a fraction": ("DATA\n1.5\n", "w.txt:2", "number of layers", "'1.5'"),
        "number of layers huge": (f"DATA\n{10**17}\nconv -1 1 NONE 0 1 NONE 0 1 NONE 0 1\n", "w.txt:3", "layer 2"),
        "number of layers of 5000 digits": (f"DATA\n{HUGE}\n", "w.txt:2", "number of layers"),
        "more layers than announced": (WORKLOAD.replace("\n2\n", "\n1\n"), "w.txt:4", "'dense'", "1 layers"),
        "fewer layers than announced": (WORKLOAD.replace("\n2\n", "\n3\n"), "w.txt:4", "layer 3"),
        "words missing": (one_layer("conv -1 1 NONE 0 1 NONE"), "w.txt:3", "conv", "input_gradient"),
        "last word missing": (one_layer("conv -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 8"), "w.txt:3", "update time", "conv"),
        "word too much": (one_layer("conv -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 8 1 x"), "w.txt:3", "'x'"),
        "time negative": (one_layer("conv -1 -5 NONE 0 1 NONE 0 1 NONE 0 1"), "w.txt:3", "conv", "forward", "'-5'"),
        "time a word": (one_layer("conv -1 1 NONE 0 soon NONE 0 1 NONE 0 1"), "w.txt:3", "conv", "input_gradient", "'soon'"),
        "time a fraction": (one_layer("conv -1 1 NONE 0 1 NONE 0 1.5 NONE 0 1"), "w.txt:3", "conv", "weight_gradient", "'1.5'"),
        "time of 5000 digits": (one_layer(f"conv -1 {HUGE} NONE 0 1 NONE 0 1 NONE 0 1"), "w.txt:3", "conv", "forward"),
        "unknown collective": (one_layer("conv -1 1 NONE 0 1 NONE 0 1 ALLREDUC 8 1"), "w.txt:3", "conv", "'ALLREDUC'", "'ALLREDUCE'"),
        "bytes negative": (one_layer("conv -1 1 NONE 0 1 NONE 0 1 ALLREDUCE -8 1"), "w.txt:3", "bytes", "conv", "'-8'"),
        "bytes a word": (one_layer("conv -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 8k 1"), "w.txt:3", "bytes", "conv", "'8k'"),
        "bytes 0": (one_layer("conv -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 0 1"), "w.txt", "conv", "weight_gradient", "0 bytes", "at least 1"),
        "update time negative": (one_layer("conv -1 1 NONE 0 1 NONE 0 1 NONE 0 -1"), "w.txt:3", "update time", "conv", "'-1'"),
        "update time a word": (one_layer("conv -1 1 NONE 0 1 NONE 0 1 NONE 0 x"), "w.txt:3", "update time", "conv", "'x'"),
        "update time in raised digits": (one_layer("conv -1 1 NONE 0 1 NONE 0 1 NONE 0 ²"), "w.txt:3", "update time", "'²'"),
        "update time in digits of another script": (one_layer("conv -1 1 NONE 0 1 NONE 0 1 NONE 0 ٣"), "w.txt:3", "update time", "'٣'"),
        "update time of 5000 digits": (one_layer(f"conv -1 1 NONE 0 1 NONE 0 1 NONE 0 {HUGE}"), "w.txt:3", "update time", "conv"),
        "transformer without a group": (one_layer(policy="HYBRID_TRANSFORMER"), "w.txt:2", "model_parallel_NPU_group:"),
        "transformer with a misspelt group": (
            one_layer(policy="HYBRID_TRANSFORMER group: 2"),
            "w.txt:1",
            "'group:'",
            "model_parallel_NPU_group:",
        ),
        "transformer with a word for the group": (one_layer(policy="HYBRID_TRANSFORMER model_parallel_NPU_group: two"), "w.txt:1", "'two'"),
        "transformer with a group of 0": (one_layer(policy="HYBRID_TRANSFORMER model_parallel_NPU_group: 0"), "w.txt", "0", "at least 1"),
        "groups of 3 of 4": (one_layer(policy="HYBRID_TRANSFORMER model_parallel_NPU_group: 3"), "w.txt", "groups of 3", "4 NPUs"),
        "group beyond the platform": (one_layer(policy="HYBRID_TRANSFORMER model_parallel_NPU_group: 8"), "w.txt", "8 NPUs", "1 to 4"),
        "checkpoints missing": (two_layers(RECOMPUTING), "w.txt:2", "'2'", "checkpoints:"),
        "initiates missing": (two_layers(f"{RECOMPUTING} checkpoints: 1 0"), "w.txt:2", "'2'", "checkpoint_initiates:"),
        "fewer checkpoints than said": (
            two_layers(f"{RECOMPUTING} checkpoints: 2 0 checkpoint_initiates: 1 1"),
            "w.txt:1",
            "checkpoints:",
            "'checkpoint_initiates:'",
        ),
        "checkpoint beyond the last layer": (
            two_layers(f"{RECOMPUTING} checkpoints: 1 7 checkpoint_initiates: 1 1"),
            "w.txt",
            "checkpoints",
            "7",
            "0 to 1",
        ),
        "initiate beyond the last layer": (
            two_layers(f"{RECOMPUTING} checkpoints: 1 0 checkpoint_initiates: 1 2"),
            "w.txt",
            "checkpoint_initiates",
            "2",
            "0 to 1",
        ),
        "no checkpoint before": (
            two_layers(f"{RECOMPUTING} checkpoints: 1 1 checkpoint_initiates: 1 0"),
            "w.txt",
            "checkpoint_initiates",
            "layer 0",
        ),
        "checkpoint and initiate the same": (
            two_layers(f"{RECOMPUTING} checkpoints: 1 1 checkpoint_initiates: 1 1"),
            "w.txt",
            "checkpoint 1",
            "layer 1",
        ),
        "DLRM without a layer": (one_layer(policy="HYBRID_DLRM"), ("w.txt:1", "w.txt:2"), "bottom MLP"),
        "DLRM with a word": (one_layer(policy="HYBRID_DLRM last"), "w.txt:1", "bottom MLP", "'last'"),
        "DLRM with a layer that is not there": (one_layer(policy="HYBRID_DLRM 5"), "w.txt", "5", "0 to 0"),
        "layer without a policy": (one_layer(policy="HYBRID_CUSTOMIZED"), "w.txt:3", "policy of layer conv"),
        "first of two layers without a policy": (
            "HYBRID_CUSTOMIZED\n2\nconv -1 1 NONE 0 1 NONE 0 1 NONE 0 1\ndense -1 1 NONE 0 1 NONE 0 1 NONE 0 1 DATA\n",
            "policy of layer conv",
            "'dense'",
        ),
        "layer with an unknown policy": (
            one_layer("conv -1 1 NONE 0 1 NONE 0 1 NONE 0 1 MODLE", "HYBRID_CUSTOMIZED"),
            "w.txt:3",
            "policy of layer conv",
            "'MODLE'",
            "'MODEL'",
        ),
        "layer with a policy that needs the whole": (
            one_layer("conv -1 1 NONE 0 1 NONE 0 1 NONE 0 1 HYBRID_TRANSFORMER", "HYBRID_CUSTOMIZED"),
            "w.txt",
            "conv",
            "hybrid_transformer",
            "model",
        ),
    }
)
def test_a_bad_text_workload_is_refused_with_its_line(astra: Astra, tmp_path: Path, given: str, words: Words) -> None:
    write(tmp_path, workload=given)
    refused(astra(*FILES, "--json"), *words)
