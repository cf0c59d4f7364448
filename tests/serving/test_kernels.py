"""Kernels of servers: products, experts and all-reduces where the device has numbers for them."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from astra_sim import InputError
from astra_sim.commands import shared_plugins
from astra_sim.compute import Work
from astra_sim.experiments import component
from astra_sim.models import describe_model
from astra_sim.shapes import Attention, Elementwise, Gemm, GroupedGemm
from astra_sim_compute_gpu.device import DirectAllReduceFit, device_of, read_table
from astra_sim_compute_gpu.model import Gpu
from astra_sim_serving import serve
from astra_sim_serving.expert_loads import ExpertLoad, expert_load, touched_experts
from astra_sim_serving.formulas import KernelFormulas
from astra_sim_serving.model_memory import Sharding

from serving.cases import EXPERTS, RING, TINY, case

SERVED = ("inference",)
SCALES = ("inference", "scales_inputs")
BLOCKS = ("inference", "scales_inputs", "block_scaled")
NCCL = {"plugin": "analytical", "model": "nccl", "device": "h100"}


def gpu(device: str = "h100") -> Gpu:
    compute: Gpu = component("compute", f"gpu?device={device}", shared_plugins(), "test")
    return compute


def us(compute: Any, shape: Any) -> float:
    return float(compute.duration_ns(Work(shape=shape)) / 1e3)


def test_a_product_that_reads_much_takes_its_start_and_its_bytes() -> None:
    compute = gpu()
    inference: Any = compute.profile.inference
    fit = inference.gemm["bf16"]
    size = 2 * (8 * 8192 + 8192 * 8192 + 8 * 8192)
    expected = fit.start_us + size / (compute.profile.memory_bandwidth_gb_per_s * 1e3 * fit.byte_efficiency)
    shape = Gemm(m=8, n=8192, k=8192, element_type="bf16")
    assert us(compute.for_workload("serving", SERVED), shape) == pytest.approx(expected)
    assert us(compute, shape) != pytest.approx(expected)  # training keeps its numbers


def test_scales_of_inputs_cost_time_and_blocks_cost_more() -> None:
    compute = gpu()
    shape = Gemm(m=64, n=4096, k=4096, element_type="fp8")
    known, token, block = (us(compute.for_workload("serving", traits), shape) for traits in (SERVED, SCALES, BLOCKS))
    assert known == us(compute, shape)
    assert known < token < block
    wide = Gemm(m=64, n=4096, k=4096, element_type="bf16")
    assert us(compute.for_workload("serving", BLOCKS), wide) == us(compute.for_workload("serving", SERVED), wide)


def test_products_with_many_rows_have_the_rates_of_training() -> None:
    inference: Any = gpu().profile.inference
    fit = inference.gemm["fp8"]
    assert [fit.share_of(rows) for rows in (1, 512, 1024, 2048, 8192)] == pytest.approx([0.5, 0.5, 0.5**0.5, 1.0, 1.0])
    compute, shape = gpu(), Gemm(m=4096, n=8192, k=8192, element_type="bf16")
    assert us(compute.for_workload("serving", SERVED), shape) == pytest.approx(us(compute, shape), rel=0.01)


def test_products_of_experts_have_numbers_of_their_own() -> None:
    compute = gpu().for_workload("serving", SERVED)
    grouped = GroupedGemm(experts=8, rows=2, n=2048, k=2048, element_type="bf16")
    inference: Any = gpu().profile.inference
    size = 2 * 8 * (2 * 2048 + 2048 * 2048 + 2 * 2048)
    fit = inference.grouped_gemm["bf16"]
    assert us(compute, grouped) == pytest.approx(fit.start_us + size / (3350e3 * fit.byte_efficiency))


@pytest.mark.filterwarnings("ignore:device b300 is not calibrated")
def test_a_device_without_numbers_takes_those_of_training() -> None:
    compute = gpu("b300")
    shape = Gemm(m=8, n=4096, k=4096, element_type="bf16")
    served = compute.for_workload("serving", SCALES)
    assert us(served, shape) == us(compute, shape)
    assert served.direct_all_reduce_us(4, 1024) is None


def test_an_all_reduce_takes_one_shot_or_two() -> None:
    fit = DirectAllReduceFit(start_us=4.0, gb_per_s=100.0, two_shots_start_us=8.0, two_shots_gb_per_s=200.0)
    assert fit.us(4, 0) == 4.0
    assert fit.us(4, 100_000) == pytest.approx(4 + 3 * 1.0)  # two shots would take 8.75
    assert fit.us(4, 1_000_000) == pytest.approx(8 + 2 * 0.75 * 5)  # one shot would take 34
    assert fit.us(4, 8 << 20) is not None
    assert fit.us(4, (8 << 20) + 1) is None
    assert gpu().direct_all_reduce_us(4, 1024) is None  # the model of a training


def test_rows_of_experts_elsewhere_are_written_and_read() -> None:
    dimensions = {
        "layers": 1, "hidden": 1024, "heads": 8, "ffn": 512, "gated": True, "vocab": 1000, "experts": 64, "top_k": 4, "expert_ffn": 512,
    }  # fmt: skip
    model = describe_model(dimensions, shared_plugins(), "test")

    def traffic(sharding: Sharding, gathered: bool = True) -> tuple[int, ...]:
        load = ExpertLoad(64 / sharding.expert, 400 / sharding.expert)
        kernels = KernelFormulas(model, sharding, gpu(), "bf16", "bf16", gathered).expert_kernels(100, load)
        first, second, activation, combine = kernels
        assert isinstance(first, GroupedGemm)
        assert isinstance(second, GroupedGemm)
        assert isinstance(activation, Elementwise)
        assert isinstance(combine, Elementwise)
        return first.experts * first.rows, activation.read_bytes, activation.write_bytes, combine.read_bytes, combine.write_bytes

    rows, hidden = 400, 1024
    assert traffic(Sharding()) == (64 * 6, rows * 1024 * 2, rows * 512 * 2, rows * hidden * 2, 100 * hidden * 2)
    sent = traffic(Sharding(tensor=4, expert=4), gathered=False)
    assert sent == (16 * 6, 100 * 1024 * 2, 100 * 512 * 2, 100 * hidden * 2, 100 * hidden * 2)
    zeros = (rows - 100) * (1024 + hidden)
    assert traffic(Sharding(tensor=4, expert=4)) == (16 * 6, rows * 1024 * 2, (rows * 512 + zeros) * 2, rows * hidden * 2, 100 * hidden * 2)


def test_prompts_with_latent_attention_make_keys_and_values_of_each_head() -> None:
    model = describe_model("deepseek-v3", shared_plugins(), "test")
    compute = gpu().for_workload("serving", SERVED)
    formulas = KernelFormulas(model, Sharding(tensor=8), compute, "bf16", "bf16")
    shape: dict[str, Any] = {
        "heads": 16,
        "key_heads": 16,
        "query_length": 512,
        "head_size": 192,
        "value_size": 128,
        "causal": True,
        "paged": True,
    }
    alone, behind = (us(compute, Attention(key_length=512 + context, **shape)) for context in (0, 1024))
    made = us(compute, Gemm(m=1024, n=16 * (128 + 128), k=512, element_type="bf16"))
    assert formulas.prompt_us(512, 0) == pytest.approx(alone)
    assert formulas.prompt_us(512, 1024) == pytest.approx(behind + made)
    latents = Attention(
        heads=16,
        key_heads=1,
        query_length=8192,
        key_length=8192,
        head_size=576,
        value_size=512,
        values_in_keys=True,
        causal=True,
        paged=True,
    )
    assert formulas.prompt_us(8192, 0) < us(compute, latents) / 2


def served(model: dict[str, Any], **serving: Any) -> dict[str, Any]:
    return {
        "serving": {
            "model": model,
            "pool": [{"tensor_parallel": 4}],
            "requests": {"arrival": "burst", "count": 2, "input": 64, "output": 20},
            **serving,
        },
        "compute": {"plugin": "gpu", "device": "h100"},
        "platform": {"plugin": "dgx_h100"},
        "network": NCCL,
    }


def tpot(experiment: dict[str, Any]) -> float:
    return float(serve(experiment).document()["tpot_s"]["mean"])


def test_all_reduces_are_direct_where_the_network_was_measured() -> None:
    table = served({"name": "llama-3-8b"})
    direct = tpot(table)
    assert direct == tpot(served({"name": "llama-3-8b"}, all_reduce="direct"))
    assert direct < tpot(served({"name": "llama-3-8b"}, all_reduce="network"))
    simulated = {**table, "network": {"plugin": "analytical"}}
    assert tpot(simulated) == tpot({**simulated, "serving": {**table["serving"], "all_reduce": "network"}})
    assert tpot(simulated) != tpot({**simulated, "serving": {**table["serving"], "all_reduce": "direct"}})


def test_groups_of_several_nodes_use_the_network() -> None:
    table = served({"name": "llama-3-8b"}, pool=[{"tensor_parallel": 8, "npus": "0-3,8-11"}])
    table["platform"] = {"plugin": "dgx_h100", "nodes": 2}
    assert tpot(table) == tpot({**table, "serving": {**table["serving"], "all_reduce": "network"}})
    with pytest.raises(InputError, match=r"serving.all_reduce is 'direct'; expected NPUs of one node, and a compute model that knows"):
        serve({**table, "serving": {**table["serving"], "all_reduce": "direct"}})


def test_the_engine_says_how_inputs_are_scaled() -> None:
    narrow = {"name": "llama-3-8b", "precision": "fp8"}
    of_vllm, of_trtllm = tpot(served(narrow)), tpot(served(narrow, engine="trtllm"))
    assert of_trtllm < of_vllm
    assert of_vllm == tpot(served({**narrow, "scaling": "token"}))
    assert of_vllm == pytest.approx(tpot(served(narrow, engine="sglang")))
    assert of_vllm < tpot(served({**narrow, "scaling": "block"}))
    assert of_trtllm == tpot(served({**narrow, "scaling": "tensor"}))
    with pytest.raises(InputError, match=r"serving.model.scaling has no effect with precision = 'bf16'; expected fp8"):
        serve(served({"name": "llama-3-8b", "scaling": "block"}))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"gemm": {"bf17": {}}}, "inference: gemm has 'bf17'; known: "),
        ({"grouped_gemm": {"bf16": {"share": 0, "start_us": 1, "byte_efficiency": 0.5}}}, "inference: grouped_gemm: bf16: share is 0"),
        ({"gemm": {"fp8_block": {"share": 1, "byte_efficiency": 0.5}}}, "inference: gemm: fp8_block: start_us is missing"),
        ({"all_reduce": {"start_us": 1}}, "all_reduce"),
    ],
)
def test_wrong_numbers_of_servers_are_named(change: dict[str, Any], words: str) -> None:
    table, _ = read_table("h100")
    with pytest.raises(InputError) as caught:
        device_of({**table, "inference": change}, "mine.toml")
    assert words in str(caught.value)
    assert str(caught.value).startswith("mine.toml: ")


def test_numbers_of_a_device_are_not_those_of_another() -> None:
    h100, b200 = gpu("h100").profile.inference, gpu("b200").profile.inference
    assert h100 is not None
    assert b200 is not None
    assert attrs.asdict(h100) != attrs.asdict(b200)


def test_without_a_power_law_all_ranks_have_the_mean() -> None:
    model = describe_model({**EXPERTS, "experts": 64, "top_k": 4}, shared_plugins(), "test")
    assert expert_load(model, 100, 8, None) == (touched_experts(model, 100) / 8, 50)


@pytest.mark.parametrize("power", [1.0, 1.01, 1.2, 3.0])
@pytest.mark.parametrize("tokens", [1, 10, 5000])
def test_a_power_law_fills_a_rank_and_touches_fewer_experts(power: float, tokens: int) -> None:
    """Of all ranks together choices stay as many, but for those of an expert that each token can choose but once."""
    model = describe_model({**EXPERTS, "experts": 64, "top_k": 4}, shared_plugins(), "test")
    whole = expert_load(model, tokens, 1, power)
    assert whole.touched < touched_experts(model, tokens) + 1e-9
    assert 0.5 * tokens * 4 < whole.choices <= tokens * 4 * (1 + 1e-9)
    fullest = [expert_load(model, tokens, ranks, power) for ranks in (2, 8, 64)]
    for load, ranks in zip(fullest, (2, 8, 64), strict=True):
        assert whole.choices / ranks < load.choices <= tokens * min(4, 64 // ranks)
        assert load.touched <= 64 / ranks
    assert [each.choices for each in fullest] == sorted((each.choices for each in fullest), reverse=True)


def test_a_server_whose_tokens_choose_unevenly() -> None:
    """Few tokens read fewer experts; of many the fullest rank has more to do than the mean: both loops have the same times."""
    model = {"dimensions": {**EXPERTS, "experts": 64, "top_k": 4, "hidden": 1024, "expert_ffn": 512}}
    times = {}
    for name, tokens in ("few", 8), ("many", 4000):
        for power in None, 1.2:
            requests = {"arrival": "burst", "count": 8, "input": tokens, "output": 2}
            options = {} if power is None else {"expert_power": power}
            pool = [{"tensor_parallel": 4, "expert_parallel": 4}]
            table = case(model={**model, **options}, pool=pool, requests=requests, max_batched_tokens=32_000, kv_blocks=5000)
            table["compute"] = {"plugin": "gpu", "device": "a100-80"}
            table["platform"] = {**RING, "size": 4}
            results = [serve(table, compiled=compiled) for compiled in (True, False)]
            assert results[0].csv() == results[1].csv()
            times[name, power] = results[0].document()["time"]["gemm"]
    assert times["few", 1.2] < times["few", None]
    assert times["many", 1.2] > 1.1 * times["many", None]
    with pytest.raises(InputError, match=r"serving\.model\.expert_power has no effect: the model has no experts"):
        serve(case(model={"dimensions": TINY, "expert_power": 1.2}))
