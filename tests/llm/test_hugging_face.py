"""Models from Hugging Face's `config.json`: the built-in ones are reproduced, and errors name file, key and value."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from astra_sim import InputError, InputWarning
from astra_sim_llm.counts import parameters
from astra_sim_llm.hugging_face import ARCHITECTURES, WITH_TEXT, model_of_config, model_of_table
from astra_sim_llm.models import MODELS
from astra_sim_llm.plan import read_model

LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192},
    "vocab_size": 128256,
    "tie_word_embeddings": False,
}
LLAMA2 = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "max_position_embeddings": 4096,
    "vocab_size": 32000,
}
MIXTRAL = {
    "model_type": "mixtral",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "max_position_embeddings": 4096,
    "sliding_window": None,
    "vocab_size": 32000,
    "tie_word_embeddings": False,
}
QWEN3_MOE = {
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "max_position_embeddings": 4096,
    "use_sliding_window": False,
    "sliding_window": None,
    "vocab_size": 151936,
    "tie_word_embeddings": False,
}
DEEPSEEK = {
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 3,
    "moe_layer_freq": 1,
    "num_nextn_predict_layers": 1,
    "max_position_embeddings": 163840,
    "rope_scaling": {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096},
    "vocab_size": 129280,
    "tie_word_embeddings": False,
}
GPT2 = {
    "model_type": "gpt2",
    "n_embd": 768,
    "n_layer": 12,
    "n_head": 12,
    "n_positions": 1024,
    "n_inner": None,
    "resid_pdrop": 0.1,
    "vocab_size": 50257,
}
QWEN2 = {
    "model_type": "qwen2",
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "max_position_embeddings": 32768,
    "sliding_window": 4096,
    "use_sliding_window": False,
    "vocab_size": 152064,
    "tie_word_embeddings": False,
}
NEOX = {
    "model_type": "gpt_neox",
    "hidden_size": 6144,
    "intermediate_size": 24576,
    "num_hidden_layers": 44,
    "num_attention_heads": 64,
    "max_position_embeddings": 2048,
    "vocab_size": 50432,
    "tie_word_embeddings": False,
}


@pytest.mark.parametrize(
    ("table", "name"),
    [
        (LLAMA, "llama3-8b"),
        (LLAMA2, "llama2-7b"),
        (MIXTRAL, "mixtral-8x7b"),
        (QWEN3_MOE, "qwen3-30b-a3b"),
        (DEEPSEEK, "deepseek-v3"),
    ],
)
def test_the_models_by_name_come_out(table: dict[str, Any], name: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(table))
    model, expected = model_of_config(path), MODELS[name]
    same: dict[str, Any] = {"kv_heads": expected.key_heads, "head_dim": expected.head_size}
    assert attrs.evolve(model, kv_heads=model.key_heads, head_dim=model.head_size) == attrs.evolve(expected, **same)


@pytest.mark.parametrize(
    ("table", "total"),
    [
        (GPT2, 124_439_808),
        (QWEN2, 7_615_616_512),
        (NEOX, 20_554_567_680),
    ],
)
def test_parameters_are_those_published(table: dict[str, Any], total: int) -> None:
    assert parameters(model_of_table(table, "config.json")).total == total


def test_relatives() -> None:
    """Mistral is a Llama; Qwen3 has norms where Qwen2 has biases; DeepSeek-V2 predicts one token; Qwen2-MoE shares wide experts."""
    plain = model_of_table(LLAMA, "f")
    assert model_of_table({**LLAMA, "model_type": "mistral"}, "f") == plain
    assert model_of_table({**QWEN2, "model_type": "qwen3"}, "f") == attrs.evolve(
        model_of_table(QWEN2, "f"), query_biases=False, query_norms=True
    )
    second = {key: value for key, value in DEEPSEEK.items() if key != "num_nextn_predict_layers"}
    assert model_of_table({**second, "model_type": "deepseek_v2"}, "f") == attrs.evolve(MODELS["deepseek-v3"], mtp_layers=0)
    shared = model_of_table({**QWEN3_MOE, "model_type": "qwen2_moe", "shared_expert_intermediate_size": 4 * 768}, "f")
    assert (shared.shared_experts, shared.query_biases) == (4, True)


def test_the_vocabulary_is_padded_to_a_multiple() -> None:
    assert model_of_table(GPT2, "f", padded_to=1024).vocab == 51200
    assert model_of_table(GPT2, "f", padded_to=1).vocab == 50257


def test_dropout_of_gpt() -> None:
    assert model_of_table(GPT2, "f").dropout
    assert not model_of_table({**GPT2, "resid_pdrop": 0.0}, "f").dropout


def without(table: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in table.items() if name != key}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([], "c.json: expected an object of keys, not []"),
        ({}, "c.json: model_type is missing; expected a text"),
        ({"model_type": 3}, "c.json: model_type is 3; expected a text"),
        (without(LLAMA, "hidden_size"), "c.json: hidden_size is missing; expected a whole number of at least 1"),
        ({**LLAMA, "num_hidden_layers": "32"}, "c.json: num_hidden_layers is '32'; expected a whole number of at least 1"),
        ({**LLAMA, "vocab_size": 0}, "c.json: vocab_size is 0; expected a whole number of at least 1"),
        ({**LLAMA, "num_attention_heads": True}, "c.json: num_attention_heads is True; expected a whole number of at least 1"),
        ({**LLAMA, "tie_word_embeddings": "no"}, "c.json: tie_word_embeddings is 'no'; expected true or false"),
        ({**LLAMA, "num_key_value_heads": 5}, "c.json: kv_heads is 5; expected a divisor of heads, which is 32"),
        (
            {**LLAMA, "rope_scaling": {"original_max_position_embeddings": 0.5}},
            "c.json: rope_scaling: original_max_position_embeddings is 0.5; expected a whole number of at least 1",
        ),
        (
            {**DEEPSEEK, "q_lora_rank": None},
            "c.json: q_lora_rank is None; expected a whole number of at least 1",
        ),
        ({**DEEPSEEK, "moe_layer_freq": 2}, "c.json: moe_layer_freq is 2; expected 1 (all layers after the dense ones have experts)"),
        ({**QWEN3_MOE, "mlp_only_layers": [1]}, "c.json: mlp_only_layers is [1]; expected [] (all layers have experts)"),
        ({**GPT2, "resid_pdrop": 2}, "c.json: resid_pdrop is 2; expected a number from 0 to 1"),
        (
            {**QWEN3_MOE, "model_type": "qwen2_moe", "shared_expert_intermediate_size": 1000},
            "c.json: shared_expert_intermediate_size is 1000; expected a multiple of moe_intermediate_size, 768",
        ),
    ],
)
def test_errors_name_file_key_and_value(table: Any, message: str) -> None:
    with pytest.raises(InputError) as error:
        model_of_table(table, "c.json")
    assert str(error.value) == message


def test_an_unknown_type_lists_the_known_ones() -> None:
    with pytest.raises(InputError) as error:
        model_of_table({"model_type": "lama"}, "c.json")
    assert (
        str(error.value)
        == f"c.json: model_type is 'lama'; expected one of {', '.join(sorted({*ARCHITECTURES, *WITH_TEXT}))} (did you mean 'llama'?)"
    )


def test_files_that_are_no_configurations(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    with pytest.raises(InputError, match="No such file"):
        model_of_config(path)
    path.write_text('{"model_type": }')
    with pytest.raises(InputError, match=r"config.json:1: not JSON"):
        model_of_config(path)


# -- Other architectures -----------------------------------------------------------------------------------------------

LLAMA4 = {
    "model_type": "llama4",
    "text_config": {
        "model_type": "llama4_text",
        "hidden_size": 5120,
        "intermediate_size": 8192,
        "intermediate_size_mlp": 16384,
        "num_hidden_layers": 48,
        "num_attention_heads": 40,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "num_local_experts": 128,
        "num_experts_per_tok": 1,
        "interleave_moe_layer_step": 2,
        "max_position_embeddings": 8192,
        "use_qk_norm": False,
        "vocab_size": 202048,
    },
}
GPT_OSS = {
    "model_type": "gpt_oss",
    "hidden_size": 2880,
    "intermediate_size": 2880,
    "num_hidden_layers": 36,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "num_local_experts": 128,
    "num_experts_per_tok": 4,
    "max_position_embeddings": 131072,
    "rope_scaling": {"rope_type": "yarn", "original_max_position_embeddings": 4096},
    "sliding_window": 128,
    "vocab_size": 201088,
}
GEMMA2 = {
    "model_type": "gemma2",
    "hidden_size": 4608,
    "intermediate_size": 36864,
    "num_hidden_layers": 46,
    "num_attention_heads": 32,
    "num_key_value_heads": 16,
    "head_dim": 128,
    "max_position_embeddings": 8192,
    "vocab_size": 256000,
}
GEMMA3 = {
    "model_type": "gemma3",
    "text_config": {
        "model_type": "gemma3_text",
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "num_hidden_layers": 34,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
        "sliding_window": 1024,
    },
}
PHI3 = {
    "model_type": "phi3",
    "hidden_size": 3072,
    "intermediate_size": 8192,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "max_position_embeddings": 4096,
    "vocab_size": 32064,
}
GEMMA = {
    "model_type": "gemma",
    "hidden_size": 3072,
    "intermediate_size": 24576,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "max_position_embeddings": 8192,
    "vocab_size": 256000,
}


@pytest.mark.filterwarnings("ignore::astra_sim.InputWarning")
@pytest.mark.parametrize(
    ("table", "billions"),
    [(LLAMA4, 400.7), (GPT_OSS, 116.8), (GEMMA2, 27.2), (GEMMA3, 3.88), (PHI3, 3.82), (GEMMA, 8.54)],
    ids=["llama4-maverick", "gpt-oss-120b", "gemma2-27b", "gemma3-4b", "phi3-mini", "gemma-7b"],
)
def test_parameters_are_those_that_are_published(table: dict[str, Any], billions: float) -> None:
    assert parameters(model_of_table(table, "config.json")).total / 1e9 == pytest.approx(billions, rel=0.002)


def test_experts_in_every_other_layer() -> None:
    with pytest.warns(InputWarning, match="only the language model is simulated"):
        model = model_of_table(LLAMA4, "config.json")
    assert [model.kind(layer) for layer in range(4)] == ["dense", "moe", "dense", "moe"]
    assert model.has_dense_layers


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (GEMMA2, ["norms after attention"]),
    ],
)
def test_what_is_left_out_is_said(table: dict[str, Any], words: list[str]) -> None:
    with pytest.warns(InputWarning) as caught:
        model_of_table(table, "config.json")
    result = [str(each.message) for each in caught]
    assert all(any(word in line for line in result) for word in words)


WINDOWED, WHOLE = "sliding_attention", "full_attention"


@pytest.mark.filterwarnings("ignore::astra_sim.InputWarning")
@pytest.mark.parametrize(
    ("table", "rule", "window"),
    [
        ({**LLAMA, "model_type": "mistral", "sliding_window": 4096}, lambda layer: True, 4096),
        ({**LLAMA, "model_type": "mistral"}, lambda layer: False, 4096),
        ({**LLAMA, "model_type": "mistral", "sliding_window": 10**6}, lambda layer: False, 4096),
        ({**QWEN2, "use_sliding_window": True, "max_window_layers": 20}, lambda layer: layer >= 20, 4096),
        (QWEN2, lambda layer: False, 4096),
        (GPT_OSS, lambda layer: layer % 2 == 0, 128),
        ({**GPT_OSS, "layer_types": [WHOLE, WHOLE, *[WINDOWED] * 34]}, lambda layer: layer >= 2, 128),
        ({**GPT_OSS, "layer_types": [WHOLE] * 36}, lambda layer: False, 128),
        (GEMMA2, lambda layer: layer % 2 == 0, 4096),
        (GEMMA3, lambda layer: layer % 6 != 5, 1024),
    ],
)
def test_the_windows_of_layers_are_those_of_the_architecture(table: Any, rule: Callable[[int], bool], window: int) -> None:
    model = model_of_table(table, "config.json")
    assert [model.window_of(layer) for layer in range(model.layers)] == [window if rule(layer) else None for layer in range(model.layers)]


@pytest.mark.filterwarnings("ignore::astra_sim.InputWarning")
@pytest.mark.parametrize("listed", [[WINDOWED] * 3, ["linear_attention"] * 36, [*[WINDOWED, WINDOWED, WHOLE, WHOLE] * 9], "sliding"])
def test_a_list_of_layers_that_is_no_rule_is_refused(listed: Any) -> None:
    with pytest.raises(InputError, match=r"config.json: layer_types is .*; expected "):
        model_of_table({**GPT_OSS, "layer_types": listed}, "config.json")


def test_a_folder_of_a_model_is_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    assert model_of_config(tmp_path) == model_of_config(tmp_path / "config.json")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"empty: the folder has no config.json"):
        model_of_config(tmp_path / "empty")


def test_models_of_other_kinds_are_refused_with_the_reason_and_the_list() -> None:
    with pytest.raises(InputError, match=r"'jamba', whose Mamba layers .* are not modelled; expected one of .*gpt_oss.*llama4"):
        model_of_table({"model_type": "jamba"}, "config.json")
    with pytest.raises(InputError, match="'t5', whose encoder is not modelled"):
        model_of_table({"model_type": "t5"}, "config.json")


def test_an_unknown_model_is_told_all_that_there_are() -> None:
    with pytest.raises(InputError) as error:
        read_model("llama-7b")
    assert all(name in str(error.value) for name in MODELS)
