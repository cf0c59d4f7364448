"""Transfers of keys and values that share links, and exchanges with experts, on networks with events."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from astra_sim import InputError, PluginError
from astra_sim.commands import Components, Experiment, shared_plugins
from astra_sim_network_flow.network import FlowNetwork
from astra_sim_serving import serve
from astra_sim_serving.collectives import TransferTimes, build_network
from astra_sim_serving.result import ServingResult

from serving.cases import EXPERTS, SHARING, TINY, case, check_conserved

TOKENS = 6400
ALONE_S = TOKENS * 2 * TINY["layers"] * TINY["kv_heads"] * 16 * 2 / 1e9
"""Seconds of the keys and values of a prompt, in bf16, on a link of 1e9 bytes/s."""


def table_of(
    network: dict[str, Any], senders: int, receivers: int, transfer: dict[str, Any] | None = None, **serving: Any
) -> dict[str, Any]:
    """Instances of one NPU each on a switch with links of 1e9 bytes/s, and prompts that end at the same time."""
    serving = {
        "requests": {"arrival": "burst", "count": 2, "input": TOKENS, "output": 2},
        "pool": [{"role": "prefill", "instances": senders}, {"role": "decode", "instances": receivers}],
        "kv_blocks": 2000,
        "max_batched_tokens": 2 * TOKENS,
        "transfer": {"latency_us": 0.0, **(transfer or {})},
        **serving,
    }
    result = case(**serving)
    result["platform"] = {"plugin": "switch", "size": 4, "link_bandwidth_gb_per_s": 1, "link_latency_ns": 0}
    result["network"] = network
    return result


def components_of(table: dict[str, Any]) -> Components:
    """The platform and network of a server."""
    experiment, plugins = Experiment(), shared_plugins()
    for kind in ("platform", "network"):
        experiment.use(kind, table[kind], plugins)
    return build_network(experiment, plugins)


def transfer_times(result: ServingResult) -> list[float]:
    """Seconds from the end of each prompt to that of its transfer, over those of its bytes on a link."""
    check_conserved(result)
    return sorted((each.spent.transfer_end - each.first_token) / ALONE_S for each in result.sequences)


@pytest.mark.parametrize(
    ("network", "ends", "error"),
    [("aware", [1, 2], 1e-9), ("flow", [2, 2], 1e-9), ("roce", [2, 2], 0.03), ("packet", [4 / 3, 2], 0.01)],
)
def test_two_transfers_over_one_link_take_the_sum(network: str, ends: list[float], error: float) -> None:
    """To one receiver: one after another, in equal shares, or in packets by turns (the first of `packet` gets two thirds)."""
    both = serve(table_of(SHARING[network], 2, 1))
    assert transfer_times(both) == pytest.approx(ends, rel=error)
    assert both.document()["time"]["transfer"] == pytest.approx(sum(ends) * ALONE_S, rel=error)
    assert both.transfers == 2
    document = json.dumps(both.document())
    assert document == json.dumps(serve(table_of(SHARING[network], 2, 1)).document())


@pytest.mark.parametrize("network", SHARING)
def test_transfers_over_different_links_take_as_long_as_alone(network: str) -> None:
    assert transfer_times(serve(table_of(SHARING[network], 2, 2))) == pytest.approx([1, 1], rel=0.05)  # packets have headers


@pytest.mark.parametrize(("order", "ends"), [("concurrent", [2, 2]), ("in-order", [1, 2])])
def test_transfers_of_a_sender_are_concurrent_or_in_order(order: str, ends: list[float]) -> None:
    table = table_of(SHARING["flow"], 1, 2, {"order": order})
    assert transfer_times(serve(table)) == pytest.approx(ends, rel=1e-9)
    late = table_of(SHARING["flow"], 1, 2, {"order": order, "latency_us": ALONE_S * 1e6})
    waits = 0 if order == "concurrent" else 1  # the latency of the second is after the end of the first
    assert transfer_times(serve(late)) == pytest.approx([ends[0] + 1, ends[1] + 1 + waits], rel=1e-9)


def test_a_transfer_shares_with_those_that_begin_later() -> None:
    """Two of one sender, the second when the first has half of its bytes: that ends after 1.5, and the second half a transfer later."""
    table = table_of(SHARING["flow"], 2, 1, requests={"arrival": "constant", "rate": 2 / ALONE_S, "count": 2, "input": TOKENS, "output": 2})
    result = serve(table)
    first, second = (each.first_token for each in result.sequences)
    assert second - first == pytest.approx(ALONE_S / 2)
    ends = [(each.spent.transfer_end - first) / ALONE_S for each in result.sequences]
    assert ends == pytest.approx([1.5, 2], rel=1e-9)


@pytest.mark.parametrize("mode", ["after", "layerwise"])
@pytest.mark.parametrize(("senders", "receivers"), [(1, 1), (2, 1), (1, 2), (2, 2)])
@pytest.mark.parametrize(("network", "slack_ns"), [("aware", 0.01), ("flow", 0.01), ("roce", 500), ("packet", 500)])
def test_transfers_that_never_overlap_take_the_time_of_a_run_of_their_own(
    network: str, slack_ns: float, senders: int, receivers: int, mode: str
) -> None:
    """That of the engine, but for the clocks of networks that are not at their beginning, and a size between two that were simulated."""
    latency_us = 7.0
    lengths = {"distribution": "uniform", "low": 100, "high": 900}
    table = table_of(
        SHARING[network], 1, 1, {"mode": mode, "latency_us": latency_us},
        requests={"arrival": "constant", "rate": 0.5, "count": 3, "input": lengths, "output": 5},
        pool=[{"role": "prefill", "tensor_parallel": senders}, {"role": "decode", "tensor_parallel": receivers}],
    )  # fmt: skip
    alone = TransferTimes(components_of(table))
    layers = TINY["layers"] if mode == "layerwise" else 1
    npus = tuple(range(senders)), tuple(range(senders, senders + receivers))
    for each in serve(table).sequences:
        size = each.request.input / TOKENS * ALONE_S * 1e9 / layers
        expected = latency_us * 1e3 + alone.seconds(*npus, size) * 1e9
        assert (each.spent.transfer_end - each.first_token) * 1e9 == pytest.approx(expected, abs=slack_ns)


def layered(network: str, senders: int, receivers: int, order: str | None = None, **serving: Any) -> tuple[list[float], float]:
    """When transfers end layer by layer, after the end of the prompts, and the time of these, in times of a transfer alone."""
    transfer = {"mode": "layerwise"} if order is None else {"mode": "layerwise", "order": order}
    table = table_of(SHARING[network], senders, receivers, transfer, **serving)
    # The prompts of an iteration take 1.4 times as long as one transfer, so that the link is busy from the first layers on.
    table["compute"] |= {"peak_tera_ops_per_s": 5.0 * (2 / senders), "memory_bandwidth_gb_per_s": 1000.0}
    result = serve(table)
    first = result.sequences[0]
    return transfer_times(result), (first.first_token - first.scheduled) / ALONE_S


@pytest.mark.parametrize(
    ("network", "ends", "error"), [("aware", [1.5, 2], 1e-6), ("flow", [2, 2], 1e-6), ("roce", [2, 2], 0.03), ("packet", [None, 2], 0.01)]
)
def test_layers_of_two_prompts_share_a_link(network: str, ends: list[float | None], error: float) -> None:
    """It is busy from the end of the first layers on: of two layers, after half of the time of the prompts."""
    times, prompt = layered(network, 2, 1)
    assert 0.1 < prompt < 2
    for time, end in zip(times, ends, strict=True):
        assert end is None or time + prompt / 2 == pytest.approx(end, rel=error)


@pytest.mark.parametrize(("order", "ends"), [("concurrent", [2, 2]), ("in-order", [1.5, 2])])
def test_layers_of_prompts_of_a_sender_go_together(order: str, ends: list[float]) -> None:
    times, prompt = layered("flow", 1, 2, order)
    assert 0.1 < prompt < 2
    assert [time + prompt / 2 for time in times] == pytest.approx(ends, rel=1e-6)


def test_layers_wait_for_blocks_of_their_receiver() -> None:
    """It has those for one prompt: the other is sent as a whole when the first request has ended."""
    pool = [{"role": "prefill"}, {"role": "decode", "kv_blocks": TOKENS // 16 + 10}]
    result = serve(table_of(SHARING["flow"], 1, 1, {"mode": "layerwise"}, pool=pool))
    check_conserved(result)
    first, second = sorted(result.sequences, key=lambda each: each.spent.transfer_end)
    assert second.first_token < first.last_token
    assert second.spent.transfer_end - first.last_token == pytest.approx(ALONE_S, rel=1e-6)


def test_a_prompt_that_is_computed_again_is_sent_again() -> None:
    """Its blocks are those of a prompt that is on its way for long; what was kept for it at the receiver is given back meanwhile."""
    table = table_of(
        SHARING["flow"], 1, 1, {"mode": "layerwise"},
        requests={"arrival": "burst", "count": 2, "input": 100, "output": 2},
        pool=[{"role": "prefill", "kv_blocks": 9, "max_batched_tokens": 64}, {"role": "decode", "kv_blocks": 14}],
    )  # fmt: skip
    table["platform"]["link_bandwidth_gb_per_s"] = 1e-5
    result = serve(table)
    check_conserved(result)
    first, second = result.sequences
    assert second.preemptions == 1
    assert second.first_token > first.spent.transfer_end
    token_s = ALONE_S / TOKENS * 1e5
    assert second.spent.transfer_end - second.first_token == pytest.approx(100 * token_s, rel=1e-3)
    assert first.spent.transfer_end - first.first_token == pytest.approx((100 + 28) * token_s, rel=1e-3)  # 28 were sent without effect


def test_formula_networks_and_bandwidths_send_in_order() -> None:
    for network, transfer in ({"plugin": "analytical"}, {}), (SHARING["flow"], {"bandwidth_gb_per_s": 1.0}):
        in_order = serve(table_of(network, 1, 2, transfer))
        assert transfer_times(in_order) == pytest.approx([1, 2], rel=1e-9)
        assert transfer_times(serve(table_of(network, 1, 2, {**transfer, "order": "in-order"}))) == transfer_times(in_order)
        with pytest.raises(InputError, match=r"serving.transfer.order is 'concurrent', and nothing here is shared; expected a network"):
            serve(table_of(network, 1, 2, {**transfer, "order": "concurrent"}))


def test_autoscaling_goes_on_while_transfers_are_all_that_happens() -> None:
    """A transfer of an hour: the scaler decides until its end, as if its time had been known from the beginning."""
    scaling = []
    for network, transfer in (SHARING["flow"], {}), (SHARING["flow"], {"bandwidth_gb_per_s": 1e-6}):
        autoscale = {"policy": "queue", "period_s": 100.0, "down_after_s": 200.0}
        table = table_of(network, 2, 2, transfer, autoscale=autoscale)
        table["platform"]["link_bandwidth_gb_per_s"] = 1e-6
        result = serve(table)
        check_conserved(result)
        assert result.events > ALONE_S * 1e6 / 100
        scaling.append(result.document()["scaling"])
    assert scaling[0]["npu_s"] == pytest.approx(scaling[1]["npu_s"])
    assert (scaling[0]["starts"], scaling[0]["stops"]) == (scaling[1]["starts"], scaling[1]["stops"])


class _Fault(Exception):
    pass


@pytest.mark.parametrize("fault", [KeyboardInterrupt, _Fault])
def test_progress_is_told_during_transfers_and_may_end_the_run(fault: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[float] = []
    tells: list[Callable[[int], None]] = []
    advance = FlowNetwork.advance

    def on_progress(at: float, events: int) -> None:
        assert events > 0
        told.append(at)
        if len(told) == 2:
            raise fault

    def slowly(self: FlowNetwork, until: int | None) -> tuple[int, list[int]] | None:
        result = advance(self, until)
        if result is not None:
            tells[-1](result[0])
        return result

    monkeypatch.setattr(FlowNetwork, "on_progress", lambda self, tell: tells.append(tell))
    monkeypatch.setattr(FlowNetwork, "advance", slowly)
    table = table_of(SHARING["flow"], 1, 2, {"order": "in-order"})
    if fault is _Fault:
        with pytest.raises(_Fault):
            serve(table, on_progress=on_progress)
        return
    result = serve(table, on_progress=on_progress)
    assert (result.is_complete, result.transfers) == (False, 1)
    first = result.sequences[0].first_token
    assert [(at - first) / ALONE_S for at in told] == pytest.approx([1, 2])


def _raises(error: Exception) -> Callable[..., None]:
    def raises(*_: object) -> None:
        raise error

    return raises


@pytest.mark.parametrize("policy", ["none", "queue"])
def test_faults_of_a_network_name_it(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(SHARING["flow"], 2, 1, autoscale={"policy": policy})
    monkeypatch.setattr(FlowNetwork, "advance", lambda self, until: None)
    with pytest.raises(PluginError, match=r"network FlowNetwork: it has nothing under way, and messages \[1, 2\] have not ended"):
        serve(table)
    monkeypatch.setattr(FlowNetwork, "advance", lambda self, until: (until or 2**62, [7]))
    with pytest.raises(PluginError, match="network FlowNetwork: message 7 was delivered, which is not under way"):
        serve(table)
    monkeypatch.setattr(FlowNetwork, "inject", _raises(InputError("a message has no route")))
    with pytest.raises(InputError, match=r"experiment: serving\.transfer: a message has no route"):
        serve(table)
    monkeypatch.setattr(FlowNetwork, "inject", _raises(ValueError("inside")))
    with pytest.raises(PluginError, match="network FlowNetwork: inject failed: ValueError: inside"):
        serve(table)


def test_a_network_given_as_an_object_cannot_have_two_runs() -> None:
    table = table_of(SHARING["flow"], 1, 1)
    with pytest.raises(InputError, match="network is an object, on which collectives run; expected one by name for transfers"):
        serve({**table, "network": components_of(table).network})


def test_a_run_that_is_longer_than_networks_simulate_is_an_error() -> None:
    requests = {"arrival": "constant", "rate": 1e-7, "count": 2, "input": 10, "output": 2}
    with pytest.raises(InputError, match=r"serving\.transfer: the start of a transfer is 1e\+07 s; at most 9223372\.03"):
        serve(table_of(SHARING["flow"], 1, 1, requests=requests))


@pytest.mark.parametrize("exchange", ["gather", "all-to-all"])
@pytest.mark.parametrize("network", [*SHARING, "formula"])
def test_exchanges_with_experts_run_on_every_network(network: str, exchange: str) -> None:
    """Each NPU sends what the other ranks need of it, and that one after another, but on a formula, where messages never wait."""
    tokens, ranks, bandwidth = 512, 4, 5
    pool = {"data_parallel": ranks, "expert_parallel": ranks, "exchange": exchange}
    ran = []
    for speed in (1, 1e9):
        table = table_of(
            SHARING.get(network, {"plugin": "analytical"}), 1, 1, {},
            model={"dimensions": {**EXPERTS, "hidden": 256}}, pool=[pool],
            requests={"arrival": "burst", "count": ranks, "input": tokens, "output": 1}, graph_tokens=0,
        )  # fmt: skip
        table["platform"]["link_bandwidth_gb_per_s"] = bandwidth * speed
        if speed > 1:
            table["network"] = {"plugin": "analytical"}
        result = serve(table)
        check_conserved(result)
        ran.append(result.document()["ttft_s"]["mean"])
    bytes_of_copies = tokens * 256 * 2 * (EXPERTS["top_k"] if exchange == "all-to-all" else 1)
    layers = EXPERTS["layers"] - EXPERTS["dense_layers"]
    sent = bytes_of_copies / ranks if exchange == "all-to-all" else bytes_of_copies
    waits = 1 if (network, exchange) == ("formula", "all-to-all") else ranks - 1
    expected = layers * 2 * sent * waits / (bandwidth * 1e9)
    most = 1.6 if network == "roce" else 1.01  # headers; and a short ring reaches two thirds of the bandwidth
    assert 0.999 * expected < ran[0] - ran[1] < most * expected


@pytest.mark.parametrize("compiled", [True, False])
def test_a_prompt_that_finds_no_block_waits_for_those_of_a_transfer(compiled: bool) -> None:
    """It gives up once what it has, and begins again when all of it fits, and not whenever its first part does."""
    table = table_of(
        SHARING["flow"], 1, 1,
        requests={"arrival": "burst", "count": 2, "input": 100, "output": 2}, prefix_caching=False,
        pool=[{"role": "prefill", "kv_blocks": 12, "max_batched_tokens": 64}, {"role": "decode", "kv_blocks": 14}],
    )  # fmt: skip
    table["platform"]["link_bandwidth_gb_per_s"] = 1e-4
    result = serve(table, compiled=compiled)
    check_conserved(result)
    first, second = result.sequences
    assert (first.preemptions, second.preemptions) == (0, 1)
    assert first.spent.transfer_end < second.first_token < first.spent.transfer_end + 0.1
    assert result.instances[0].totals.iterations < 8


def test_each_pool_sends_what_its_ranks_have() -> None:
    """Two ranks have one of two key heads each, four as many copies: twice the bytes."""
    pools = [
        {"role": "prefill", "tensor_parallel": 4, "npus": "4-7"},
        {"role": "prefill", "tensor_parallel": 2, "npus": "2-3"},
        {"role": "decode", "npus": "0"},
        {"role": "decode", "npus": "1"},
    ]
    table = table_of({"plugin": "analytical"}, 1, 1, {"bandwidth_gb_per_s": 1.0, "mode": "after"}, pool=pools)
    table["platform"]["size"] = 8
    result = serve(table)
    took = {each.prefill_instance: (each.spent.transfer_end - each.first_token) / ALONE_S for each in result.sequences}
    assert took == pytest.approx({0: 2, 1: 1})
