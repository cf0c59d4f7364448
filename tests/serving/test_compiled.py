"""The compiled loop, against that in Python: `random_checks/server_loops.py` compares them on random servers."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from astra_sim import PluginError, Provider, hookimpl
from astra_sim.commands import Plugins
from astra_sim.serving import Policy, ServingState
from astra_sim_serving import policies_in_core, serve
from astra_sim_serving.experiment import read_experiment
from astra_sim_serving.recorded import RecordedSequences
from astra_sim_serving.result import ServingResult
from astra_sim_serving.timeline import TableTimeline
from random_checks.server_loops import differences

from serving.cases import TINY, case, run
from serving.random_servers import plain_case

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "serving"
LONG = {"distribution": "lognormal", "mean": 1000, "sigma": 1.0}


def both(table: dict[str, Any], plugins: Plugins | None = None) -> ServingResult:
    """The result of the compiled loop, which is that of the loop in Python."""
    result = serve(table, plugins=plugins)
    assert isinstance(result.sequences, RecordedSequences)
    assert differences(result, serve(table, plugins=plugins, compiled=False)) == []
    return result


@pytest.mark.parametrize("name", ["llama3_70b_h100", "deepseek_v3_h200", "by_hand"])
def test_examples_are_the_same_in_both_loops(name: str) -> None:
    experiment = read_experiment(EXAMPLES / f"{name}.toml")
    compiled, plain = serve(experiment), serve(experiment, compiled=False)
    assert isinstance(compiled.sequences, RecordedSequences)
    assert differences(compiled, plain) == []


@pytest.mark.parametrize("serving", [{}, {"speculative": {"tokens": 3, "acceptance": 0.7, "draft": "ngram"}}, {"jumps": False}])
@pytest.mark.parametrize("formulas", [{}, {"plugin": "roofline", "peak_tera_ops_per_s": 0.01, "memory_bandwidth_gb_per_s": 1.0}])
def test_tables_of_kernels_are_the_same_in_both_loops(serving: dict[str, Any], formulas: dict[str, Any]) -> None:
    lengths = {"distribution": "uniform", "low": 1, "high": 300}
    requests = {"rate": 2000.0, "count": 150, "input": lengths, "output": lengths}
    values = {f"serving.{key}": value for key, value in {"requests": requests, "kv_blocks": 400, **serving}.items()}
    experiment = read_experiment(EXAMPLES / "by_hand.toml").with_values(values)
    experiment.table["compute"] |= formulas
    compiled, plain = serve(experiment), serve(experiment, compiled=False)
    assert isinstance(compiled.sequences, RecordedSequences)
    assert compiled.pricing.tables > 0
    assert differences(compiled, plain) == []


def test_shared_contents_of_a_trace_are_the_same_in_both_loops(tmp_path: Path) -> None:
    draw = random.Random(3)
    rows = []
    for number in range(120):
        blocks = [draw.randint(0, 2), *(draw.randint(3, 8) for _ in range(draw.randint(0, 4)))]
        rows.append(
            {"timestamp": number * 20, "input_length": 512 * len(blocks) - 100, "output_length": draw.randint(1, 60), "hash_ids": blocks}
        )
    file = tmp_path / "trace.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for router in ("prefix", "least-kv"):
        requests = {"arrival": "trace", "trace": str(file)}
        result = both(case(requests=requests, kv_blocks=300, max_batched_tokens=512, pool=[{"instances": 3}], router={"policy": router}))
        assert result.document()["kv"]["prefix_hit_fraction"] > 0.1
        assert result.document()["requests"]["preemptions"] > 0


def test_all_lengths_and_arrivals_are_drawn_alike() -> None:
    parts = [
        {"distribution": "uniform", "low": 3, "high": 9, "weight": 2},
        {"value": 40, "weight": 1},
        {**LONG, "maximum": 90, "weight": 1},
    ]
    for lengths in (7, {"distribution": "empirical", "values": [3, 5, 70]}, {"distribution": "mixture", "parts": parts}):
        for arrival in ({"arrival": "constant", "rate": 50.0}, {"arrival": "gamma", "rate": 50.0, "cv": 2.0}, {"rate": 50.0}):
            both(case(requests={**arrival, "count": 60, "input": lengths, "output": lengths, "max_output": 30}, seed=5))


class NewestFirst(Policy):
    """Serves the newest request first; `spoil` changes its plans."""

    def __init__(self, spoil: Callable[[list[Any]], Any]) -> None:
        self._spoil = spoil

    def plan(self, state: ServingState) -> Sequence[tuple[int, int]]:
        planned, budget = [], state.max_tokens
        places = state.max_sequences - len(state.running)
        for request in [*state.running, *list(reversed(state.waiting))[:places]]:
            tokens = min(request.missing, budget)
            if tokens:
                planned.append((request.number, tokens))
                budget -= tokens
        result: Sequence[tuple[int, int]] = self._spoil(planned)
        return result

    def keeps(self, state: ServingState, plan: Sequence[tuple[int, int]]) -> bool:
        return not state.waiting


def with_policy(spoil: Callable[[list[Any]], Any]) -> Plugins:
    """Plugins with that policy."""

    class Newest:
        @hookimpl
        def astra_serving_policies(self) -> list[Provider]:
            return [Provider("newest", "The newest request first", lambda: NewestFirst(spoil))]

    result = Plugins()
    result.register(Newest())
    return result


@pytest.mark.parametrize("answer", [list, tuple])
def test_a_policy_of_a_plugin_plans_compiled_instances(answer: type) -> None:
    table = case(
        engine="newest", kv_blocks=30, max_sequences=6, requests={"rate": 400.0, "count": 60, "input": 30, "output": 40}, block_tokens=4
    )
    result = both(table, with_policy(answer))
    assert result.document()["requests"]["preemptions"] > 0


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda plan: None, "returned None; expected a list"),
        (lambda plan: [], "planned nothing, and 1 requests are here"),
        (lambda plan: [*plan, plan[0]], "planned request 0 twice"),
        (lambda plan: [(77, 1)], "planned request 77, which is not here"),
        (lambda plan: [(1 << 80, 1)], "which is not here"),
        (lambda plan: [(0, 1 << 80)], "expected 1 to 512"),
        (lambda plan: [(0, 513)], "planned 513 tokens of request 0; expected 1 to 512"),
        (lambda plan: [(0, 300)], "planned 300 tokens; expected at most 64"),
        (lambda plan: [(0, True)], "expected \\(number, tokens\\)"),
        (lambda plan: [(0, 1, 2)], "expected \\(number, tokens\\)"),
    ],
)
def test_a_policy_that_breaks_its_contract_is_named_by_both_loops(spoil: Callable[[list[Any]], Any], message: str) -> None:
    table = case(engine="newest", requests={"rate": 1.0, "count": 1}, max_batched_tokens=64)
    for compiled in (True, False):
        with pytest.raises(PluginError, match=f"serving policy 'newest' .*{message}"):
            serve(table, plugins=with_policy(spoil), compiled=compiled)


@pytest.mark.filterwarnings("ignore:.*before the window")
def test_presets_plan_the_same_when_they_are_asked_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policies_in_core, "_PRESETS", {})
    for seed in range(40):
        table = plain_case(seed)
        assert differences(serve(table), serve(table, compiled=False)) == []


@pytest.mark.parametrize(
    "extra",
    [
        {"pool": [{"instances": 1, "pipeline_parallel": 2}]},
        {"lora": {"adapters": 2, "rank": 4}},
        {"tier": [{"capacity_gib": 1e-3, "read_gb_per_s": 1}]},
        {"requests": {"count": 3, "rate": 1.0, "input": {"distribution": "uniform", "low": 10**9, "high": 10**9}}},
        {"requests": {"count": 3, "rate": 1.0, "input": {**LONG, "mean": 1e12}}},
        {"requests": {"count": 3, "rate": 1.0, "prefix": {"groups": 1, "tokens": 2**40}}},
        {"requests": {"count": 3, "rate": 1.0, "max_output": 2**40}},
        {"block_tokens": 2**40},
        {"kv_blocks": 2**58},
    ],
)
def test_what_is_not_compiled_runs_in_python(extra: dict[str, Any]) -> None:
    table = case(**extra)
    table["platform"] = {"plugin": "ring", "size": 4, "links": 2, "link_bandwidth_gb_per_s": 50, "link_latency_ns": 500}
    assert not isinstance(serve(table).sequences, RecordedSequences)


def test_timelines_and_installations_without_the_compiled_part_run_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    timeline = TableTimeline()
    assert not isinstance(serve(case(), timeline=timeline).sequences, RecordedSequences)
    assert timeline.rows
    compiled = run()
    monkeypatch.setitem(sys.modules, "astra_sim_serving._core", None)
    monkeypatch.delattr("astra_sim_serving._core", raising=False)
    plain = run()
    assert not isinstance(plain.sequences, RecordedSequences)
    assert differences(compiled, plain) == []


def test_requests_of_a_compiled_run_are_a_sequence() -> None:
    result = run(requests={"rate": 100.0, "count": 5})
    numbers = [each.request.index for each in result.sequences]
    assert numbers == list(range(5))
    assert [each.request.index for each in result.sequences[1::2]] == [1, 3]
    assert result.sequences[-1].request.index == 4
    with pytest.raises(IndexError):
        result.sequences[5]


@pytest.mark.parametrize("after", [0, 3])
def test_a_compiled_run_that_is_stopped_keeps_what_is_done(after: int) -> None:
    calls: list[int] = []

    def stop(now: float, events: int) -> None:
        calls.append(events)
        if len(calls) > after:
            raise KeyboardInterrupt

    table = case(requests={"rate": 100.0, "count": 20_000}, jumps=False)
    first = serve(table, on_progress=stop)
    assert calls == [4096 * (number + 1) for number in range(after + 1)]
    calls.clear()
    assert differences(first, serve(table, on_progress=stop, compiled=False)) == []
    assert not first.is_complete
    assert 0 < first.document()["requests"]["unfinished"]


def test_an_error_of_a_kernel_ends_a_compiled_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Any, tokens: int) -> Any:
        raise RuntimeError("no such kernel")

    monkeypatch.setattr("astra_sim_serving.formulas.KernelFormulas.layers_us", broken)
    with pytest.raises(RuntimeError, match="no such kernel"):
        serve(case(model={"dimensions": TINY}))
