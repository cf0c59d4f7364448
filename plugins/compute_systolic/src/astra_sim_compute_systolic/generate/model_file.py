"""Models in TOML: blocks of layers whose sizes may depend on parameters. Some are part of this package."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import attrs
from astra_sim import InputError, option
from astra_sim.errors import suggestion
from astra_sim.files import parse_toml, read_text
from astra_sim.options import structure
from astra_sim.shapes import Convolution, Gemm

from astra_sim_compute_systolic.generate.expressions import evaluate
from astra_sim_compute_systolic.generate.layers import ModelLayer, with_batch
from astra_sim_compute_systolic.generate.parallelism import LAYER_POLICIES

_MAX_LAYERS = 100_000


@attrs.frozen
class LayerTable:
    """A layer, for one sample of the batch."""

    name: str = option(help="name of the layer, without spaces")
    gemm: Gemm | None = option(None, help="matrix product: rows of one sample, outputs, inputs")
    convolution: Convolution | None = option(None, help="convolution of one sample")
    weights: bool = option(True, help="whether the second factor is trained")
    parallelisation: str | None = option(None, choices=LAYER_POLICIES, help="parallelisation, for HYBRID_CUSTOMIZED")

    def __attrs_post_init__(self) -> None:
        if (self.gemm is None) == (self.convolution is None):
            raise InputError(f"layer {self.name}: expected exactly one of gemm and convolution")
        if self.gemm is not None and self.gemm != Gemm(m=self.gemm.m, n=self.gemm.n, k=self.gemm.k):
            raise InputError(f"layer {self.name}: expected a gemm with m, n and k only")
        if self.convolution is not None and self.convolution.element_type is not None:
            raise InputError(f"layer {self.name}: expected a convolution without an element_type")
        if not self.name or self.name.split() != [self.name]:
            raise InputError(f"the layer's name is {self.name!r}; expected a name without spaces")

    def layer(self, batch: int, suffix: str) -> ModelLayer:
        """The layer for a batch."""
        shape = self.gemm if self.gemm is not None else self.convolution
        assert shape is not None
        return ModelLayer(self.name + suffix, with_batch(shape, batch), self.weights, self.parallelisation)


@attrs.frozen
class BlockTable:
    """Layers that come one after another, several times."""

    layers: tuple[LayerTable, ...] = option(help="the layers")
    repeat: int = option(1, minimum=0, help="number of repetitions")


@attrs.frozen
class ModelTable:
    """A model: its layers, or blocks of layers, or another model with other parameters (`base`)."""

    name: str = option("", help="name of the model")
    source: str = option("", help="source of its sizes")
    base: str = option("", help="model of this package whose blocks are used, with the parameters of this file")
    parameters: dict[str, Any] = option(factory=dict, help="whole numbers that sizes depend on")
    layers: tuple[LayerTable, ...] = option((), help="the layers")
    blocks: tuple[BlockTable, ...] = option((), help="blocks of layers")


def shipped_models() -> list[str]:
    """Names of the models that are part of this package."""
    folder = resources.files("astra_sim_compute_systolic") / "models"
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def read_model(model: str, batch: int, changes: Mapping[str, int]) -> list[ModelLayer]:
    """The layers of a model (one of this package, or a TOML file) for a batch. `changes` are new parameter values. Raises InputError."""
    table, where = _table(model)
    parameters = _parameters(table, where)
    for name, value in changes.items():
        if name not in parameters:
            raise InputError(f"{where}: there is no parameter {name!r}; {suggestion(name, parameters)}")
        parameters[name] = value
    evaluated = _evaluated(table, parameters, where)
    structured: ModelTable = structure(ModelTable, {**evaluated, "parameters": parameters}, where)
    if bool(structured.layers) == bool(structured.blocks):
        raise InputError(f"{where}: expected exactly one of layers and blocks")
    blocks: Sequence[BlockTable] = structured.blocks or (BlockTable(layers=structured.layers),)
    if sum(block.repeat * len(block.layers) for block in blocks) > _MAX_LAYERS:
        raise InputError(f"{where}: more than {_MAX_LAYERS} layers; expected at most that many")
    layers = []
    for block in blocks:
        for number in range(block.repeat):
            suffix = f"_{number + 1}" if block.repeat > 1 else ""
            layers += [layer.layer(batch, suffix) for layer in block.layers]
    if not layers:
        raise InputError(f"{where}: no layer is left; expected at least one")
    return layers


def _table(model: str) -> tuple[dict[str, Any], str]:
    """A model's table, with the blocks of its base, and its name in messages."""
    if os.path.exists(model):
        table, where = parse_toml(read_text(model), model), model
    elif model in shipped_models():
        text = (resources.files("astra_sim_compute_systolic") / "models" / f"{model}.toml").read_text(encoding="utf-8")
        table, where = parse_toml(text, model), f"model {model}"
    else:
        raise InputError(f"there is no file and no model {model!r}; {suggestion(model, shipped_models())}")
    base = table.get("base")
    if base is None:
        return table, where
    if base not in shipped_models() or "layers" in table or "blocks" in table:
        raise InputError(f"{where}: base is {base!r}; expected one of {', '.join(shipped_models())}, and no layers beside it")
    inherited, _ = _table(base)
    inherited["parameters"] = {**_parameters(inherited, base), **_parameters(table, where)}
    return {**inherited, **{key: value for key, value in table.items() if key not in ("base", "parameters")}}, where


def _parameters(table: Mapping[str, Any], where: str) -> dict[str, int]:
    parameters = table.get("parameters", {})
    if not isinstance(parameters, Mapping):
        raise InputError(f"{where}: parameters is {parameters!r}, not a table")
    for name, value in parameters.items():
        if type(value) is not int:
            raise InputError(f"{where}: parameter {name} is {value!r}; expected a whole number")
    return dict(parameters)


def _evaluated(part: Any, parameters: Mapping[str, int], where: str, size: bool = False) -> Any:
    """The table with expressions replaced by numbers, in sizes and in `repeat`."""
    if isinstance(part, str) and size:
        return evaluate(part, parameters, where)
    if isinstance(part, list):
        return [_evaluated(item, parameters, where) for item in part]
    if isinstance(part, Mapping):
        return {
            key: _evaluated(value, parameters, f"{where}: {key}", size=size or key in ("gemm", "convolution", "repeat"))
            for key, value in part.items()
        }
    return part
