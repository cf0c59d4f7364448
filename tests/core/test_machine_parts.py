"""Platform, device, stack and precision of one experiment: what follows from what, and what contradicts each other."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim import InputError, InputWarning, load_experiment
from astra_sim.command import cli
from astra_sim_compute_gpu import device, stack
from astra_sim_compute_gpu.device_file import template
from click.testing import CliRunner

SMALL = {"layers": 4, "hidden": 1024, "heads": 8, "vocab": 2048, "sequence": 512}
WORKLOAD = {"plugin": "llm", "model": SMALL, "global_batch": 32, "zero": 1}


def run(platform: str = "plugin:dgx_h100?nodes=2", network: str = "plugin:analytical?model=nccl", **given: Any) -> Any:
    """An experiment; `workload` and `compute` are options beside or in place of those of the module."""
    workload = WORKLOAD | given.get("workload", {})
    compute = {"plugin": "gpu"} | given.get("compute", {})
    return astra_sim.simulate(platform=platform, network=network, system="plugin:astra2", compute=compute, workload=workload)


def quietly(**given: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return run(**given)


# -- The device of the platform ----------------------------------------------------------------------------------------


def test_another_platform_has_other_kernels() -> None:
    """With kernels of an H100 on it, GB200 would take nearly as long."""
    kernels = {"stack": "kernels"}
    h100, gb200 = (quietly(platform=platform, compute=kernels) for platform in ("plugin:dgx_h100?nodes=2", "plugin:gb200_nvl72?gpus=16"))
    assert (h100.compute["device"], gb200.compute["device"]) == ("h100", "gb200")
    assert gb200.compute_ns < 0.7 * h100.compute_ns
    assert gb200.compute_ns == quietly(platform="plugin:gb200_nvl72?gpus=16", compute=kernels | {"device": "gb200"}).compute_ns


def test_a_device_that_is_given_stays_and_contradicts_the_platform() -> None:
    with pytest.warns(InputWarning, match="kernels are those of device h100, and the device of NVIDIA GB200 NVL72 is gb200"):
        result = run(platform="plugin:gb200_nvl72?gpus=16", compute={"device": "h100"})
    (mismatch,) = result.to_dict()["mismatches"]
    assert tuple(mismatch["sections"]) == ("platform", "compute")
    assert result.compute["device_from"] == "compute"


def test_collectives_of_another_device_contradict_the_platform() -> None:
    with pytest.warns(InputWarning, match="collectives are those of device a100, and the device of NVIDIA DGX H100 is h100"):
        result = run(network="plugin:analytical?model=nccl&device=a100")
    assert [each.sections for each in result.mismatches] == [("platform", "network")]


def test_a_device_of_more_memory_or_another_version_is_none_other() -> None:
    network = "plugin:analytical?model=nccl&device=a100-2.27.3"
    assert run(platform="plugin:dgx_a100", network=network, compute={"device": "a100-40"}).mismatches == []


@pytest.mark.parametrize(
    ("platform", "why"),
    [
        ({"plugin": "switch", "size": 8, "link_bandwidth_gb_per_s": 100, "link_latency_ns": 500}, "the platform names none"),
        (
            {"dimensions": [{"topology": "switch", "size": 8, "link_bandwidth_gb_per_s": 9, "link_latency_ns": 1}], "device": "m1"},
            "that of the platform is 'm1', which is not one of them",
        ),
    ],
)
def test_without_a_device_of_the_platform_one_is_needed(platform: Any, why: str) -> None:
    with pytest.raises(InputError, match=f"device is missing, and {why}; expected device = a100-40"):
        run(platform=platform, network="plugin:analytical")


# -- Precision and stack -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"workload": {"precision": "mxfp8"}}, "NVIDIA H100 SXM5 80 GB multiplies no MX formats"),
        ({"compute": {"stack": "llm-foundry-a100-80"}}, "stack llm-foundry-a100-80 was fitted on a100-80, and the device is h100"),
        (
            {"compute": {"stack": "llm-foundry-h100"}, "workload": {"precision": "fp8"}},
            "stack llm-foundry-h100 was fitted with bf16, and the precision of the workload is fp8",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:stack llm-foundry-h100. the iterations")
def test_what_was_not_made_for_each_other_is_said(given: Any, words: str) -> None:
    with pytest.warns(InputWarning, match=words):
        result = run(**given)
    assert any(words in each.message for each in result.mismatches)


def test_what_fits_is_said_to_be_nothing() -> None:
    result = run(compute={"stack": "nemo-h100"}, workload={"precision": "fp8"})
    assert result.mismatches == []
    known = stack.read_stack("nemo-h100")
    assert (result.compute["stack"], result.compute["held_out_error"]) == ("nemo-h100", known.held_out_error)


@pytest.mark.parametrize(
    ("given", "stack_name"),
    [
        ({}, "bridge-h100"),
        ({"platform": "plugin:dgx_a100?nodes=2"}, "llm-foundry-a100-80"),
        ({"platform": "plugin:gb200_nvl72?gpus=16"}, "bridge-gb200"),
        (
            {
                "platform": "plugin:switch?size=8&link_bandwidth_gb_per_s=50",
                "network": "plugin:analytical",
                "compute": {"device": "tpu-v4"},
            },
            "kernels",
        ),
    ],
)
def test_training_has_the_newest_stack_of_the_device(given: dict[str, Any], stack_name: str) -> None:
    result = quietly(**given)
    chosen = stack_name != "kernels"
    assert (result.compute["stack"], result.compute["stack_from"]) == (stack_name, "auto" if chosen else "compute")
    named = quietly(**given | {"compute": given.get("compute", {}) | {"stack": stack_name}})
    assert (named.finish_ns, named.compute["stack_from"]) == (result.finish_ns, "compute")


def test_serving_and_other_workloads_have_kernels() -> None:
    prefill = {key: value for key, value in WORKLOAD.items() if key != "zero"} | {"mode": "prefill"}
    for workload in (prefill, {"plugin": "collective", "bytes": 4096}):
        result = astra_sim.simulate(platform="plugin:dgx_h100", compute="plugin:gpu", workload=workload)
        assert result.compute["stack"] == "kernels"


@pytest.mark.filterwarnings("ignore:stack bridge-moe")
@pytest.mark.parametrize(("platform", "name"), [("dgx_h100?nodes=2", "bridge-moe-26.04"), ("gb200_nvl72?gpus=16", "bridge-moe-26.08")])
def test_models_with_experts_have_a_stack_of_their_own(platform: str, name: str) -> None:
    model = SMALL | {"experts": 8, "top_k": 2, "expert_ffn": 1024}
    result = quietly(platform=f"plugin:{platform}", workload={"model": model})
    assert result.compute["stack"] == name


def test_products_of_four_bits_have_a_stack_of_their_own() -> None:
    assert quietly(platform="plugin:gb300_nvl72?gpus=16", workload={"precision": "nvfp4"}).compute["stack"] == "bridge-nvfp4"
    assert stack.newest_stack("gb200", "llm", {"training", "experts", "nvfp4"}) == "bridge-nvfp4"
    assert stack.newest_stack("a100-80", "llm", {"training", "experts", "nvfp4"}) == "llm-foundry-a100-80"


def test_what_a_model_s_file_leaves_out_is_said_once(tmp_path: Path) -> None:
    """Although the file is read to choose a stack and its options, too."""
    config = {"model_type": "gemma2", "hidden_size": 512, "num_hidden_layers": 2, "num_attention_heads": 8, "head_dim": 64}
    config |= {
        "num_key_value_heads": 4,
        "intermediate_size": 1024,
        "vocab_size": 2048,
        "max_position_embeddings": 512,
        "sliding_window": 256,
    }
    (tmp_path / "config.json").write_text(json.dumps(config | {"hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": True}))
    for compute in ({}, {"stack": "kernels"}):
        with warnings.catch_warnings(record=True) as result:
            warnings.simplefilter("always")
            run(workload={"model": str(tmp_path)}, compute=compute)
        assert sum("the norms after attention" in str(each.message) for each in result) == 1


def test_each_device_has_one_newest_stack() -> None:
    stacks = [stack.read_stack(name) for name in stack.names()[1:]]
    newest = [(device, each.experts, stack.FOUR_BITS in each.precisions) for each in stacks for device in each.newest_on]
    assert len(newest) == len(set(newest)) > 5


def test_numbers_that_a_fit_does_not_determine_are_said() -> None:
    with pytest.warns(InputWarning, match="stack llm-foundry-h100: the iterations of its fit do not determine attention_rate = 0.3"):
        run(compute={"stack": "llm-foundry-h100"})


def test_the_workload_takes_the_options_of_the_stack() -> None:
    results: dict[str, Any] = {"compute": {"stack": "nemo-h100"}, "workload": {"precision": "fp8"}}
    result = run(**results)
    assert result.compute["workload_options"] == {"gradients": "same", "scatter": 0.006, "overlap.dp": True, "overlap.contention": 0.5}
    explicit = {"precision": "fp8", "gradients": "same", "scatter": 0.006, "overlap": {"dp": True, "contention": 0.5}}
    again = run(compute=results["compute"], workload=explicit)
    assert again.finish_ns == result.finish_ns
    assert "workload_options" not in again.compute


def test_what_the_workload_is_given_stays() -> None:
    results = {"precision": "fp8", "gradients": "fp32", "overlap": {"contention": 0.0}}
    result = run(compute={"stack": "nemo-h100"}, workload=results)
    assert result.compute["workload_options"] == {"scatter": 0.006, "overlap.dp": True}


def test_options_without_effect_are_not_taken() -> None:
    """Contention where nothing runs beside compute would be refused, if it were given."""
    results = {"precision": "fp8", "overlap": {"dp": False}}
    assert run(compute={"stack": "nemo-h100"}, workload=results).compute["workload_options"] == {"gradients": "same", "scatter": 0.006}
    prefill = {key: value for key, value in WORKLOAD.items() if key != "zero"} | {"mode": "prefill", "precision": "fp8"}
    result = astra_sim.simulate(platform="plugin:dgx_h100", compute="plugin:gpu?stack=nemo-h100", workload=prefill)
    assert "workload_options" not in result.compute


def test_the_experiment_of_a_result_has_what_was_given(tmp_path: Path) -> None:
    """Run again it takes the same options of the stack, and with another stack those of the other."""
    results = {"precision": "fp8", "overlap": {"contention": 0.0}}
    result = run(compute={"stack": "nemo-h100"}, workload=results)
    assert result.experiment["workload"]["overlap"] == {"contention": 0.0}
    assert "gradients" not in result.experiment["workload"]
    file = tmp_path / "result.json"
    file.write_text(json.dumps(result.to_dict()))
    again = astra_sim.simulate(load_experiment(file))
    assert (again.finish_ns, again.compute) == (result.finish_ns, result.compute)
    other = astra_sim.simulate(load_experiment(file), set=["compute.stack=kernels"])
    assert "workload_options" not in other.compute


def test_the_summary_says_device_stack_and_error(tmp_path: Path) -> None:
    file = tmp_path / "small.toml"
    model = ", ".join(f"{key} = {value}" for key, value in SMALL.items())
    file.write_text(
        'platform = "plugin:dgx_h100"\ncompute = "plugin:gpu?stack=nemo-h100"\nnetwork = "plugin:analytical?model=nccl"\n'
        f'[workload]\nplugin = "llm"\nmodel = {{ {model} }}\nglobal_batch = 32\nprecision = "fp8"\n'
    )
    printed = CliRunner().invoke(cli.astra, [str(file)]).output
    assert "h100  (of the platform)" in printed
    assert "nemo-h100  (error 3.7% on 8 held-out iterations)" in printed
    assert "gradients=same" in printed
    memory = CliRunner().invoke(cli.astra, ["memory", str(file), "--json"]).output
    whole = CliRunner().invoke(cli.astra, ["memory", str(file), "--set", "workload.gradients=fp32", "--json"]).output
    assert json.loads(memory)["memory_bytes"] < json.loads(whole)["memory_bytes"]


# -- Devices of one's own ----------------------------------------------------------------------------------------------


def test_a_device_may_be_based_on_another(tmp_path: Path) -> None:
    (tmp_path / "first.toml").write_text('based_on = "h100"\nmemory_bandwidth_gb_per_s = 5000\n')
    (tmp_path / "second.toml").write_text('based_on = "first.toml"\ncalibrated = true\n[gemm.bf16]\nlarge = 0.5\n')
    result, h100 = device.read_device(str(tmp_path / "second.toml")), device.read_device("h100")
    assert (result.memory_bandwidth_gb_per_s, result.gemm_fit("bf16").large) == (5000, 0.5)
    assert result.gemm_fit("bf16").medium == h100.gemm_fit("bf16").medium
    assert (result.based_on, result.calibrated, result.title) == ("h100", True, "second")
    assert not device.read_device(str(tmp_path / "first.toml")).calibrated


@pytest.mark.parametrize("name", device.names())
def test_the_file_to_start_from_is_the_device(name: str, tmp_path: Path) -> None:
    own = device.read_device(name)
    for whole in (False, True):
        file = tmp_path / f"{whole}.toml"
        file.write_text(template(name, whole))
        result = device.read_device(str(file))
        keys = ("multiprocessors", "memory_gib", "peak_tera_ops_per_s", "gemm", "attention", "elementwise", "cast", "block_scaling")
        assert [getattr(result, key) for key in keys] == [getattr(own, key) for key in keys]


def test_the_command_lists_devices_and_writes_a_file(tmp_path: Path) -> None:
    assert "NVIDIA H100 SXM5 80 GB" in CliRunner().invoke(cli.astra, ["device"]).output
    file = tmp_path / "mine.toml"
    assert CliRunner().invoke(cli.astra, ["device", "h100", "-o", str(file)]).exit_code == 0
    assert device.read_device(str(file)).based_on == "h100"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            'title = "x"\n[attention]\ntail = 0.1\n[gemm.fp8]\nlarge = 0.5\n',
            r"missing: calibrated, multiprocessors, .*attention.start_us, elementwise, cast, gemm.fp8.medium, .*gemm.bf16;",
        ),
        ('titel = "x"\n', "unknown key 'titel'; did you mean 'title'"),
        ('based_on = "h1000"\n', "based_on: device is 'h1000'; did you mean 'h100'"),
        ('based_on = "x.toml"\n', "based_on is 'x.toml', and so the device is based on itself"),
        ("based_on = 3\n", "based_on is 3; expected a device"),
    ],
)
def test_one_error_names_all_that_is_missing(text: str, why: str, tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=why):
        device.read_device(str(file))


def test_missing_keys_of_tables_in_tables() -> None:
    assert device.missing_keys(device.GpuDevice, {"cast": {"efficiency": 1.0}, "attention": 3})[-2:] == ["elementwise", "cast.start_us"]
    assert device.missing_keys(device.GpuDevice, None) == []
