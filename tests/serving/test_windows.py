"""Models whose tokens see the last tokens alone in some layers."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest
from astra_sim.commands import shared_plugins
from astra_sim.experiments import component
from astra_sim.models import describe_model
from astra_sim_serving import serve
from astra_sim_serving.formulas import KernelFormulas
from astra_sim_serving.model_memory import Sharding

from serving.cases import TINY, case, check_conserved

WINDOW = 32
ROOFLINE = "roofline?peak_tera_ops_per_s=0.01&memory_bandwidth_gb_per_s=1"


def formulas(**dimensions: Any) -> KernelFormulas:
    """Kernels of a model of six layers."""
    plugins = shared_plugins()
    model = describe_model({**TINY, "layers": 6, **dimensions}, plugins, "test")
    return KernelFormulas(model, Sharding(), component("compute", ROOFLINE, plugins, "test"), "bf16", "bf16")


@pytest.mark.parametrize(("options", "windowed"), [({}, 6), ({"full_interval": 2}, 3), ({"full_layers": 2}, 4), ({"full_interval": 6}, 5)])
@pytest.mark.parametrize("keys", [16, 32, 48, 4000])
def test_a_decoding_sequence_reads_the_window_in_layers_that_have_one(options: dict[str, Any], windowed: int, keys: int) -> None:
    plain, some = formulas(), formulas(window=WINDOW, **options)
    near, far = (plain.sequences_us(3, 1, each) for each in (min(keys, WINDOW), keys))
    assert some.sequences_us(3, 1, keys) == pytest.approx((windowed * near + (6 - windowed) * far) / 6)


@pytest.mark.parametrize("context", [0, 16, 4000])
def test_each_token_of_a_prompt_sees_the_window(context: int) -> None:
    """The compute model counts operations here: the pairs of a query and a key, to half a pair for each query."""
    queries, pairs = 100, 0
    for query in range(context + 1, context + queries + 1):
        pairs += min(query, WINDOW)
    plain, some = formulas(), formulas(window=WINDOW)
    dense = plain.prompt_us(queries, 0) / (queries * (queries + 1) / 2)
    assert some.prompt_us(queries, context) == pytest.approx(dense * pairs, rel=0.03)


def test_a_window_longer_than_all_sequences_changes_nothing() -> None:
    with pytest.warns(UserWarning, match=r"the cache count all tokens of a sequence, also those before the window of 5000 tokens"):
        wide = serve(case(model={"dimensions": {**TINY, "window": 5000}}))
    assert json.dumps(wide.document()) == json.dumps(serve(case()).document())


@pytest.mark.parametrize("jumps", [True, False])
def test_both_loops_know_windows(jumps: bool) -> None:
    lengths = {"input": {"distribution": "uniform", "low": 1, "high": 300}, "output": 60}
    table = case(
        model={"dimensions": {**TINY, "window": WINDOW, "full_interval": 2}}, jumps=jumps, requests={"rate": 5.0, "count": 30, **lengths}
    )
    with pytest.warns(UserWarning, match="before the window of 32 tokens"):
        results = [serve(table, compiled=compiled) for compiled in (True, False)]
    assert json.dumps(results[0].document()) == json.dumps(results[1].document())
    assert results[0].csv() == results[1].csv()
    check_conserved(results[0])
    plain = serve({**table, "serving": {**table["serving"], "model": {"dimensions": TINY}}})
    assert results[0].document()["time"]["attention"] < 0.9 * plain.document()["time"]["attention"]


def test_a_gpu_reads_windows_of_long_contexts_in_half_of_the_layers() -> None:
    """With 128 tokens in every second layer, as GPT-OSS has, attention to long contexts takes little more than half."""
    plugins = shared_plugins()
    dimensions = {"layers": 36, "hidden": 4096, "heads": 64, "kv_heads": 8, "window": 128, "full_interval": 2}
    model = describe_model({**TINY, **dimensions}, plugins, "test")
    compute = component("compute", "gpu?device=h100", plugins, "test").for_workload("serving", ["inference"])
    with_windows, without = (
        KernelFormulas(each, Sharding(), compute, "bf16", "bf16") for each in (model, attrs.evolve(model, window=None, full_interval=0))
    )
    share = with_windows.sequences_us(64, 1, 32768) / without.sequences_us(64, 1, 32768)
    assert 0.5 < share < 0.55
