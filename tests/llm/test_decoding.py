"""Decoding with latent attention works on the latents of the cache (arXiv 2405.04434, section 2.1.2)."""

from __future__ import annotations

from typing import Any

import astra_sim
import pytest
from astra_sim.shapes import Attention, Gemm
from astra_sim_llm.models import MODELS
from astra_sim_llm.operations import Block
from astra_sim_llm.parallelism import Parallelism
from astra_sim_llm.products import ProductWork
from astra_sim_llm.steps import LlmRun

KEYS, SEQUENCES = 4096, 128
DEEPSEEK = MODELS["deepseek-v3"]


def kernels(work: ProductWork, tensor: int = 1) -> dict[str, Any]:
    """The kernels of a dense layer of DeepSeek-V3, by name."""
    steps = Block(DEEPSEEK, Parallelism(tensor=tensor), work).forward(0)
    return {step.name: step.shape for step in steps if isinstance(step, LlmRun)}


@pytest.mark.parametrize("tensor", [1, 8])
def test_a_token_reads_the_latents_of_the_cache_once(tensor: int) -> None:
    """0.6 GB a layer, where keys and values of 128 heads would be 42.9 GB; each tensor rank reads all of it."""
    core = kernels(ProductWork(SEQUENCES, 1, keys=KEYS, training=False), tensor)["attention"]
    heads = 128 // tensor
    assert isinstance(core, Attention)
    assert core.count_bytes(2) == 2 * SEQUENCES * (KEYS * 576 + heads * (576 + 512))
    assert core.operations == SEQUENCES * heads * (576 + 512) * (2 * KEYS - 1)


def test_absorbed_products_have_the_weights_of_those_that_make_keys_and_values() -> None:
    decoding = kernels(ProductWork(SEQUENCES, 1, keys=KEYS, training=False))
    prefill = kernels(ProductWork(1, KEYS, training=False))
    assert decoding["query absorb"] == Gemm(m=SEQUENCES, n=512, k=128, batch=128, element_type="bf16")
    assert decoding["value up"] == Gemm(m=SEQUENCES, n=128, k=512, batch=128, element_type="bf16")
    assert "key value up" not in decoding
    up = prefill["key value up"]
    assert up.n * up.k == 128 * 512 * (128 + 128)
    assert prefill["attention"].key_heads == 128  # expanded


def test_a_token_of_deepseek_v3() -> None:
    """128 sequences a rank on 64 H100: weights and cache are read in some tens of milliseconds, not in a second."""
    result = astra_sim.simulate(
        platform="plugin:dgx_h100?nodes=8",
        compute="plugin:gpu?device=h100",
        system="plugin:astra2",
        workload="plugin:llm?model=deepseek-v3&mode=decode&kv_length=4096&expert_parallel=64&global_batch=8192&micro_batch=128&precision=fp8",
    )
    assert 0.020 < result.iteration_s < 0.060


def test_a_cache_in_fp8_takes_a_byte_an_element() -> None:
    words = "plugin:llm?model=llama3-8b&mode=decode&kv_length=4096&global_batch=8&micro_batch=8&precision=fp8&fp8_attention="
    wide, narrow = (
        astra_sim.simulate(
            platform="plugin:dgx_h100?nodes=1&gpus=1", compute="plugin:gpu?device=h100", system="plugin:astra2", workload=words + value
        )
        for value in ("false", "true")
    )
    assert wide.memory_bytes - narrow.memory_bytes == 32 * 8 * 4097 * 2 * 8 * 128


def test_values_that_are_no_part_of_keys() -> None:
    with pytest.raises(astra_sim.InputError, match="value_size is 64 with values_in_keys; expected at most head_size, which is 32"):
        Attention(heads=1, query_length=1, key_length=1, head_size=32, value_size=64, values_in_keys=True)
