"""The model `hugging_face`: a description read from a configuration file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
from astra_sim import option
from astra_sim.models import ModelDescription

from astra_sim_llm.hugging_face import CONFIG, model_of_config


@attrs.frozen
class ConfigFile:
    """The source of a model's description."""

    path: str = option(help="a config.json of Hugging Face, or the folder that holds one", path="path")
    padded_to: int = option(1, minimum=1, help="the vocabulary is rounded up to a multiple of this")


def of_config(options: ConfigFile) -> ModelDescription:
    """The model that the file describes. Raises InputError."""
    return model_of_config(options.path, options.padded_to)


def examples(folder: Path) -> list[Mapping[str, Any]]:
    """A small Llama, in a file of the folder."""
    config = {
        "model_type": "llama",
        "num_hidden_layers": 2,
        "hidden_size": 256,
        "num_attention_heads": 4,
        "intermediate_size": 688,
        "vocab_size": 1000,
        "max_position_embeddings": 512,
    }
    (folder / CONFIG).write_text(json.dumps(config), encoding="utf-8")
    return [{"path": str(folder)}, {"path": str(folder / CONFIG), "padded_to": 64}]
