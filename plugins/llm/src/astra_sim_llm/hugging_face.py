"""Models from a Hugging Face `config.json`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import attrs
from astra_sim import InputError
from astra_sim.errors import located, suggestion, warn, warn_of_unknown
from astra_sim.files import FilePath, parse_json, read_text

from astra_sim_llm.hugging_face_keys import OF_ROTARY_SCALING, WITHOUT_EFFECT
from astra_sim_llm.models import LatentAttention, Model

CONFIG = "config.json"


def model_of_config(path: FilePath, padded_to: int = 1) -> Model:
    """The model that a `config.json` describes, or that in a folder, its vocabulary rounded up to a multiple of `padded_to`.

    Raises InputError naming the file, the key and its value. Warns of parts that a description does not have.
    """
    name = str(path)
    if os.path.isdir(name):
        name = os.path.join(name, CONFIG)
        if not os.path.isfile(name):
            raise InputError(f"{path}: the folder has no {CONFIG}; expected that of a model of Hugging Face")
    return model_of_table(parse_json(read_text(name), name), name, padded_to)


def model_of_table(table: Any, where: str, padded_to: int = 1) -> Model:
    """As `model_of_config`, from the content of such a file; `where` names it in messages."""
    if not isinstance(table, Mapping):
        raise InputError(f"{where}: expected an object of keys, not {table!r}")
    if padded_to < 1:
        raise InputError(f"{where}: the vocabulary cannot be padded to a multiple of {padded_to}; expected at least 1")
    config = _Config(where, table)
    kind = config.text("model_type")
    if kind in WITH_TEXT and isinstance(table.get("text_config"), Mapping):
        config = _Config(f"{where}: text_config", table["text_config"])
        kind = WITH_TEXT[kind]
        warn(f"{where}: only the language model is simulated ({kind}), not its encoders of images or sound")
    if kind not in ARCHITECTURES:
        hint, known = suggestion(kind, ARCHITECTURES), ", ".join(sorted({*ARCHITECTURES, *WITH_TEXT}))
        why = f", whose {NOT_MODELLED[kind]} not modelled" if kind in NOT_MODELLED else ""
        close = f" ({hint})" if hint.startswith("did") and not why else ""
        raise InputError(f"{where}: model_type is {kind!r}{why}; expected one of {known}{close}")
    try:
        model = ARCHITECTURES[kind](config)
    except InputError as error:
        raise located(error, where) from None
    except ValueError as error:  # of an option out of range
        raise InputError(f"{where}: {error}") from None
    warn_of_unknown(config.where, (key for key in config.table if not str(key).startswith("_")), config.read | WITHOUT_EFFECT)
    return attrs.evolve(model, vocab=-(-model.vocab // padded_to) * padded_to)


@attrs.frozen
class _Config:
    """Keys of a file, with errors that name them; `read` are the keys that were asked for."""

    where: str
    table: Mapping[str, Any]
    read: set[str] = attrs.field(factory=set)

    def get(self, key: str, default: Any = None) -> Any:
        self.read.add(key)
        return self.table.get(key, default)

    def otherwise(self, **defaults: Any) -> _Config:
        """The same with values for keys that are missing: the architecture's own defaults."""
        result = {key: value for key, value in self.table.items() if value is not None}
        return attrs.evolve(self, table={**defaults, **result})

    def text(self, key: str) -> str:
        value = self.get(key)
        if not isinstance(value, str):
            raise self.error(key, "a text")
        return value

    def count(self, key: str, default: int | None = None, minimum: int = 1) -> int:
        """An integer; the default if the key is missing or null. Raises InputError, also if there is no default."""
        value = self.get(key)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
            raise self.error(key, f"a whole number of at least {minimum}")
        return value

    def flag(self, key: str, default: bool = False) -> bool:
        value = self.get(key, default)
        if not isinstance(value, bool):
            raise self.error(key, "true or false")
        return value

    def share(self, key: str) -> float:
        """A number from 0 to 1; 0 if the key is missing."""
        value = self.get(key, 0)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
            raise self.error(key, "a number from 0 to 1")
        return value

    def only(self, key: str, allowed: Any, why: str) -> None:
        """Raises InputError if a key has a value that a Model cannot represent."""
        if self.get(key, allowed) != allowed:
            raise self.error(key, f"{allowed!r} ({why})")

    def error(self, key: str, expected: str) -> InputError:
        value = repr(self.table[key]) if key in self.table else "missing"
        return InputError(f"{self.where}: {key} is {value}; expected {expected}")


def _rotary(config: _Config) -> dict[str, Any]:
    """The common features of all models after Llama: RMSNorm, gated feed-forward parts, rotary positions."""
    return {
        "layers": config.count("num_hidden_layers"),
        "hidden": config.count("hidden_size"),
        "heads": config.count("num_attention_heads"),
        "ffn": config.count("intermediate_size"),
        "vocab": config.count("vocab_size"),
        "sequence": _trained_sequence(config),
        "tied": config.flag("tie_word_embeddings"),
        "gated": True,
    }


def _grouped(config: _Config) -> dict[str, Any]:
    """Grouped query attention, and the common features."""
    kv_heads = config.count("num_key_value_heads", default=config.count("num_attention_heads"))
    head_dim = config.count("head_dim") if config.get("head_dim") is not None else None
    return {**_rotary(config), "kv_heads": kv_heads, "head_dim": head_dim}


def _trained_sequence(config: _Config) -> int:
    """The sequence length of pre-training: that before a rotary scaling stretched it."""
    longest = config.count("max_position_embeddings", default=2048)
    for key in ("rope_scaling", "rope_parameters"):
        scaling = config.get(key)
        if isinstance(scaling, Mapping):
            warn_of_unknown(f"{config.where}: {key}", scaling, OF_ROTARY_SCALING)
        if isinstance(scaling, Mapping) and scaling.get(_ORIGINAL) is not None:
            return _Config(f"{config.where}: {key}", scaling).count(_ORIGINAL)
    return longest


_ORIGINAL = "original_max_position_embeddings"


def _with_window(config: _Config, model: Model, full_layers: int = 0, full_interval: int = 0) -> Model:
    """The model with the window of attention of the file, if that is shorter than its sequence: of all layers but for the first
    `full_layers`, and of the others but for the last of every `full_interval`, unless the file lists the layers. Raises InputError.
    """
    window = config.count("sliding_window", default=model.sequence)
    listed = config.get("layer_types")
    if window >= model.sequence:
        return model
    model = attrs.evolve(model, window=window, full_layers=full_layers, full_interval=full_interval)
    if listed is None:
        return model
    known = ("full_attention", "sliding_attention")
    if not isinstance(listed, list) or len(listed) != model.layers or any(each not in known for each in listed):
        raise config.error("layer_types", f"a list of {' or '.join(known)} for each of {model.layers} layers")
    if all(each == known[0] for each in listed):
        return attrs.evolve(model, window=None, full_layers=0, full_interval=0)
    first = listed.index(known[1])
    rules = ((start, interval) for start in sorted({0, first}) for interval in range(model.layers + 1))
    for start, interval in rules:
        model = attrs.evolve(model, full_layers=start, full_interval=interval)
        if listed == [known[model.window_of(layer) is not None] for layer in range(model.layers)]:
            return model
    raise config.error("layer_types", f"{known[0]} in the first layers, or in the last of every few, and {known[1]} in the others")


def _llama(config: _Config) -> Model:
    config.only("attention_bias", False, "biases of all four products of attention are not modelled")
    config.only("mlp_bias", False, "biases of gated feed-forward parts are not modelled")
    return Model(**_grouped(config))


def _mistral(config: _Config) -> Model:
    return _with_window(config, Model(**_grouped(config)))


def _mixtral(config: _Config) -> Model:
    common = _grouped(config)
    experts = config.count("num_local_experts")
    model = Model(**common, experts=experts, top_k=config.count("num_experts_per_tok"), expert_ffn=common["ffn"])
    return _with_window(config, model)


def _qwen2(config: _Config) -> Model:
    model = Model(**_grouped(config), query_biases=True)
    if config.flag("use_sliding_window"):
        return _with_window(config, model, full_layers=config.count("max_window_layers", default=28, minimum=0))
    return model


def _qwen3(config: _Config) -> Model:
    config.only("attention_bias", False, "Qwen3 has norms of queries and keys instead")
    model = Model(**_grouped(config), query_norms=True)
    if config.flag("use_sliding_window"):
        return _with_window(config, model, full_layers=config.count("max_window_layers", default=28, minimum=0))
    return model


def _qwen_experts(config: _Config) -> dict[str, Any]:
    config.only("decoder_sparse_step", 1, "all layers have experts")
    config.only("mlp_only_layers", [], "all layers have experts")
    return {
        "experts": config.count("num_experts"),
        "top_k": config.count("num_experts_per_tok"),
        "expert_ffn": config.count("moe_intermediate_size"),
    }


def _qwen2_moe(config: _Config) -> Model:
    experts = _qwen_experts(config)
    width = config.count("shared_expert_intermediate_size", minimum=0, default=0)
    if width % experts["expert_ffn"]:
        raise config.error("shared_expert_intermediate_size", f"a multiple of moe_intermediate_size, {experts['expert_ffn']}")
    return attrs.evolve(_qwen2(config), **experts, shared_experts=width // experts["expert_ffn"])


def _qwen3_moe(config: _Config) -> Model:
    return attrs.evolve(_qwen3(config), **_qwen_experts(config))


def _deepseek(config: _Config) -> Model:
    """A model with latent attention, and experts after some dense layers."""
    config.only("attention_bias", False, "biases of latent attention are not modelled")
    config.only("moe_layer_freq", 1, "all layers after the dense ones have experts")
    latent = LatentAttention(
        query_rank=config.count("q_lora_rank"),
        key_value_rank=config.count("kv_lora_rank"),
        nope=config.count("qk_nope_head_dim"),
        rope=config.count("qk_rope_head_dim"),
        value=config.count("v_head_dim"),
    )
    return Model(
        **_rotary(config),
        experts=config.count("n_routed_experts"),
        top_k=config.count("num_experts_per_tok"),
        expert_ffn=config.count("moe_intermediate_size"),
        shared_experts=config.count("n_shared_experts", default=0, minimum=0),
        dense_layers=config.count("first_k_dense_replace", default=0, minimum=0),
        mtp_layers=config.count("num_nextn_predict_layers", default=0, minimum=0),
        mla=latent,
    )


def _llama4(config: _Config) -> Model:
    """A model in which every n-th layer has experts, one of them shared, with the defaults of its configuration."""
    config = config.otherwise(
        num_key_value_heads=8,
        head_dim=128,
        intermediate_size_mlp=16384,
        num_local_experts=16,
        num_experts_per_tok=1,
        interleave_moe_layer_step=1,
        attention_chunk_size=8192,
        use_qk_norm=True,
    )
    config.only("attention_bias", False, "biases of all four products of attention are not modelled")
    interval = config.count("interleave_moe_layer_step")
    layers = config.count("num_hidden_layers")
    spaced = list(range(interval - 1, layers, interval))
    config.only("moe_layers", spaced, "a layer of every interleave_moe_layer_step has experts")
    common = {**_grouped(config), "ffn": config.count("intermediate_size_mlp")}
    model = Model(
        **common,
        experts=config.count("num_local_experts"),
        top_k=config.count("num_experts_per_tok"),
        expert_ffn=config.count("intermediate_size"),
        shared_experts=1,
        expert_interval=interval,
        query_norms=config.flag("use_qk_norm"),
    )
    chunk = config.count("attention_chunk_size")
    if chunk < model.sequence:
        warn(f"{config.where}: attention_chunk_size = {chunk} has no effect; attention is counted over the whole sequence")
    return model


def _gpt_oss(config: _Config) -> Model:
    config = config.otherwise(num_key_value_heads=8, head_dim=64, num_experts_per_tok=4)
    common = _grouped(config)
    common["query_biases"] = config.flag("attention_bias", True)
    experts, top_k = config.count("num_local_experts"), config.count("num_experts_per_tok")
    model = Model(**common, experts=experts, top_k=top_k, expert_ffn=common["ffn"], expert_biases=True)
    return _with_window(config.otherwise(sliding_window=128), model, full_interval=2)


def _gemma(config: _Config) -> Model:
    config = config.otherwise(head_dim=256, tie_word_embeddings=True)
    config.only("attention_bias", False, "biases of all four products of attention are not modelled")
    return Model(**_grouped(config))


def _gemma2(config: _Config) -> Model:
    return _gemma_with_more_norms(config, query_norms=False, full_interval=2)


def _gemma3(config: _Config) -> Model:
    defaults = {"num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 262208, "max_position_embeddings": 131072}
    config = config.otherwise(**defaults, sliding_window_pattern=6)
    return _gemma_with_more_norms(config, query_norms=True, full_interval=config.count("sliding_window_pattern"))


def _gemma_with_more_norms(config: _Config, query_norms: bool, full_interval: int) -> Model:
    model = attrs.evolve(_gemma(config), query_norms=query_norms)
    warn(f"{config.where}: the norms after attention and feed-forward parts are not counted")
    return _with_window(config.otherwise(sliding_window=4096), model, full_interval=full_interval)


def _phi3(config: _Config) -> Model:
    return _with_window(config, _llama(config))


def _gpt2(config: _Config) -> Model:
    """A model with biases, learned positions and dropout, in the names of GPT-2."""
    hidden = config.count("n_embd")
    return Model(
        layers=config.count("n_layer"),
        hidden=hidden,
        heads=config.count("n_head"),
        ffn=config.count("n_inner", default=4 * hidden),
        vocab=config.count("vocab_size"),
        sequence=config.count("n_positions"),
        tied=config.flag("tie_word_embeddings", True),
        biases=True,
        dropout=config.share("resid_pdrop") > 0,
        learned_positions=True,
    )


def _gpt_neox(config: _Config) -> Model:
    config.only("attention_bias", True, "GPT-NeoX has biases of all products")
    return Model(**{**_rotary(config), "gated": False}, biases=True, dropout=config.share("hidden_dropout") > 0)


ARCHITECTURES: dict[str, Callable[[_Config], Model]] = {
    "llama": _llama,
    "mistral": _mistral,
    "mixtral": _mixtral,
    "qwen2": _qwen2,
    "qwen2_moe": _qwen2_moe,
    "qwen3": _qwen3,
    "qwen3_moe": _qwen3_moe,
    "llama4_text": _llama4,
    "gpt_oss": _gpt_oss,
    "gemma": _gemma,
    "gemma2": _gemma2,
    "gemma3_text": _gemma3,
    "phi3": _phi3,
    "deepseek_v2": _deepseek,
    "deepseek_v3": _deepseek,
    "gpt2": _gpt2,
    "gpt_neox": _gpt_neox,
}
"""Readers of a `config.json`, by its `model_type`."""

WITH_TEXT = {"llama4": "llama4_text", "gemma3": "gemma3_text", "mistral3": "mistral"}
"""Of models that read images, too: the `model_type` of the language model, which their `text_config` describes."""

_STATES = "layers with recurrent states are"
NOT_MODELLED = {
    "jamba": f"Mamba {_STATES}",
    "mamba": f"{_STATES}",
    "mamba2": f"{_STATES}",
    "falcon_mamba": f"{_STATES}",
    "bamba": f"Mamba {_STATES}",
    "zamba2": f"Mamba {_STATES}",
    "nemotron_h": f"Mamba {_STATES}",
    "granitemoehybrid": f"Mamba {_STATES}",
    "recurrent_gemma": f"{_STATES}",
    "rwkv": f"{_STATES}",
    "qwen3_next": "layers with linear attention are",
    "minimax": "layers with linear attention are",
    "t5": "encoder is",
    "bart": "encoder is",
    "bert": "encoder is",
    "whisper": "encoder is",
}
"""Features of a `model_type` that are not simulated for these models: decoder-only transformers."""
