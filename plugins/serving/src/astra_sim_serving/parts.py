"""The objects that the sections of an experiment name: options, models, compute model, tables and platform."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from typing import Any

import attrs
from astra_sim import InputError
from astra_sim.commands import Components, Plugins, build_platform
from astra_sim.compute import Compute
from astra_sim.errors import suggestion, warn
from astra_sim.experiments import SECTIONS, build_compute, component, experiment_from
from astra_sim.models import ModelDescription, describe_model
from astra_sim.options import structure
from astra_sim.platform import Platform
from astra_sim.shapes import ELEMENT_BYTES

from astra_sim_serving.collectives import build_network
from astra_sim_serving.experiment import ServingExperiment
from astra_sim_serving.iteration_time import PricingCounts
from astra_sim_serving.options import PoolOptions, ServedModel, ServingCompute, ServingOptions
from astra_sim_serving.tables import KernelTables, read_tables

KNOWN_KEYS = ("name", "serving", *SECTIONS)
_SCALE_TOKENS = ("vllm", "sglang")
"""Engines whose products of fp8 scale their inputs token by token, by default."""
_OWN_COMPUTE = tuple(field.name for field in attrs.fields(ServingCompute))


class Parts:
    """The parts of an experiment, checked. `kernel` has the sections of an ordinary run. Raises InputError."""

    def __init__(self, experiment: ServingExperiment, plugins: Plugins) -> None:
        table, where = experiment.table, experiment.where
        for key in table:
            if key not in KNOWN_KEYS:
                raise InputError(f"{where}: unknown key {key!r}; {suggestion(key, KNOWN_KEYS)}")
        if "serving" not in table:
            raise InputError(f"{where}: there is no section serving; expected one with a model, such as [serving.model] name = ...")
        self.where = where
        self.plugins = plugins
        self.options: ServingOptions = structure(ServingOptions, table["serving"], f"{where}: serving")
        compute = table.get("compute", {})
        if not isinstance(compute, Mapping):
            compute = {"plugin": compute} if isinstance(compute, str) and not compute.endswith(".toml") else {"file": compute}
        options = {key: value for key, value in compute.items() if key in _OWN_COMPUTE}
        self.compute_options: ServingCompute = structure(ServingCompute, options, f"{where}: compute")
        components: dict[str, Any] = {kind: table[kind] for kind in ("system", "network", "platform", "memory") if kind in table}
        self.kernel = experiment_from(components, where, plugins)
        rest = {key: value for key, value in compute.items() if key not in _OWN_COMPUTE}
        if isinstance(rest.get("plugin"), str):
            rest["plugin"] = rest["plugin"].removeprefix("plugin:")
        self._compute_table = rest
        self.counts = PricingCounts()
        described = {name: (served, self._model(served, of)) for name, (served, of) in self._served().items()}
        self.draft_model = self._draft_model()
        self.platform: Platform | None = build_platform(self.kernel, plugins) if "platform" in self.kernel.sections else None
        self.models = {name: ModelParts(self, served, model) for name, (served, model) in described.items()}
        self.tables = self._tables()

    def _served(self) -> dict[str, tuple[ServedModel, str]]:
        """The options of each model by the name that pools give it, and where they are; the only one of `serving.model` has no name.

        Raises InputError if pools and models do not fit together.
        """
        options, where = self.options, f"{self.where}: serving"
        if options.model is not None and options.models:
            raise InputError(f"{where}: model and models are given; expected one of them")
        if options.model is None and not options.models:
            raise InputError(f"{where}: model is missing; expected [serving.model], or tables by name such as [serving.models.chat]")
        if options.requests.models and not options.models:
            raise InputError(f"{where}.requests.models has no effect without serving.models")
        for number, pool in enumerate(options.pool):
            if pool.model is None and options.models:
                raise InputError(f"{where}.pool.{number}: model is missing; expected one of serving.models: {', '.join(options.models)}")
            if pool.model is not None and pool.model not in options.models:
                known = suggestion(pool.model, options.models) if options.models else "expected none without serving.models"
                raise InputError(f"{where}.pool.{number}: model is {pool.model!r}; {known}")
        if options.model is not None:
            return {"": (options.model, f"{where}.model")}
        unserved = [name for name in options.models if all(pool.model != name for pool in options.pool)]
        if unserved:
            raise InputError(f"{where}.models.{unserved[0]}: no pool serves it; expected a pool with model = {unserved[0]!r}")
        named = {name: f"{where}.models.{name}" for name in options.models}
        return {name: (structure(ServedModel, table, named[name]), named[name]) for name, table in options.models.items()}

    def _model(self, served: ServedModel, where: str) -> ModelDescription:
        if (served.name is None) == (not served.dimensions):
            raise InputError(f"{where}: expected either name or dimensions")
        if served.scaling is not None and ELEMENT_BYTES[served.precision] > 1:
            raise InputError(f"{where}.scaling has no effect with precision = {served.precision!r}; expected fp8")
        model = self._described(served.name or served.dimensions, where)
        if served.expert_power is not None and not model.experts:
            raise InputError(f"{where}.expert_power has no effect: the model has no experts")
        return model

    def _described(self, named: str | Mapping[str, Any], where: str) -> ModelDescription:
        model = describe_model(named, self.plugins, where)
        if model.window is not None:
            tables = " and tables of kernels" if self.compute_options.tables is not None else ""
            warn(f"{where}: the cache{tables} count all tokens of a sequence, also those before the window of {model.window} tokens")
        return model

    def _draft_model(self) -> ModelDescription | None:
        """The model that drafts tokens, if one does. Raises InputError if ranks cannot share it."""
        speculative = self.options.speculative
        if speculative is None or speculative.draft in ("ngram", "mtp"):
            return None
        where = f"{self.where}: serving.speculative.draft"
        model = self._described(speculative.draft, where)
        for pool in self.options.pool:
            if model.heads % pool.tensor_parallel:
                raise InputError(f"{where}: {pool.tensor_parallel} ranks of tensor parallelism cannot share {model.heads} query heads")
        return model

    def compute_for(self, traits: list[str], device: str | None) -> Compute | None:
        """The compute model for a server with these traits, of the experiment's device or another one; None without a compute model."""
        if not self._compute_table:
            return None
        table = self._compute_table if device is None else {**self._compute_table, "device": device}
        where, kernel = f"{self.where}: compute", self.kernel.copied()
        kernel.use("compute", dict(table), self.plugins, os.path.dirname(self.where), where)
        if self.platform is not None:
            return build_compute(kernel, self.plugins, self.platform).for_workload("serving", traits)
        alone: Compute = component("compute", kernel.sections["compute"], self.plugins, where)
        return alone.for_workload("serving", traits)

    @functools.cached_property
    def network(self) -> Components:
        """The platform, network and system, for runs of collectives and messages alone. Raises InputError."""
        return build_network(self.kernel, self.plugins)

    def _tables(self) -> KernelTables | None:
        options = self.compute_options
        if options.tables is None:
            if options.run is not None:
                raise InputError(f"{self.where}: compute.run has no effect without compute.tables")
            if not self._compute_table:
                raise InputError(f"{self.where}: there is no section compute; expected a compute model (plugin = 'gpu'), or tables")
            return None
        if len(self.models) > 1:
            raise InputError(f"{self.where}: compute.tables is given, of one model; expected a compute model alone for several models")
        return read_tables(options.tables, options.run)


class ModelParts:
    """A model that pools serve: its options, its dimensions, and compute models with its kernels. Raises InputError."""

    def __init__(self, parts: Parts, options: ServedModel, model: ModelDescription) -> None:
        self.parts = parts
        self.options = options
        self.model = model
        self._of_devices: dict[str | None, Compute | None] = {None: parts.compute_for(self._traits(), None)}

    def _traits(self) -> list[str]:
        """The server's configuration, which determines its kernels."""
        narrow, engine = ELEMENT_BYTES[self.options.precision] == 1, self.parts.options.engine.partition("?")[0]
        scaling = self.options.scaling or ("token" if engine in _SCALE_TOKENS else "tensor")
        return [
            "inference",
            *(["scales_inputs"] if narrow and scaling != "tensor" else []),
            *(["block_scaled"] if scaling == "block" else []),
        ]

    def compute_of(self, pool: PoolOptions, where: str) -> Compute | None:
        """The compute model of a pool: that of the experiment, or the same of the pool's own device. Raises InputError."""
        device = pool.device
        if device is not None and (self.parts.tables is not None or self._of_devices[None] is None):
            raise InputError(f"{where}: device is {device!r}; expected none with compute.tables, or without a compute model")
        if device not in self._of_devices:
            self._of_devices[device] = self.parts.compute_for(self._traits(), device)
        return self._of_devices[device]
