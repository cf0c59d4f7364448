"""`astra trace link` and `astra convert --from pytorch`: what PyTorch records becomes a trace that replays as the run did."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import astra_sim
import attrs
import pytest
from astra_sim import InputError
from astra_sim_chakra import CollectiveType, Node, NodeType, load_trace, write_nodes
from astra_sim_chakra.doctor.checking import check
from astra_sim_chakra.doctor.trace_set import open_traces
from astra_sim_chakra.pytorch.communication import Communication, communication_of
from astra_sim_chakra.pytorch.converting import LATENCY, OUTSIDE, Converted, convert
from astra_sim_chakra.pytorch.host import HostNode, host_of, read_host
from astra_sim_chakra.pytorch.kineto import read_kineto
from astra_sim_chakra.pytorch.linking import Linked, link
from astra_sim_chakra.pytorch.replay import replay
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import ROOT
from support.commands import Astra, command
from support.pytorch_traces import AUTOGRAD, COMPUTE, KERNEL, MAIN, NCCL, Recorder, training_step

VARIANTS = [{}, {"recorded_waits": False}, {"old_records": True}, {"numbered": False}]
ONE = "plugin:switch?size=1&link_bandwidth_gb_per_s=50&link_latency_ns=500"


@pytest.fixture
def astra(capsys: pytest.CaptureFixture[str]) -> Astra:
    return command(capsys)


def linked(folder: Path, **options: Any) -> Linked:
    host, kineto = training_step(folder, **options)
    return link(read_host(host), read_kineto(kineto))


def converted(folder: Path, **options: Any) -> Converted:
    return convert(host_of(linked(folder, **options).table, "linked"))


def named(result: Converted, name: str) -> Node:
    """The first node with this name."""
    return next(node for node in result.nodes if node.name == name)


def before(result: Converted, node: Node) -> set[str]:
    """The names of the nodes that a node waits for, through latencies and time outside of operators."""
    by_id = {each.id: each for each in result.nodes}
    results: set[str] = set()
    left = list(node.data)
    while left:
        each = by_id[left.pop()]
        if each.name in (LATENCY, OUTSIDE):
            left += each.data
        else:
            results.add(each.name)
    return results


# -- What belongs together ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", VARIANTS)
def test_everything_that_was_recorded_twice_is_matched(options: dict[str, Any], tmp_path: Path) -> None:
    counts = linked(tmp_path, **options).counts
    by_order = 0 if options.get("numbered", True) else 2  # relu and mm, each alone on its thread with its name
    assert (counts.by_call, counts.by_order, counts.only_host, counts.only_kineto) == (9 - by_order, by_order, 0, 0)
    assert (counts.kernels, counts.by_correlation, counts.with_operator) == (5, 5, 5)
    assert (counts.communications, counts.incomplete) == (1, 0)


def test_nodes_of_the_linked_trace_have_the_times_of_kineto_and_their_operator(tmp_path: Path) -> None:
    nodes = {node["name"]: node for node in linked(tmp_path).table["nodes"]}
    assert (nodes["aten::mm"]["ts"], nodes["aten::mm"]["inclusive_dur"], nodes["aten::mm"]["thread"]) == (200, 30, AUTOGRAD)
    assert nodes["aten::linear"]["thread"] == MAIN
    assert nodes["dgemm"]["ctrl_deps"] == nodes["aten::mm"]["id"]
    assert (nodes["dgemm"]["cat"], nodes["dgemm"]["stream"], nodes["dgemm"]["ts"]) == ("kernel", COMPUTE, 225)
    assert nodes[KERNEL]["communication"] == {
        "type": "COMM_COLL_NODE",
        "collective": "ALL_REDUCE",
        "bytes": 4096,
        "pg_name": "1",
        "peer": None,
    }
    assert nodes[KERNEL]["stream"] == NCCL


def test_traces_of_2023_are_matched_by_external_ids_at_one_distance(tmp_path: Path) -> None:
    host, kineto = training_step(tmp_path)
    table = json.loads(Path(kineto).read_text())
    for event in table["traceEvents"]:
        event["args"].pop("Record function id", None) if "args" in event else None
        if event["cat"] in ("kernel", "cuda_runtime"):
            event["args"]["External id"] = event["args"]["correlation"]  # it only repeats the correlation
    Path(kineto).write_text(json.dumps(table))
    counts = link(read_host(host), read_kineto(kineto)).counts
    assert (counts.by_external_id, counts.only_host, counts.only_kineto, counts.with_operator) == (9, 0, 0, 5)


def test_traces_of_different_runs_are_refused(tmp_path: Path) -> None:
    host, kineto = training_step(tmp_path)
    table = json.loads(Path(kineto).read_text())
    for event in table["traceEvents"]:
        event["name"] = f"other {event['name']}"
    Path(kineto).write_text(json.dumps(table))
    with pytest.raises(InputError, match="no operator of one is in the other; expected two traces of the same run"):
        link(read_host(host), read_kineto(kineto))


def changed(path: str, change: Callable[[dict[str, Any]], None]) -> str:
    """The file after a change of its table."""
    table = json.loads(Path(path).read_text())
    change(table)
    Path(path).write_text(json.dumps(table))
    return path


def test_traces_of_other_processes_ranks_and_steps_are_refused_unless_forced(tmp_path: Path, astra: Astra) -> None:
    host, kineto = training_step(tmp_path, 1)
    assert astra("trace", "link", host, kineto, "--rank", "1").status == 0
    done = astra("trace", "link", host, kineto, "--rank", "0")
    assert (done.status, "Kineto recorded rank 1, and --rank is 0" in done.error) == (2, True)
    step = {"id": 9999, "name": "ProfilerStep#7", "ctrl_deps": 1, "attrs": []}
    other = str(shutil.copy(host, tmp_path / "other.json"))
    changed(other, lambda table: table["nodes"].append(step))
    done = astra("trace", "link", other, kineto)
    assert (done.status, "has step 7 of the profiler" in done.error, "step 1;" in done.error) == (2, True, True), done.error
    changed(host, lambda table: table.update(pid=100))
    done = astra("trace", "link", host, kineto)
    assert (done.status, "is of process 100, and the operators of" in done.error, "of process 99" in done.error) == (2, True, True)
    assert astra("trace", "link", host, kineto, "--force").status == 0


def test_traces_with_little_in_common_are_refused(tmp_path: Path) -> None:
    """As two runs of one model have: some operators have the number of a call, and the name, of the other run."""
    host, kineto = training_step(tmp_path)

    def rename(table: dict[str, Any]) -> None:
        operators = [event for event in table["traceEvents"] if event.get("cat") == "cpu_op"]
        for event in operators[2:]:
            event["name"] += " of another run"

    changed(kineto, rename)
    with pytest.raises(InputError, match=r"only \d+% of the operators of the smaller trace are in the other \(2\)"):
        link(read_host(host), read_kineto(kineto))
    assert link(read_host(host), read_kineto(kineto), force=True).counts.by_call == 2


def test_one_step_of_several_is_selected(tmp_path: Path, astra: Astra) -> None:
    host, kineto = training_step(tmp_path)
    alone = link(read_host(host), read_kineto(kineto)).counts

    def repeat(table: dict[str, Any]) -> None:
        again = json.loads(json.dumps(table["traceEvents"]))
        for event in again:
            event["ts"] += 10_000
            event["name"] = event["name"].replace("ProfilerStep#1", "ProfilerStep#2")
            for key in ("External id", "Record function id", "correlation", "wait_on_cuda_event_record_corr_id"):
                if event.get("args", {}).get(key):
                    event["args"][key] += 5000
        table["traceEvents"] += again

    measured = read_kineto(changed(kineto, repeat))
    assert attrs.asdict(link(read_host(host), measured.of_step(1)).counts) == attrs.asdict(alone)
    assert astra("trace", "link", host, kineto, "--step", "1").status == 0
    done = astra("trace", "link", host, kineto, "--step", "3")
    assert (done.status, "there is no ProfilerStep#3; steps: 1, 2" in done.error) == (2, True)


def test_a_step_is_selected_in_the_execution_trace_too(tmp_path: Path, astra: Astra) -> None:
    recorder = Recorder()
    threads = [recorder.thread(1), recorder.thread(2)]
    for number in (4, 5):
        begin = 1000.0 * number
        within = recorder.step(number, threads[0], begin, begin + 900)
        for tid, root in ((1, within), (2, threads[1])):
            recorder.operator(f"aten::op{number}", tid, begin + 10, begin + 20, root)
    host, kineto = recorder.write(tmp_path, 0)
    done = astra("trace", "link", host, kineto, "--step", "4", "--output", str(tmp_path / "linked.json"))
    assert "2 operators matched (2 by the number of their call); 0 only in the execution trace, 0 only in" in " ".join(done.out.split())
    names = {node.name for node in read_host(str(tmp_path / "linked.json")).nodes.values()}
    assert names == {"[pytorch|profiler|execution_trace|thread]", "ProfilerStep#4", "aten::op4"}
    with pytest.raises(InputError, match=r"et\.0\.json: there is no ProfilerStep#6; steps: 4, 5"):
        read_host(host).of_step(6)


def test_operators_with_numbers_of_different_calls_are_not_matched_by_their_order(tmp_path: Path) -> None:
    host, kineto = training_step(tmp_path)

    def renumber(table: dict[str, Any]) -> None:
        event = next(event for event in table["traceEvents"] if event["name"] == "aten::relu")
        event["args"]["Record function id"] += 5000

    counts = link(read_host(host), read_kineto(changed(kineto, renumber))).counts
    assert (counts.by_call, counts.by_order, counts.only_host, counts.only_kineto) == (8, 0, 1, 1)


# -- Kineto alone ------------------------------------------------------------------------------------------------------


def test_kineto_alone_gives_the_same_nodes(tmp_path: Path, astra: Astra) -> None:
    host, kineto = training_step(tmp_path, 1)
    done = astra("trace", "link", kineto, "--output", str(tmp_path / "linked.json"))
    text = " ".join(done.out.split())
    assert (done.status, "0 only in the execution trace, 9 only in Kineto's" in text, "(+0.00%)" in text) == (0, True, True)
    assert "5 kernels and copies on the GPU (5 with the call that launched them, 5 with their operator)" in text
    assert astra("convert", kineto, str(tmp_path / "alone.et"), "--from", "pytorch").status == 0
    assert astra("convert", host, str(tmp_path / "both.et"), "--from", "pytorch", "--kineto", kineto).status == 0
    alone, both = (load_trace(tmp_path / f"{name}.1.et") for name in ("alone", "both"))
    assert [attrs.evolve(node, others=b"") for node in alone.nodes()] == [attrs.evolve(node, others=b"") for node in both.nodes()]
    assert [(node.comm_type, node.comm_size, node.pg_name) for node in alone.nodes() if node.comm_size] == [(0, 4096, "1")]
    groups = [json.loads((tmp_path / f"{name}.groups.json").read_text()) for name in ("alone", "both")]
    assert groups == [{"1": [0, 1]}] * 2


def test_kineto_alone_is_refused_where_a_kernel_does_not_say_what_it_communicates(tmp_path: Path, astra: Astra) -> None:
    host, kineto = training_step(tmp_path, 1, old_records=True)
    done = astra("trace", "link", kineto)
    assert done.status == 2
    assert f"kernel {KERNEL} at 430 us does not record its communication in full" in done.error
    assert astra("trace", "link", kineto, "--force").status == 0
    done = astra("trace", "link", kineto, "--force", "--rank", "0")
    assert done.status == 0
    _, result = training_step(tmp_path, 1)
    done = astra("trace", "link", result, "--rank", "0")
    assert (done.status, "Kineto recorded rank 1, and --rank is 0" in done.error) == (2, True)
    done = astra("trace", "link", host)
    assert (done.status, "expected a trace of Kineto, a table with traceEvents; this is an execution trace" in done.error) == (2, True)


# -- What waits for what -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", VARIANTS)
def test_kernels_wait_for_their_stream_their_launch_and_other_streams(options: dict[str, Any], tmp_path: Path) -> None:
    result = converted(tmp_path, **options)
    assert before(result, named(result, "relu")) == {"gemm", "cudaLaunchKernel"}
    assert before(result, named(result, "dgemm")) == {"relu", "cudaLaunchKernel"}
    # The all-reduce waits for the gradient of the other stream, and the kernel after it for the all-reduce.
    assert before(result, named(result, KERNEL)) == {"dgemm", "cudaLaunchKernelExC"}
    assert before(result, named(result, "add")) == {"dgemm", KERNEL, "cudaLaunchKernel"}
    # The host waits for the GPU; of the 410 us in the call 8 are left after the last kernel.
    sync = named(result, "cudaStreamSynchronize")
    assert (before(result, sync), sync.duration_ns) == ({"aten::item", "add"}, 8000)


def test_a_thread_that_was_idle_waits_for_the_other_one(tmp_path: Path) -> None:
    result = converted(tmp_path)
    # The main thread was idle from 60 to 315, until the other one had issued the all-reduce at 300.
    first = next(node for node in result.nodes if node.name == "aten::add_")
    assert before(result, first) == {"aten::relu", "c10d::allreduce_"}
    # The autograd thread began at 200, after the main thread had ended its forward pass at 60.
    assert before(result, named(result, "aten::mm")) == {"aten::relu"}


def test_the_collective_is_one_of_its_process_group(tmp_path: Path) -> None:
    for options in VARIANTS:
        result = converted(tmp_path, **options)
        node = named(result, KERNEL)
        assert (node.type, node.comm_type, node.comm_size, node.pg_name) == (NodeType.COMM_COLL_NODE, CollectiveType.ALL_REDUCE, 4096, "1")
        assert (node.is_cpu_op, node.duration_ns) == (False, 300_000)
        assert result.groups == {"1": [0, 1]}


# -- Replay ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", VARIANTS)
def test_a_replay_takes_as_long_as_the_run(options: dict[str, Any], tmp_path: Path) -> None:
    result = converted(tmp_path, **options)
    results = replay(result)
    assert (results.measured_ns, results.replayed_ns, results.most_off_ns) == (765_000, 765_000, 0)  # from 10 to 775
    assert (results.kernel_ns, results.communication_ns) == (350_000, 300_000)
    assert results.known_ns < results.replayed_ns


def test_the_simulator_replays_it_in_the_same_time(tmp_path: Path, astra: Astra) -> None:
    host, kineto = training_step(tmp_path)
    target = str(tmp_path / "out" / "linked.json")
    assert astra("trace", "link", host, kineto, "--output", target).status == 0
    done = astra("convert", target, str(tmp_path / "step.et"), "--from", "pytorch")
    assert (done.status, done.error) == (0, "")
    run = astra_sim.simulate(workload=str(tmp_path / "step"), platform=ONE, system="plugin:astra2?replay_only=true&one_at_a_time=false")
    assert run.finish_ns == 765_000


def test_a_linked_trace_says_that_it_keeps_its_orders_and_the_run_takes_it(tmp_path: Path, astra: Astra) -> None:
    host, kineto = training_step(tmp_path)
    assert astra("convert", host, str(tmp_path / "step.et"), "--from", "pytorch", "--kineto", kineto).status == 0
    times = {
        options: astra_sim.simulate(
            workload=str(tmp_path / "step"), platform=ONE, system=f"plugin:astra2?replay_only=true{options}"
        ).finish_ns
        for options in ("", "&one_at_a_time=false", "&one_at_a_time=true")
    }
    assert times[""] == times["&one_at_a_time=false"] == 765_000 < times["&one_at_a_time=true"]
    bound = json.loads(astra("trace", "stats", str(tmp_path / "step"), "--json").out)["bound"]
    assert bound["one_at_a_time"] is False
    assert "one node at a time" not in astra("trace", "stats", str(tmp_path / "step")).out
    system = {
        "preferred-dataset-splits": 1,
        "replay-only": 1,
        **{f"{kind}-implementation": ["ring"] for kind in ("all-reduce", "all-gather")},
    }
    (tmp_path / "s.json").write_text(json.dumps(system))
    assert astra_sim.simulate(workload=str(tmp_path / "step"), platform=ONE, system=str(tmp_path / "s.json")).finish_ns == 765_000
    write_nodes(tmp_path / "plain.0.et", load_trace(tmp_path / "step.0.et", keep=True).nodes())
    assert astra_sim.simulate(workload=str(tmp_path / "plain"), platform=ONE, system=str(tmp_path / "s.json")).finish_ns > 765_000


def test_two_ranks_run_with_a_simulated_all_reduce(tmp_path: Path, astra: Astra) -> None:
    for rank in range(2):
        host, kineto = training_step(tmp_path, rank)
        done = astra("convert", host, str(tmp_path / "step.et"), "--from", "pytorch", "--kineto", kineto)
        assert (done.status, (tmp_path / f"step.{rank}.et").exists()) == (0, True), done.error
    groups = tmp_path / "step.groups.json"
    assert json.loads(groups.read_text()) == {"1": [0, 1]}
    assert not [finding for finding in check(open_traces(str(tmp_path / "step"))).findings if finding.severity != "note"]
    platform = ONE.replace("size=1", "size=2")
    run = astra_sim.simulate(workload=str(tmp_path / "step"), platform=platform, groups=str(groups))
    # Without the all-reduce of 300 us the run would end at 465; 4 KiB over the switch take some microseconds.
    assert 465_000 < run.finish_ns < 475_000


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_timeline_is_replayed_exactly(tmp_path: Path, data: st.DataObject) -> None:
    """Nested operators on two threads launch kernels on two streams that begin whenever they like after their launch."""
    recorder = Recorder()
    roots = {1: recorder.thread(1), 2: recorder.thread(2)}
    free = {COMPUTE: 0.0, NCCL: 0.0}
    for tid in (1, 2):
        now = float(data.draw(st.integers(0, 300)))
        for _ in range(data.draw(st.integers(1, 5))):
            now += data.draw(st.integers(0, 250))
            length = data.draw(st.integers(4, 60))
            outer = recorder.operator("outer", tid, now, now + length, roots[tid])
            inner = recorder.operator("inner", tid, now + 1, now + length - data.draw(st.integers(0, 2)), outer)
            call = recorder.call(data.draw(st.sampled_from(["cudaLaunchKernel", "cudaStreamWaitEvent"])), tid, now + 1, now + 3, inner)
            stream = data.draw(st.sampled_from([COMPUTE, NCCL]))
            begin = max(free[stream], now + 1 + data.draw(st.integers(0, 90)))
            free[stream] = begin + data.draw(st.integers(1, 200))
            recorder.kernel("kernel", stream, begin, free[stream], call, inner)
            now += length
            if data.draw(st.booleans()):
                wait = recorder.operator("item", tid, now, now + 300, roots[tid])
                recorder.call("cudaDeviceSynchronize", tid, now, now + 300, wait)
                now += 300
    host, kineto = recorder.write(tmp_path, 0)
    result = replay(convert(host_of(link(read_host(host), read_kineto(kineto)).table, "linked")))
    assert result.most_off_ns == 0
    assert result.replayed_ns == result.measured_ns >= result.known_ns


# -- What kernels communicate ------------------------------------------------------------------------------------------


def _record(values: list[Any], types: list[str]) -> HostNode:
    fields = {"id": 1, "name": "record_param_comms", "inputs": {"values": values, "types": types}}
    return HostNode(1, "record_param_comms", 0, 1, 1, {}, fields)


HALF = {"In msg nelems": 100, "Out msg nelems": 800, "dtype": "BFloat16", "Process Group Name": "3"}
GATHER, SCATTER, REDUCE, EVERYBODY = (
    CollectiveType.ALL_GATHER,
    CollectiveType.REDUCE_SCATTER,
    CollectiveType.ALL_REDUCE,
    CollectiveType.ALL_TO_ALL,
)


@pytest.mark.parametrize(
    ("kernel", "name", "expected"),
    [
        ("ncclDevKernel_AllGather_RING_LL", "_allgather_base", Communication(NodeType.COMM_COLL_NODE, GATHER, 200, "3")),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", "_reduce_scatter_base", Communication(NodeType.COMM_COLL_NODE, SCATTER, 200, "3")),
        ("ncclKernel_AllReduce_RING_LL_Sum_float", "allreduce_coalesced", Communication(NodeType.COMM_COLL_NODE, REDUCE, 200, "3")),
        ("ncclDevKernel_SendRecv", "all_to_allv", Communication(NodeType.COMM_COLL_NODE, EVERYBODY, 200, "3")),
        ("ncclDevKernel_Broadcast_RING_LL", "broadcast", Communication(NodeType.COMM_COLL_NODE, CollectiveType.BROADCAST, 200, "3")),
        ("ncclDevKernel_AllReduce_Sum_i8", "barrier", Communication(NodeType.COMM_COLL_NODE, REDUCE, 200, "3")),
        ("ncclDevKernel_SendRecv", "send", Communication(NodeType.COMM_SEND_NODE, None, 200, "3", 5)),
        ("ncclDevKernel_SendRecv", "recv", Communication(NodeType.COMM_RECV_NODE, None, 200, "3", 4)),
        ("ncclSymkDevKernel_AllReduce_RSxLD_AGxST_sum_f32", "allreduce", Communication(NodeType.COMM_COLL_NODE, REDUCE, 200, "3")),
        ("ncclDevKernel_AllReduce_Sum_f32", "wait_all", Communication(NodeType.COMM_COLL_NODE, REDUCE, 200, "3")),
    ],
)
def test_what_kineto_says_of_a_kernel(kernel: str, name: str, expected: Communication) -> None:
    args = {**HALF, "Collective name": name, "Dst Rank": 5, "Src Rank": 4}
    assert communication_of(kernel, args, None) == expected


def test_what_stood_among_the_inputs_before_pytorch_2_4() -> None:
    tensor = [14, 15, 0, 1000, 4, "cuda:0"]
    record = _record(
        [[tensor, tensor], 12, 82149104, 0, "all_gather", [], [], 2],
        ["GenericList[Tensor(float),Tensor(float)]", "Int", "Int", "Int", "String"],
    )
    expected = Communication(NodeType.COMM_COLL_NODE, CollectiveType.ALL_GATHER, 8000)
    assert communication_of("ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclDevComm*)", {}, record) == expected


def test_kernels_that_compute_communicate_nothing() -> None:
    assert communication_of("ampere_sgemm_128x64_tn", {}, None) is None
    alone = communication_of("ncclDevKernel_SendRecv", {}, None)
    assert alone == Communication(NodeType.COMM_COLL_NODE)
    assert not alone.is_complete


# -- Files and messages ------------------------------------------------------------------------------------------------


def test_files_may_be_gzipped_and_what_was_done_is_told(tmp_path: Path, astra: Astra, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    host, kineto = training_step(tmp_path)
    changed(kineto, lambda table: table["distributedInfo"].pop("rank"))
    for path in (host, kineto):
        Path(f"{path}.gz").write_bytes(gzip.compress(Path(path).read_bytes()))
    done = astra("trace", "link", f"{host}.gz", f"{kineto}.gz", "--rank", "3")
    words = " ".join(done.out.split())
    assert (done.status, done.error) == (0, "")
    assert "9 operators matched (9 by the number of their call); 0 only in" in words
    assert "measured 765.000 us, replayed 765.000 us (+0.00%)" in words
    assert "et.0.linked.json (rank 3)" in words
    assert json.loads((tmp_path / "et.0.linked.json").read_text())["astra_link"]["rank"] == 3
    table = json.loads(astra("trace", "link", host, kineto, "--json").out)
    assert (table["matched"]["kernels"], table["replay"]["error"], table["rank"]) == (5, 0.0, 0)


def test_the_page_shows_the_traces_of_this_step(tmp_path: Path) -> None:
    for path, shown in zip(training_step(tmp_path), ("et.json", "kineto.json"), strict=True):
        assert Path(path).read_text() == (ROOT / "tests" / "pages" / shown).read_text()


def test_a_linked_trace_of_mlcommons_is_converted_too(tmp_path: Path, astra: Astra) -> None:
    """`chakra_trace_link` writes no calls: a kernel has the operator above it, and pg_name."""
    attributes = [{"name": name, "type": "uint64", "value": 1} for name in ("rf_id", "tid")]
    common = {
        "inputs": {"values": [[[1, 2, 0, 256, 4, "cuda:0"]], "allreduce"], "shapes": [], "types": ["GenericList[Tensor(float)]", "String"]}
    }
    nodes = [
        {"id": 2, "name": "[pytorch|profiler|execution_trace|thread]", "ctrl_deps": 1, "attrs": attributes},
        {"id": 3, "name": "aten::mm", "ctrl_deps": 2, "attrs": attributes, "ts": 10, "inclusive_dur": 20, "exclusive_dur": 20},
        {"id": 4, "name": "gemm", "ctrl_deps": 3, "attrs": attributes, "ts": 25, "inclusive_dur": 50, "cat": "kernel", "stream": 7},
        {"id": 5, "name": "record_param_comms", "ctrl_deps": 2, **common, "attrs": attributes, "ts": 40, "inclusive_dur": 10},
        {
            "id": 6,
            "name": KERNEL,
            "ctrl_deps": 5,
            "attrs": attributes,
            "ts": 80,
            "inclusive_dur": 9,
            "cat": "kernel",
            "stream": 7,
            "pg_name": "4",
        },
    ]
    (tmp_path / "l.json").write_text(json.dumps({"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": nodes}))
    done = astra("convert", str(tmp_path / "l.json"), str(tmp_path / "a.et"), "--from", "pytorch", "--rank", "3")
    assert (done.status, done.error) == (0, "")
    result = {node.name: node for node in load_trace(tmp_path / "a.3.et").nodes()}
    assert (result[KERNEL].comm_type, result[KERNEL].comm_size, result[KERNEL].pg_name) == (CollectiveType.ALL_REDUCE, 1024, "4")
    assert (result["gemm"].duration_ns, result["aten::mm"].is_cpu_op) == (50_000, True)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("host", "{", "et.json:1: not JSON"),
        ("host", "[]", "expected a table, as PyTorch writes it"),
        ("host", '{"traceEvents": []}', "expected an execution trace of PyTorch, a table with nodes; this is a trace of Kineto"),
        ("host", '{"nodes": []}', "the execution trace has no nodes"),
        ("host", '{"nodes": [{"id": "x", "name": ""}]}', "node number 0: expected a table with id, a whole number, and name"),
        ("host", '{"nodes": [{"id": 1, "name": "a"}, {"id": 1, "name": "b"}]}', "node number 1: its id 1 is that of an earlier node"),
        ("host", '{"nodes": [{"id": 1, "name": "a", "ctrl_deps": "x"}]}', "ctrl_deps is 'x'; expected the id"),
        ("kineto", '{"nodes": []}', "expected a trace of Kineto, a table with traceEvents; this is an execution trace"),
        (
            "kineto",
            '{"traceEvents": [{"ph": "X", "cat": "cpu_op", "tid": 1, "ts": "x"}]}',
            "event number 0: ts is 'x'; expected microseconds",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_named(name: str, text: str, message: str, tmp_path: Path, astra: Astra) -> None:
    host, kineto = training_step(tmp_path)
    bad = tmp_path / ("et.json" if name == "host" else "kineto.json")
    bad.write_text(text)
    done = astra("trace", "link", str(bad) if name == "host" else host, str(bad) if name == "kineto" else kineto)
    assert (done.status, message in done.error) == (2, True), done.error


@pytest.mark.parametrize("arguments", [("trace", "stats"), ("convert",)])
def test_an_execution_trace_is_none_of_chakra(arguments: tuple[str, ...], tmp_path: Path, astra: Astra) -> None:
    host, _ = training_step(tmp_path)
    target = [str(tmp_path / "t.et")] if arguments == ("convert",) else []
    done = astra(*arguments, host, *target)
    assert (done.status, done.out) == (2, "")
    assert "this is an execution trace of PyTorch; expected one of Chakra (astra trace link and astra convert" in done.error


def test_a_trace_that_is_not_linked_is_refused(tmp_path: Path, astra: Astra) -> None:
    host, _ = training_step(tmp_path)
    done = astra("convert", host, str(tmp_path / "a.et"), "--from", "pytorch")
    assert (done.status, "it has to be linked with a trace of Kineto first (astra trace link)" in done.error) == (2, True)
    host, kineto = training_step(tmp_path)
    (tmp_path / "a.groups.json").write_text('{"1": [0, 5]}')
    done = astra("convert", host, str(tmp_path / "a.et"), "--from", "pytorch", "--kineto", kineto)
    assert (done.status, "expected traces of one run" in done.error) == (2, True)
