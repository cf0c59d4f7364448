"""Results and errors go through pickle and copy unchanged, so that runs can be spread over processes."""

from __future__ import annotations

import concurrent.futures
import copy
import json
import multiprocessing
import pickle
from collections.abc import Callable
from typing import Any, NoReturn

import astra_sim
import attrs
import pytest
from astra_sim import errors
from astra_sim.compute import MissingWork
from astra_sim.engine.interface import UnlikeCollectivesError
from astra_sim.errors import AstraError, CapacityError, DeadlockError, PluginError
from astra_sim.graph import Compute, ExecutionGraph, NpuProgram, Receive
from astra_sim.platform import LogicalDimension
from astra_sim.schedule import rank
from support import ROOT

RING = "plugin:ring?size=4&links=2&link_bandwidth_gb_per_s=1&link_latency_ns=100"
COLLECTIVE: dict[str, Any] = {"workload": "plugin:collective?bytes=65536", "platform": RING}
RUNS: dict[str, dict[str, Any]] = {
    "layers": {"experiment": str(ROOT / "examples" / "vgg16_dgx2_pod.toml")},
    "python engine": {**COLLECTIVE, "engine": "python"},
    "every NPU": {**COLLECTIVE, "symmetry": False},
    "congestion": {**COLLECTIVE, "network": "plugin:analytical?congestion=aware"},
    "packet": {**COLLECTIVE, "network": "plugin:packet"},
    "flow": {**COLLECTIVE, "network": "plugin:flow"},
}
SMALL = 50_000
"""Bytes of a pickled result: figures, not the graph or the state of the network."""


def through_pickle(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))


@pytest.mark.parametrize("way", [through_pickle, copy.copy, copy.deepcopy])
@pytest.mark.parametrize("name", RUNS)
def test_a_result_is_the_same_after_the_round_trip(name: str, way: Callable[[Any], Any]) -> None:
    result = astra_sim.simulate(**RUNS[name])
    again = way(result)
    assert type(again) is astra_sim.Result
    assert again == result
    assert again.tables() == result.tables()
    assert again.busy_ns == result.busy_ns
    assert again.npu_finish_ns == result.npu_finish_ns
    assert again.network_reports() == result.network_reports()
    assert json.dumps(again.to_dict()) == json.dumps(result.to_dict())
    assert len(pickle.dumps(result)) < SMALL
    assert pickle.dumps(through_pickle(again)) == pickle.dumps(through_pickle(result))


def test_a_long_run_makes_a_small_pickle() -> None:
    operations = tuple(Compute((number - 1,) if number else (), 1000 + number, name="the same") for number in range(20_000))
    graph = ExecutionGraph(operations, (LogicalDimension(4, 1, 0),), ())
    result = astra_sim.simulate(workload=graph, platform=RING)
    assert through_pickle(result).tables() == result.tables()
    assert len(pickle.dumps(result)) < 30 * len(operations)


@pytest.mark.parametrize("length", [10, 1200, 1203, 5000])
@pytest.mark.parametrize("way", [through_pickle, copy.copy, copy.deepcopy])
def test_errors_are_the_same_after_the_round_trip(way: Callable[[Any], Any], length: int) -> None:
    plain = [cls for cls in vars(errors).values() if isinstance(cls, type) and issubclass(cls, AstraError)]
    plain = [cls for cls in plain if cls not in (CapacityError, DeadlockError)]
    result = [cls("x" * length) for cls in (*plain, MissingWork)]
    result += [DeadlockError("x" * length, ["NPU 0: waits", "NPU 1: waits"]), CapacityError("x" * length, 3.5, 2)]
    for error in result:
        error.add_note("a note")
        again = way(error)
        assert (type(again), str(again), again.args, vars(again)) == (type(error), str(error), error.args, vars(error))
        assert again.exit_status == error.exit_status


class ErrorOfAPlugin(PluginError):
    """A third-party error, with more arguments than a message."""

    def __init__(self, layer: str, size: int) -> None:
        super().__init__(f"layer {layer} of {size} bytes")
        self.layer = layer


def test_an_error_of_a_plugin_may_take_what_it_likes() -> None:
    again = through_pickle(ErrorOfAPlugin("conv", 12))
    assert (str(again), again.layer) == ("layer conv of 12 bytes", "conv")


def test_collectives_that_differ_keep_what_they_say() -> None:
    error = UnlikeCollectivesError((0, 1), (2, 3), 4)
    again = through_pickle(error)
    assert (str(again), again.issued, again.first, again.ordinal) == (str(error), (0, 1), (2, 3), 4)


def test_a_deadlock_of_many_npus_is_a_small_error() -> None:
    error = DeadlockError("stuck", [f"NPU {npu}: waits for a message" for npu in range(100_000)])
    assert error.waiting[-1] == "NPU 999: waits for a message"
    assert len(pickle.dumps(error)) < SMALL


def stop(engine: str) -> NoReturn:
    """A run that cannot finish, in a process of its own."""
    others = (NpuProgram((Compute((), 1000),), (1, 2, 3)),)
    graph = ExecutionGraph((Receive((), rank(1), 64, 7),), (LogicalDimension(4, 1, 0),), (), None, others)
    astra_sim.simulate(workload=graph, platform=RING, engine=engine)
    raise AssertionError("the run finished")


def finish(engine: str) -> astra_sim.Result:
    """A run that finishes, in a process of its own."""
    return astra_sim.simulate(**COLLECTIVE, engine=engine)


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_a_pool_of_processes_brings_back_results_and_deadlocks(start: str) -> None:
    with multiprocessing.get_context(start).Pool(1) as pool:
        with pytest.raises(DeadlockError, match="the run cannot finish") as caught:
            pool.apply_async(stop, ["compiled"]).get(timeout=60)
        here = finish("python")
        there = pool.apply_async(finish, ["python"]).get(timeout=60)
    assert caught.value.waiting == ["NPU 0: operation 0 (receive of 64 bytes) waits for a message of NPU 1 with tag 7"]
    assert attrs.evolve(there, wall_s=here.wall_s) == here


def test_an_executor_brings_back_a_deadlock() -> None:
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        assert isinstance(pool.submit(stop, "python").exception(timeout=60), DeadlockError)
