"""Kernels of inference servers: what `inference` of a device is fitted on, and how far it is from the other half.

`python -m validation.serving_kernels ../shared/reference/serving.jsonl` prints the tables of device files, and errors. The procedure:
validation/serving.md.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import attrs
from astra_sim.commands import shared_plugins
from astra_sim.compute import Work
from astra_sim.models import describe_model
from astra_sim.shapes import Gemm, GroupedGemm, Kernel
from astra_sim_compute_gpu.device import DirectAllReduceFit, ServedProductFit
from astra_sim_compute_gpu.model import Gpu, product_us
from astra_sim_serving.expert_loads import expert_load
from astra_sim_serving.formulas import KernelFormulas
from astra_sim_serving.model_memory import Sharding

from validation.paged_attention import device_of

TYPES = {"bfloat16": "bf16", "fp8": "fp8", "fp8_block": "fp8_block"}
"""Types of products in the tables of kernels, and how device files name them."""

LEAST_LINES = 10
"""Fewer lines of a kind are not fitted."""

LEAST_PRODUCT = 512
"""Columns of both factors from which on products are used: those of a layer are not narrower."""

PRODUCTS = {
    "share": (0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2),
    "start_us": (1.5, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 25, 30),
    "byte_efficiency": (0.3, 0.4, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95),
}
ALL_REDUCES = {
    "start_us": (4, 4.5, 5, 5.5, 6, 7, 8),
    "gb_per_s": (50, 75, 100, 125, 150, 200, 250, 300, 400),
    "two_shots_start_us": (6, 8, 10, 12, 14, 16, 20),
    "two_shots_gb_per_s": (75, 100, 150, 200, 250, 300, 400, 500),
}

LEAST_PROMPT = 1024
"""Tokens of prompts of which latent attention is compared; shorter ones were launched kernel by kernel, which took 0.1 ms."""

F = TypeVar("F")


@attrs.frozen
class MeasuredKernel(Generic[F]):
    """Kernels that were measured together: `us` says what they take with some numbers. `fits`: they are of the half that is fitted."""

    us: Callable[[F], float]
    measured_us: float
    fits: bool

    def error(self, fit: F) -> float:
        """The relative error with some numbers."""
        return self.us(fit) / self.measured_us - 1


def best(lines: Iterable[MeasuredKernel[F]], make: Callable[..., F], grid: Mapping[str, Sequence[float]]) -> F:
    """The numbers of a grid with the least mean absolute logarithm of simulated over measured."""
    own = list(lines)
    candidates = (make(**dict(zip(grid, values, strict=True))) for values in itertools.product(*grid.values()))
    return min(candidates, key=lambda fit: sum(abs(math.log(line.us(fit) / line.measured_us)) for line in own))


def half(lines: Iterable[MeasuredKernel[F]]) -> list[MeasuredKernel[F]]:
    """The half on which numbers are fitted that are judged by the other."""
    return [line for line in lines if line.fits]


def mean_errors(lines: Iterable[MeasuredKernel[F]], fit: F) -> tuple[float, float]:
    """The mean and the mean absolute error on the half that was not fitted."""
    errors = [line.error(fit) for line in lines if not line.fits]
    return sum(errors) / len(errors), sum(map(abs, errors)) / len(errors)


def _of(lines: Iterable[Mapping[str, Any]], system: str, metric: str, **values: Any) -> Iterable[tuple[Mapping[str, Any], float, bool]]:
    """The configurations of kernels of a device, what they took in microseconds, and whether they are of the half that is fitted."""
    for line in lines:
        config = line.get("config", {})
        if (
            line.get("metric") == metric
            and config.get("system") == system
            and all(config.get(key) == value for key, value in values.items())
        ):
            digest = hashlib.sha256(json.dumps(config, sort_keys=True).encode()).digest()
            yield config, line["value"] * 1e3, digest[-1] % 2 == 0


def _us(gpu: Gpu, kernels: Iterable[Kernel], fit: ServedProductFit) -> float:
    """Microseconds of kernels, where products have these numbers."""
    profile = gpu.profile
    result = 0.0
    for kernel in kernels:
        if isinstance(kernel, (Gemm, GroupedGemm)):
            gemm = kernel.batched if isinstance(kernel, GroupedGemm) else kernel
            result += product_us(profile, gemm, gemm.element_type or "bf16", 1.0, fit)
        else:
            result += gpu.duration_ns(Work(shape=kernel)) / 1e3
    return result


def products(lines: Iterable[Mapping[str, Any]], gpu: Gpu, system: str, measured_type: str) -> list[MeasuredKernel[ServedProductFit]]:
    """The products of a layer."""
    name = TYPES[measured_type]

    def line(config: Mapping[str, Any], us: float, fits: bool) -> MeasuredKernel[ServedProductFit]:
        shape = Gemm(m=config["m"], n=config["n"], k=config["k"], element_type=name.removesuffix("_block"))
        return MeasuredKernel(lambda fit: _us(gpu, [shape], fit), us, fits)

    found = _of(lines, system, "gemm", gemm_dtype=measured_type)
    return [line(*each) for each in found if min(each[0]["n"], each[0]["k"]) >= LEAST_PRODUCT]


def experts(lines: Iterable[Mapping[str, Any]], gpu: Gpu, system: str, measured_type: str) -> list[MeasuredKernel[ServedProductFit]]:
    """The experts of a layer, by the formulas of servers."""
    name = TYPES[measured_type]

    def line(config: Mapping[str, Any], us: float, fits: bool) -> MeasuredKernel[ServedProductFit]:
        kernels = _experts_of(config, name.removesuffix("_block"), gpu)
        return MeasuredKernel(lambda fit: _us(gpu, kernels, fit), us, fits)

    return [line(*each) for each in _of(lines, system, "moe", moe_dtype=measured_type, kernel_source="vllm_fused_moe")]


def _experts_of(config: Mapping[str, Any], element_type: str, gpu: Gpu, power: float | None = None) -> list[Kernel]:
    """The kernels of a measured layer of experts; where tokens choose evenly, all experts get some if there are enough."""
    number, tokens, parts = config["num_experts"], config["num_tokens"], config["moe_ep_size"]
    dimensions = {
        "layers": 1, "hidden": config["hidden_size"], "heads": 1, "ffn": config["inter_size"], "gated": True, "vocab": 2,
        "experts": number, "top_k": config["topk"], "expert_ffn": config["inter_size"],
    }  # fmt: skip
    model = describe_model(dimensions, shared_plugins(), "validation")
    formulas = KernelFormulas(model, Sharding(tensor=config["moe_tp_size"] * parts, expert=parts), gpu, element_type, "bf16")
    load = expert_load(model, tokens, parts, power)
    if config["distribution"] == "balanced":
        load = load._replace(touched=min(number, tokens * model.top_k) / parts)
    return formulas.expert_kernels(tokens, load)


def uneven_experts(lines: Iterable[Mapping[str, Any]], above: int = 0) -> Iterator[tuple[bool, float, float, float]]:
    """Experts that tokens choose by a power law, in measurements of more than `above` tokens: whether several ranks share them, and
    microseconds by chance, by the power law, and measured, with the numbers of device files.
    """
    lines = list(lines)
    for system in [each for systems in GENERATIONS for each in systems]:
        gpu = device_of(system)
        assert gpu.profile.inference is not None
        for measured_type, name in TYPES.items():
            fit = gpu.profile.inference.grouped_gemm.get(name)
            for config, us, _ in _of(lines, system, "moe", moe_dtype=measured_type, kernel_source="vllm_fused_moe"):
                law, _, power = config["distribution"].rpartition("_")
                if fit is not None and law == "power_law" and config["num_tokens"] > above:
                    kernels = (_experts_of(config, name.removesuffix("_block"), gpu, each) for each in (None, float(power)))
                    yield config["moe_ep_size"] > 1, *(_us(gpu, each, fit) for each in kernels), us


def latent_prompts(lines: Iterable[Mapping[str, Any]], gpu: Gpu, system: str) -> list[tuple[float, float]]:
    """Simulated and measured microseconds of latent attention of one prompt, with its products, by the formulas of servers."""
    served = gpu.for_workload("serving", ["inference", "scales_inputs", "block_scaled"])
    deepseek = describe_model("deepseek-v3", shared_plugins(), "validation")
    times = []
    for config, us, _ in _of(lines, system, "mla_context_module", batch_size=1, step=0):
        element_type = TYPES.get(config["gemm_type"], "").removesuffix("_block")
        if element_type and config["isl"] >= LEAST_PROMPT:
            model = attrs.evolve(deepseek, heads=config["num_heads"])
            formulas = KernelFormulas(model, Sharding(), served, element_type, "bf16")
            times.append((formulas.prompt_us(config["isl"], 0) + formulas.attention_products_us(config["isl"]), us))
    return times


def all_reduces(lines: Iterable[Mapping[str, Any]], system: str) -> list[MeasuredKernel[DirectAllReduceFit]]:
    """All-reduces of vLLM's own kernel, in graphs, of sizes for which it is used."""

    def line(config: Mapping[str, Any], us: float, fits: bool) -> MeasuredKernel[DirectAllReduceFit]:
        return MeasuredKernel(lambda fit: fit.us(config["num_gpus"], config["message_size"]) or math.inf, us, fits)

    found = _of(lines, system, "all_reduce", kernel_source="vLLM_custom_graph")
    return [line(*each) for each in found if each[0]["message_size"] <= 8 << 20]


GENERATIONS: Sequence[Mapping[str, str]] = (
    {"h100_sxm": "h100", "h200_sxm": "h200"},
    {"b200_sxm": "b200"},
    {"a100_sxm": "a100-80"},
)
"""Devices that have the same multiprocessors, and so the same numbers."""


Fitted = tuple[str, Any, Any, list[MeasuredKernel[Any]]]
"""The name of a table of a device file, what all lines give, what half of them give, and the lines."""


def fitted(lines: Sequence[Mapping[str, Any]], systems: Iterable[str]) -> Iterator[Fitted]:
    """The tables of device files for some devices that have the same multiprocessors."""
    systems = list(systems)
    for key, kind in (("gemm", products), ("grouped_gemm", experts)):
        for measured_type, name in TYPES.items():
            kernels = [each for system in systems for each in kind(lines, device_of(system), system, measured_type)]
            if len(kernels) >= LEAST_LINES:
                all_lines, of_half = (best(own, ServedProductFit, PRODUCTS) for own in (kernels, half(kernels)))
                yield f"{key}.{name}", all_lines, of_half, kernels
    yield from fitted_all_reduces(lines, systems)


def fitted_all_reduces(lines: Sequence[Mapping[str, Any]], systems: Iterable[str]) -> Iterator[Fitted]:
    """The same of all-reduces alone."""
    reductions = [each for system in systems for each in all_reduces(lines, system)]
    all_lines, of_half = (best(own, DirectAllReduceFit, ALL_REDUCES) for own in (reductions, half(reductions)))
    yield "all_reduce", all_lines, of_half, reductions


def kernel_lines(path: Path) -> list[dict[str, Any]]:
    """The kernels of a file of measurements."""
    return [line for line in map(json.loads, path.read_text().splitlines()) if line["kind"] == "kernel"]


def main(path: str) -> None:
    """Fit everything, and print the tables with errors on the half that was not fitted."""
    lines = kernel_lines(Path(path))
    for systems in GENERATIONS:
        for table, fit, of_half, kernels in fitted(lines, systems):
            mean, absolute = mean_errors(kernels, of_half)
            print(f"\n[inference.{table}]")
            print(f"# {', '.join(systems.values())}: {len(kernels)} lines; a fit on half errs by {mean:+.1%}, absolute {absolute:.1%}")
            for name, value in attrs.asdict(fit).items():
                if name != "largest_mib":
                    print(f"{name} = {value:g}")


if __name__ == "__main__":
    main(sys.argv[1])
