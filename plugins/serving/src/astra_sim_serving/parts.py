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
from astra_sim.errors import suggestion
from astra_sim.experiments import SECTIONS, build_compute, component, experiment_from
from astra_sim.models import ModelDescription, describe_model
from astra_sim.options import structure
from astra_sim.platform import Platform
from astra_sim.shapes import ELEMENT_BYTES

from astra_sim_serving.collectives import build_network
from astra_sim_serving.experiment import ServingExperiment
from astra_sim_serving.iteration_time import PricingCounts
from astra_sim_serving.options import PoolOptions, ServingCompute, ServingOptions
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
        self.model = self._model()
        self.draft_model = self._draft_model()
        self.platform: Platform | None = build_platform(self.kernel, plugins) if "platform" in self.kernel.sections else None
        self._of_devices: dict[str, Compute] = {}
        self.compute = self._compute(rest) if rest else None
        self.tables = self._tables()

    def _model(self) -> ModelDescription:
        model = self.options.model
        where = f"{self.where}: serving.model"
        if (model.name is None) == (not model.dimensions):
            raise InputError(f"{where}: expected either name or dimensions")
        return describe_model(model.name or model.dimensions, self.plugins, where)

    def _draft_model(self) -> ModelDescription | None:
        """The model that drafts tokens, if one does. Raises InputError if ranks cannot share it."""
        speculative = self.options.speculative
        if speculative is None or speculative.draft in ("ngram", "mtp"):
            return None
        where = f"{self.where}: serving.speculative.draft"
        model = describe_model(speculative.draft, self.plugins, where)
        for pool in self.options.pool:
            if model.heads % pool.tensor_parallel:
                raise InputError(f"{where}: {pool.tensor_parallel} ranks of tensor parallelism cannot share {model.heads} query heads")
        return model

    def _compute(self, table: Mapping[str, Any]) -> Compute:
        """The compute model of a table."""
        where, kernel = f"{self.where}: compute", self.kernel.copied()
        kernel.use("compute", dict(table), self.plugins, os.path.dirname(self.where), where)
        if self.platform is not None:
            return build_compute(kernel, self.plugins, self.platform).for_workload("serving", self._traits())
        alone: Compute = component("compute", kernel.sections["compute"], self.plugins, where)
        return alone.for_workload("serving", self._traits())

    def _traits(self) -> list[str]:
        """The server's configuration, which determines its kernels. Raises InputError if a scaling has nothing to scale."""
        served, engine = self.options.model, self.options.engine.partition("?")[0]
        narrow = ELEMENT_BYTES[served.precision] == 1
        if served.scaling is not None and not narrow:
            raise InputError(f"{self.where}: serving.model.scaling has no effect with precision = {served.precision!r}; expected fp8")
        scaling = served.scaling or ("token" if engine in _SCALE_TOKENS else "tensor")
        return [
            "inference",
            *(["scales_inputs"] if narrow and scaling != "tensor" else []),
            *(["block_scaled"] if scaling == "block" else []),
        ]

    @functools.cached_property
    def network(self) -> Components:
        """The platform, network and system, for runs of collectives and messages alone. Raises InputError."""
        return build_network(self.kernel, self.plugins)

    def compute_of(self, pool: PoolOptions, where: str) -> Compute | None:
        """The compute model of a pool: that of the experiment, or the same of the pool's own device. Raises InputError."""
        if pool.device is None:
            return self.compute
        if self.tables is not None or not self._compute_table:
            raise InputError(f"{where}: device is {pool.device!r}; expected none with compute.tables, or without a compute model")
        if pool.device not in self._of_devices:
            self._of_devices[pool.device] = self._compute({**self._compute_table, "device": pool.device})
        return self._of_devices[pool.device]

    def _tables(self) -> KernelTables | None:
        options = self.compute_options
        if options.tables is None:
            if options.run is not None:
                raise InputError(f"{self.where}: compute.run has no effect without compute.tables")
            if self.compute is None:
                raise InputError(f"{self.where}: there is no section compute; expected a compute model (plugin = 'gpu'), or tables")
            return None
        return read_tables(options.tables, options.run)
