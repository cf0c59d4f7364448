"""Pipeline schedules: every order is complete and possible, and bubbles are those of the papers."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from astra_sim import InputError
from astra_sim_llm.in_flight import in_flight
from astra_sim_llm.schedules import PassKind, PassTimes, ScheduleStep, makespan, order_of, virtual_stage
from hypothesis import example, given
from hypothesis import strategies as st

from llm.runs import platform, run

F, B, I, W = PassKind.FORWARD, PassKind.BACKWARD, PassKind.INPUT, PassKind.WEIGHT  # noqa: E741
TIMES = ((1, 1, 1), (2, 2, 1), (3, 4, 2))
"""Times of forward pass, input gradients and weight gradients."""


def span(schedule: str, stages: int, micro_batches: int, times: tuple[int, int, int], chunks: int = 1) -> float:
    forward, inputs, weights = times
    order = order_of(schedule, stages, micro_batches, chunks)
    return makespan(order, schedule, {F: forward, B: inputs + weights, I: inputs, W: weights})


def orders(extra_ahead: int = 0) -> list[tuple[str, int, int, int]]:
    """Schedules with stages, micro-batches (fewer than stages, odd numbers and one, too) and chunks."""
    result = []
    for stages in (1, 2, 3, 4, 6, 8):
        for micro_batches in (1, 2, 3, 5, 7, 8, 12, 16, 18):
            result += [(name, stages, micro_batches, 1) for name in (("1f1b",) if extra_ahead else ("gpipe", "1f1b", "zb-h1"))]
            result += [("zb-v", stages, micro_batches, 2)] if stages > 1 and not extra_ahead else []
            result += [("interleaved", stages, micro_batches, chunks) for chunks in (1, 2, 3) if micro_batches % stages == 0]
            if stages % 2 == 0 and micro_batches % 2 == 0 and micro_batches >= 2 * stages:
                result.append(("dualpipe", stages, micro_batches, 2))
    return result


@pytest.mark.parametrize("extra_ahead", [0, 1])
def test_every_pass_is_done_once_and_in_time(extra_ahead: int) -> None:
    for schedule, stages, micro_batches, chunks in orders(extra_ahead):
        order = order_of(schedule, stages, micro_batches, chunks, extra_ahead)
        ways = {"dualpipe": micro_batches // 2}.get(schedule, micro_batches)
        for steps in order:
            done = Counter((step.kind if step.kind is not I else B, step.chunk) for step in steps)
            split = Counter(step.chunk for step in steps if step.kind is I)
            for chunk in range(chunks):
                assert done[F, chunk] == done[B, chunk] == ways
                assert done[W, chunk] == split[chunk]
            places = {(step.kind, step.micro_batch, step.chunk): place for place, step in enumerate(steps)}
            assert len(places) == len(steps)
            for step, place in ((step, place) for place, step in enumerate(steps) if step.kind is W):
                assert places[I, step.micro_batch, step.chunk] < place
        assert _ends_where_joined_passes_run_together(order, schedule), (schedule, stages, micro_batches, chunks)


def _ends_where_joined_passes_run_together(order: list[list[ScheduleStep]], schedule: str) -> bool:
    """Whether all passes can be done, if a joined pass begins with the one that follows it."""
    stages = len(order)
    last = max(virtual_stage(schedule, stage, step.chunk, stages) for stage, steps in enumerate(order) for step in steps)
    done: set[Any] = set()
    places, moved = [0] * stages, True
    while moved:
        moved = False
        for stage, steps in enumerate(order):
            while places[stage] < len(steps):
                together = steps[places[stage] : places[stage] + 1 + steps[places[stage]].with_forward]
                ends, needs = [], []
                for step in together:
                    at, way = virtual_stage(schedule, stage, step.chunk, stages), step.chunk if schedule == "dualpipe" else 0
                    if step.kind is F:
                        ends.append((F, step.micro_batch, at, way))
                        needs += [(F, step.micro_batch, at - 1, way)] if at else []
                    elif step.kind is not W:
                        ends.append((B, step.micro_batch, at, way))
                        needs.append((B, step.micro_batch, at + 1, way) if at < last else (F, step.micro_batch, at, way))
                if not done.issuperset(needs):
                    break
                done |= set(ends)
                places[stage] += len(together)
                moved = True
    return all(place == len(steps) for place, steps in zip(places, order, strict=True))


@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize("stages", [1, 2, 3, 4, 8])
def test_gpipe_and_1f1b(stages: int, times: tuple[int, int, int]) -> None:
    for micro_batches in (1, 2, 3, 5, 8, 13):
        expected = (micro_batches + stages - 1) * sum(times)
        assert span("gpipe", stages, micro_batches, times) == span("1f1b", stages, micro_batches, times) == expected


@pytest.mark.parametrize("chunks", [1, 2, 3])
@pytest.mark.parametrize("stages", [2, 3, 4, 8])
def test_interleaving_divides_the_bubble_by_chunks(stages: int, chunks: int) -> None:
    """Times are those of a chunk: the bubble is (p - 1)(tf + tb) of these, which is 1/v of that of 1F1B."""
    for rounds in (1, 2, 3):
        expected = (rounds * stages * chunks + stages - 1) * 3
        assert span("interleaved", stages, rounds * stages, (1, 1, 1), chunks) == expected


@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize("stages", [1, 2, 3, 4, 8])
def test_zb_h1(stages: int, times: tuple[int, int, int]) -> None:
    """(p - 1)(tF + tB - tW), from as many micro-batches as stages on; of fewer there are not weight gradients enough to fill."""
    forward, inputs, weights = times
    for micro_batches in (1, 2, 3, 5, 8, 13, 16):
        bubble = (stages - 1) * (forward + inputs - weights)
        if micro_batches >= stages:
            assert span("zb-h1", stages, micro_batches, times) == micro_batches * sum(times) + bubble
        else:
            assert span("zb-h1", stages, micro_batches, times) <= span("1f1b", stages, micro_batches, times)


@pytest.mark.parametrize("stages", [2, 3, 4, 5, 8])
def test_zb_v_waits_at_its_start_alone(stages: int) -> None:
    for micro_batches in (stages, *range(2 * stages, 4 * stages)):
        assert span("zb-v", stages, micro_batches, (1, 1, 1)) == 6 * micro_batches + stages - 1


@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize("stages", [2, 4, 6, 8])
def test_dualpipe(stages: int, times: tuple[int, int, int]) -> None:
    """At most (p/2 - 1)(F&B + B - 3W), where F&B take as long as F and B one after another."""
    _, inputs, weights = times
    for micro_batches in range(2 * stages, 4 * stages, 2):
        bubble = span("dualpipe", stages, micro_batches, times) - micro_batches * sum(times)
        assert 0 <= bubble <= (stages / 2 - 1) * (sum(times) + inputs + weights - 3 * weights)


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "interleaved", "zb-h1", "dualpipe"])
@pytest.mark.parametrize("stages", [2, 4, 8])
def test_what_is_in_flight_is_what_orders_keep(schedule: str, stages: int) -> None:
    """A micro-batch is kept until its gradients are there. Of weight gradients that ZB-H1 puts off memory is counted apart."""
    for rounds in (1, 2, 3, 4):
        chunks = 2 if schedule in ("interleaved", "dualpipe") else 1
        if schedule == "dualpipe" and rounds < 2:
            continue
        for stage, steps in enumerate(order_of(schedule, stages, rounds * stages, chunks)):
            result, most = [0] * chunks, 0
            for step in steps:
                result[step.chunk] += step.kind is F
                most = max(most, sum(result))
                result[step.chunk] -= step.kind in (B, I)
            assert most == max(sum(state) for state in in_flight(schedule, stage, stages, chunks, rounds * stages))


def test_zb_v_keeps_no_more_than_its_limit() -> None:
    for stages in (2, 4, 6):
        for steps in order_of("zb-v", stages, 4 * stages, 2):
            result, most = 0, 0
            for step in steps:
                result += (step.kind is F) - (step.kind is W)
                most = max(most, result)
            assert most == 2 * stages


def test_what_cannot_be_is_refused() -> None:
    for schedule, stages, micro_batches in (("interleaved", 4, 6), ("dualpipe", 3, 8), ("dualpipe", 4, 6), ("dualpipe", 4, 9)):
        with pytest.raises(InputError, match=f"{schedule} has .*{micro_batches} micro-batches"):
            order_of(schedule, stages, micro_batches, 2)
    with pytest.raises(ValueError, match="waits for itself"):
        makespan([[ScheduleStep(B, 0), ScheduleStep(F, 0)]], "1f1b", dict.fromkeys(PassKind, 1))


# -- Whole runs --------------------------------------------------------------------------------------------------------

EQUAL = {"layers": 8, "hidden": 512, "heads": 8, "vocab": 8, "sequence": 16}
"""Products alone count: those of forward pass, input and weight gradients take as long, and embedding and head nothing."""


def _bubble(schedule: str, stages: int, micro_batches: int, model: dict[str, Any], chunks: int = 1) -> float:
    """The bubble of a run, in times (p - 1) of a micro-batch."""
    fast: dict[str, Any] = {"dimensions": [{"topology": "switch", "size": stages, "links": 1, "link_bandwidth_gb_per_s": 1e9}]}
    arguments = {"system": {"plugin": "astra2", "endpoint_delay_ns": 0}, "compute": {"plugin": "roofline", "peak_tera_ops_per_s": 0.01}}
    shared = {"model": model, "pipeline_parallel": stages, "virtual_stages": chunks, "schedule": schedule}
    result = run(fast, arguments, global_batch=micro_batches, optimizer_bytes=1e-6, overlap={"p2p": True}, **shared)
    return float(result.bubble_share / (1 - result.bubble_share) * micro_batches / (stages - 1))


@pytest.mark.parametrize(
    ("schedule", "chunks", "share"),
    [("gpipe", 1, 1.0), ("1f1b", 1, 1.0), ("interleaved", 2, 1 / 2), ("zb-h1", 1, 1 / 3), ("zb-v", 1, 1 / 6)],
)
@pytest.mark.parametrize("stages", [2, 4])
@pytest.mark.parametrize("rounds", [2, 4])
def test_bubbles_of_whole_runs(schedule: str, chunks: int, share: float, stages: int, rounds: int) -> None:
    """The bubble in times (p - 1) of a micro-batch: 1, 1/v; tF + tB - tW is a third, and ZB-V's start one of six chunk passes."""
    tolerance = 0.1 if schedule == "zb-v" else 0.06  # passes of attention are a little longer backward than forward
    assert _bubble(schedule, stages, rounds * stages, EQUAL, chunks) == pytest.approx(share, rel=tolerance)


@pytest.mark.parametrize("stages", [2, 4, 8])
def test_zb_v_waits_less_than_1f1b_with_many_micro_batches(stages: int) -> None:
    """Passes that take different times make an order of their own: one of equal times would wait in each micro-batch."""
    model = {"layers": 16, "hidden": 256, "heads": 4, "vocab": 8, "sequence": 512}
    assert _bubble("zb-v", stages, 16 * stages, model) < 0.7 * _bubble("1f1b", stages, 16 * stages, model)


@example(2, 8, 24, 47, 6)  # places for forward passes are filled by the first chunk, if nothing keeps some for the second
@given(st.integers(2, 6), st.integers(1, 24), st.integers(1, 30), st.integers(1, 30), st.integers(1, 30))
def test_zb_v_is_no_longer_than_the_order_of_equal_times(stages: int, micro_batches: int, forward: int, inputs: int, weights: int) -> None:
    times = PassTimes(forward, inputs, weights)
    orders = [order_of("zb-v", stages, micro_batches, 2, times=each) for each in (times, PassTimes())]
    spans = [makespan(order, "zb-v", times.by_kind()) for order in orders]
    assert spans[0] <= spans[1]
    for steps in orders[0]:
        assert sorted(steps) == sorted(ScheduleStep(kind, i, chunk) for kind in (F, I, W) for i in range(micro_batches) for chunk in (0, 1))


def test_one_stage_has_no_bubble() -> None:
    assert run(platform(4), pipeline_parallel=1, global_batch=4).bubble_share == pytest.approx(0, abs=1e-9)
