"""Parameters and FLOPs of models against published totals, closed forms and measured rows."""

from __future__ import annotations

import json
from collections import defaultdict
from statistics import median
from typing import Any

import attrs
import pytest
from astra_sim_llm.counts import (
    active_parameters,
    forward_flops,
    head_flops,
    iteration_flops,
    megatron_flops,
    megatron_recompute_flops,
    parameters,
    recomputed_flops,
    router_flops,
    stage_parameters,
)
from astra_sim_llm.in_flight import even_stages
from astra_sim_llm.models import MODELS, Model
from astra_sim_llm.parallelism import Parallelism
from hypothesis import given
from hypothesis import strategies as st
from support.references import FOLDER

GPTS = [name for name in MODELS if name.startswith(("gpt3", "megatron"))]

# As the pages of the published weights count them.
PUBLISHED = {
    "llama2-7b": 6_738_415_616,
    "llama2-13b": 13_015_864_320,
    "llama2-70b": 68_976_648_192,
    "llama3-8b": 8_030_261_248,
    "llama3-70b": 70_553_706_496,
    "llama3-405b": 405_853_388_800,
    "mixtral-8x7b": 46_702_792_704,
    "mixtral-8x22b": 140_630_071_296,
    "qwen3-30b-a3b": 30_532_122_624,
    "qwen3-235b-a22b": 235_093_634_560,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_those_published(name: str) -> None:
    assert parameters(MODELS[name]).total == PUBLISHED[name]


def test_parameters_of_deepseek_v3() -> None:
    """Without multi-token prediction 671 026 419 200, of which 256 a layer balance the router and are not trained; 37 G active."""
    model = attrs.evolve(MODELS["deepseek-v3"], mtp_layers=0)
    assert parameters(model).total == 671_026_419_200 - 58 * 256
    assert active_parameters(model) / 1e9 == pytest.approx(37.5, abs=0.1)


@pytest.mark.parametrize("name", GPTS)
def test_parameters_of_a_gpt(name: str) -> None:
    """12 L h^2 (1 + 13/12h + (V + s)/12Lh), and the last norm (arXiv 2104.04473, equation 2)."""
    model = MODELS[name]
    layers, hidden = model.layers, model.hidden
    assert parameters(model).total == 12 * layers * hidden**2 + 13 * layers * hidden + (model.vocab + 2048) * hidden + 2 * hidden


@pytest.mark.parametrize(("name", "billions"), [("mixtral-8x7b", 12.9), ("qwen3-30b-a3b", 3.35), ("qwen3-235b-a22b", 22.2)])
def test_active_parameters(name: str, billions: float) -> None:
    assert active_parameters(MODELS[name]) / 1e9 == pytest.approx(billions, rel=0.005)
    assert active_parameters(MODELS["llama3-8b"]) == parameters(MODELS["llama3-8b"]).total


@pytest.mark.parametrize("name", GPTS)
def test_closed_forms_of_megatron(name: str) -> None:
    """The forms without and with full recomputation count the full square of scores."""
    model, batch, sequence = MODELS[name], 8, 2048
    shape = (batch, sequence, model.layers, model.hidden, model.vocab)
    flops = iteration_flops(model, sequence, batch, causal=False)
    assert flops == pytest.approx(megatron_flops(*shape), rel=1e-12)
    again = batch * sequence * recomputed_flops(model, sequence, "full", causal=False)
    assert flops + again == pytest.approx(megatron_recompute_flops(*shape), rel=1e-12)


def test_recomputation_stops_early_without_the_last_product() -> None:
    model = MODELS["gpt3-175b"]
    full, early = (recomputed_flops(model, 2048, kind) for kind in ("full", "full_early_stop"))
    assert full - early == 2 * model.layers * 4 * model.hidden**2
    assert recomputed_flops(model, 2048, "selective", causal=False) == model.layers * 4 * 2048 * model.hidden
    assert recomputed_flops(model, 2048, "none") == 0


def test_multi_token_prediction_adds_a_block_a_product_and_a_head() -> None:
    model = MODELS["deepseek-v3"]
    more = forward_flops(model, 4096) - forward_flops(attrs.evolve(model, mtp_layers=0), 4096)
    longer = forward_flops(attrs.evolve(model, mtp_layers=0, layers=62), 4096) - forward_flops(attrs.evolve(model, mtp_layers=0), 4096)
    assert more == longer + 4 * model.hidden**2 + head_flops(model)


# -- Megatron-Bridge ---------------------------------------------------------------------------------------------------

BRIDGE = {
    "LLAMA3-8B": "llama3-8b",
    "LLAMA3-70B": "llama3-70b",
    "LLAMA3.1-405B": "llama3-405b",
    "Qwen3_30B_a3B": "qwen3-30b-a3b",
    "Qwen3_235B_a22B": "qwen3-235b-a22b",
    "DeepSeekV3": "deepseek-v3",
}


def bridge_rows() -> dict[str, list[tuple[float, float]]]:
    """For each model of Megatron-Bridge's tables how far FLOPs over tokens differ from ours, and by how much rounding may shift them."""
    path = FOLDER / "measurements.jsonl"
    if not path.is_file():
        pytest.skip("the measurements are not here")
    result = defaultdict(list)
    for line in path.read_text().splitlines():
        row = json.loads(line)
        if row["kind"] == "iteration" and row["source"].get("repo", "").endswith("/Megatron-Bridge") and _is_modelled(row):
            model = MODELS[BRIDGE[row["model"]["name"]]]
            without = "w/o MTP" in (row["model"]["variant"] or "")
            model = attrs.evolve(model, mtp_layers=0) if without else model
            flops = 3 * forward_flops(model, row["model"]["seq"])
            result[row["model"]["name"] + " without MTP" * without].append(
                (row["model_tflops"] * 1e12 / row["value"] / flops - 1, _rounding(row))
            )
    return result


def _is_modelled(row: dict[str, Any]) -> bool:
    return row["model"]["name"] in BRIDGE and bool(row.get("model_tflops")) and row["task"].startswith("Pre-Training")


def _rounding(row: dict[str, Any]) -> float:
    """Half a TFLOP/s, and half of the step of tokens/s, which is up to 32."""
    step = min(32, int(row["value"]) & -int(row["value"]))
    return float(0.5 / row["model_tflops"] + step / 2 / row["value"])


def test_flops_of_a_token_are_those_of_megatron_bridge() -> None:
    rows = bridge_rows()
    assert set(rows) >= set(BRIDGE)
    for name, differences in rows.items():
        assert abs(median(difference for difference, _ in differences)) < 0.001, name
    every = [pair for differences in rows.values() for pair in differences]
    near = [abs(difference) <= 0.005 + rounding for difference, rounding in every]
    assert len(near) >= 100
    assert sum(near) >= 0.97 * len(near)


def test_megatron_bridge_does_not_count_routers() -> None:
    """With them FLOPs of a token would be 0.2 to 0.3 % more, which is more than the tables' medians allow."""
    model = MODELS["qwen3-30b-a3b"]
    differences = [difference for difference, _ in bridge_rows()["Qwen3_30B_a3B"]]
    share = 48 * router_flops(model) / forward_flops(model, 4096)
    assert 0.003 < share
    assert abs(median(differences)) < 0.2 * share


# -- Shares of ranks ---------------------------------------------------------------------------------------------------


@st.composite
def models(draw: st.DrawFn) -> Model:
    experts = draw(st.sampled_from([0, 4, 8]))
    layers = draw(st.integers(1, 12))
    choices: dict[str, Any] = (
        {"experts": experts, "top_k": 2, "expert_ffn": 64, "shared_experts": draw(st.integers(0, 2))} if experts else {}
    )
    return Model(
        layers=layers,
        hidden=128,
        heads=8,
        kv_heads=draw(st.sampled_from([2, 8])),
        ffn=draw(st.sampled_from([256, 512])),
        vocab=1024,
        gated=draw(st.booleans()),
        tied=draw(st.booleans()),
        biases=draw(st.booleans()),
        learned_positions=draw(st.booleans()),
        mtp_layers=draw(st.integers(0, 1)),
        **choices,
    )


@given(models(), st.integers(1, 12), st.integers(1, 3))
def test_stages_have_the_parameters_of_the_model(model: Model, stages: int, chunks: int) -> None:
    """Tied weights lie on both ends, so a second stage has a copy."""
    split = even_stages(model.layers + model.mtp_layers, stages, chunks, "interleaved")
    assert sorted(layer for layers in split for layer in layers) == list(range(model.layers + model.mtp_layers))
    total = sum(stage_parameters(model, layers, stage == 0, stage == stages - 1).total for stage, layers in enumerate(split))
    copy = model.vocab * model.hidden if model.tied and stages > 1 else 0
    assert total == parameters(model).total + copy


@given(models(), st.sampled_from([2, 4, 8]))
def test_tensor_ranks_split_products_and_repeat_the_rest(model: Model, tensor: int) -> None:
    layers = range(model.layers)
    whole = stage_parameters(model, layers, True, True)
    ours = stage_parameters(model, layers, True, True, Parallelism(tensor=tensor))
    assert tensor * ours.feed_forward == whole.feed_forward
    assert ours.router == whole.router
    assert ours.experts == whole.experts
    repeated = tensor > model.key_heads
    assert tensor * ours.attention == whole.attention if not repeated else tensor * ours.attention > whole.attention
    if model.experts:
        parallel = Parallelism(tensor=tensor, expert=2, expert_tensor=2, data=2)
        assert 4 * stage_parameters(model, layers, True, True, parallel).experts == whole.experts
