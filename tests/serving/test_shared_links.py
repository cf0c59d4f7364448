"""Collectives of iterations on links that they share with transfers and with other instances."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from astra_sim import InputError, PluginError
from astra_sim_network_analytical.congestion import CompiledFifoNetwork
from astra_sim_network_flow.network import FlowNetwork
from astra_sim_serving import serve
from astra_sim_serving.result import ServingResult

from serving.cases import EXPERTS, SHARING, case, check_conserved

MODEL = {**EXPERTS, "hidden": 256}
LAYERS = MODEL["layers"] - MODEL["dense_layers"]
POOLS: dict[str, dict[str, Any]] = {
    "all-to-all": {"data_parallel": 4, "expert_parallel": 4, "exchange": "all-to-all"},
    "gather": {"data_parallel": 2, "tensor_parallel": 2, "expert_parallel": 4},
    "all-reduce": {"tensor_parallel": 4},
}


def table_of(network: dict[str, Any], collectives: str, *pools: dict[str, Any], **serving: Any) -> dict[str, Any]:
    """Instances of a model with experts on a switch with links of 1e9 bytes/s."""
    serving = {
        "model": {"dimensions": MODEL},
        "kv_blocks": 2000,
        "jumps": False,
        "requests": {
            "rate": 300.0,
            "count": 5,
            "input": {"distribution": "uniform", "low": 20, "high": 300},
            "output": {"distribution": "uniform", "low": 2, "high": 9},
        },
        "collectives": collectives,
        "pool": pools,
        **serving,
    }
    result = case(**serving)
    result["platform"] = {"plugin": "switch", "size": 8, "link_bandwidth_gb_per_s": 1, "link_latency_ns": 500}
    result["network"] = network
    return result


def ends(result: ServingResult) -> list[float]:
    """When each request ended."""
    check_conserved(result)
    return [each.last_token for each in result.sequences]


@pytest.mark.parametrize(("network", "error"), [("aware", 0), ("flow", 0), ("roce", 0.03), ("packet", 0.002)])
@pytest.mark.parametrize("pool", POOLS)
def test_an_instance_that_is_alone_takes_the_time_of_collectives_alone(network: str, error: float, pool: str) -> None:
    """But for rounding to picoseconds, and clocks of networks that are not at their beginning."""
    alone, shared = (ends(serve(table_of(SHARING[network], each, POOLS[pool]))) for each in ("alone", "shared"))
    assert shared == pytest.approx(alone, rel=error, abs=2e-11)


@pytest.mark.parametrize("pool", POOLS)
def test_instances_on_separate_links_take_the_time_of_each_alone(pool: str) -> None:
    """On a switch each NPU has a link in and a link out: two instances never wait for each other."""
    for network in "aware", "flow":
        both = {each: serve(table_of(SHARING[network], each, {**POOLS[pool], "instances": 2})) for each in ("alone", "shared")}
        assert ends(both["shared"]) == pytest.approx(ends(both["alone"]), abs=2e-11)
        causes = [{key: value for key, value in each.document()["time"].items() if key != "wall"} for each in both.values()]
        assert causes[1] == pytest.approx(causes[0], abs=1e-9)


def test_messages_of_an_iteration_that_is_alone_need_not_be_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a network that forgets; where something else begins meanwhile it catches up."""
    prompts = {"role": "prefill", "npus": "0"}, {"role": "decode", "npus": "1-4", **POOLS["all-to-all"]}
    table = table_of(SHARING["aware"], "shared", *prompts)
    sent: list[int] = []
    inject = CompiledFifoNetwork.inject

    def counted(self: CompiledFifoNetwork, at: int, messages: Any) -> None:
        sent.append(len(messages))
        inject(self, at, messages)

    monkeypatch.setattr(CompiledFifoNetwork, "inject", counted)
    known = serve(table)
    some = sum(sent)
    monkeypatch.setattr(CompiledFifoNetwork, "forgets", False)
    sent.clear()
    simulated = serve(table)
    assert ends(simulated) == ends(known)
    assert json.dumps(simulated.document()) == json.dumps(known.document())
    assert 0.05 < some / sum(sent) < 0.9


def test_an_exchange_shares_a_link_with_a_transfer(tmp_path: Path) -> None:
    """Of two NPUs that exchange tokens one receives keys and values for long: in equal shares its exchanges take twice as long."""
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival_s,input,output\n0,10,40\n0.0001,20000,2\n")
    exchange_s = LAYERS * 2 * MODEL["top_k"] * MODEL["hidden"] * 2 / 2 / 1e7  # half of the copies of a token go to the other rank
    transferred = []
    for collectives, times in ("alone", 1), ("shared", 2):
        pool = {"role": "decode", "npus": "1-2", "data_parallel": 2, "expert_parallel": 2, "exchange": "all-to-all"}
        table = table_of(
            SHARING["flow"], collectives, {"role": "prefill", "npus": "0"}, pool,
            transfer={"latency_us": 0.0}, max_batched_tokens=100_000, requests={"trace": str(trace)},
        )  # fmt: skip
        table["compute"] |= {"peak_tera_ops_per_s": 1000.0, "memory_bandwidth_gb_per_s": 1e6}
        table["platform"] |= {"link_latency_ns": 0, "link_bandwidth_gb_per_s": 0.01}
        result = serve(table)
        check_conserved(result)
        first, second = result.sequences
        assert second.first_token < first.spent.transfer_end < first.last_token < second.spent.transfer_end
        assert (first.last_token - first.spent.transfer_end) / 39 == pytest.approx(times * exchange_s, rel=1e-3)
        transferred.append(second.spent.transfer_end - second.first_token)
    assert transferred[1] - transferred[0] == pytest.approx(39 * exchange_s, rel=0.1)


def test_the_host_shows_less_if_collectives_take_longer() -> None:
    """It works for 1 ms beside the device, which is slower than that only while a transfer is under way."""
    pools = {"role": "prefill", "npus": "0"}, {"role": "decode", "npus": "1-4", **POOLS["all-to-all"]}
    table = table_of(SHARING["flow"], "shared", *pools)
    table["compute"] |= {"peak_tera_ops_per_s": 1.0, "memory_bandwidth_gb_per_s": 100.0, "host_us": 1000.0}
    result = serve(table)
    check_conserved(result)
    for instance in result.instances[1:]:
        assert all(part >= 0 for part in instance.totals.parts)
        assert instance.totals.busy_s / instance.totals.iterations >= 1e-3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"network": {"plugin": "analytical"}},
            r"pool\.0: serving\.collectives is 'shared', and collectives leave a node; expected a network",
        ),
        ({"pipeline_parallel": 2}, r"pool\.0: serving\.collectives is 'shared', and pipeline_parallel is 2; expected 1"),
        ({"role": "prefill"}, r"pool\.0: serving\.collectives is 'shared', and serving\.transfer\.mode is 'layerwise'; expected 'after'"),
    ],
)
def test_links_that_cannot_be_shared_are_errors(change: dict[str, Any], message: str) -> None:
    pool = {"tensor_parallel": 2, **{key: value for key, value in change.items() if key != "network"}}
    others = [{"role": "decode"}] if "role" in change else []
    table = table_of(change.get("network", SHARING["flow"]), "shared", pool, *others, transfer={"mode": "layerwise"})
    with pytest.raises(InputError, match=message):
        serve(table)


def test_collectives_in_a_node_are_never_simulated_with_others() -> None:
    """So such a fleet runs in the compiled loop, on every network."""
    table = table_of({"plugin": "analytical"}, "shared", {"tensor_parallel": 2, "instances": 2})
    table["platform"] = {"dimensions": [{"topology": "switch", "size": 2, "link_bandwidth_gb_per_s": 1}] * 2}
    assert ends(serve(table)) == ends(serve({**table, "serving": {**table["serving"], "collectives": "alone"}}))


@pytest.mark.parametrize("fault", [KeyboardInterrupt, ValueError])
def test_runs_of_the_engine_end_with_the_run_of_all(fault: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    before, injected, inject = threading.active_count(), [0], FlowNetwork.inject

    def interrupted(self: FlowNetwork, at: int, messages: Any) -> None:
        injected[0] += 1
        if injected[0] == 40:
            raise fault
        inject(self, at, messages)

    monkeypatch.setattr(FlowNetwork, "inject", interrupted)
    table = table_of(SHARING["flow"], "shared", {**POOLS["all-to-all"], "instances": 2})
    if fault is KeyboardInterrupt:
        assert not serve(table).is_complete
    else:
        with pytest.raises(PluginError, match="network FlowNetwork: inject failed: ValueError"):
            serve(table)
    assert threading.active_count() == before
