"""The network roce plays back periods that are known to repeat (no `exact`): every figure is what it is without."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import astra_sim
import pytest
from astra_sim.network import Message
from astra_sim_network_roce.network import RoceNetwork
from hypothesis import given, settings
from hypothesis import strategies as st
from support.roce import STAR, clos, network, topology

NPUS = 6
US = 1_000_000  # ps


class Send(NamedTuple):
    """A message of a round; `reply`: bytes that come back once it has arrived, `later`: ps after the start of the round."""

    source: int
    destination: int
    bytes: int
    later: int
    reply: int
    queue: int = -1


class Script(NamedTuple):
    """Rounds, each of which starts some time after the last one has ended, how far an `advance` may go, and when figures are read."""

    rounds: list[list[Send]]
    gaps: list[int]
    horizon: int | None
    looks: set[int]


SENDS = st.builds(
    Send,
    source=st.integers(0, NPUS - 1),
    destination=st.integers(0, NPUS - 1),
    bytes=st.sampled_from([0, 1000, 30_000, 77_777]),
    later=st.sampled_from([0, 0, 0, 500, 2_000_000]),
    reply=st.sampled_from([0, 0, 20_000]),
    queue=st.sampled_from([-1, 0, 0, 1]),
).filter(lambda send: send.source != send.destination)


@st.composite
def scripts(draw: st.DrawFn) -> Script:
    """A few rounds in any order; some are others with the NPUs renumbered."""
    palette = draw(st.lists(st.lists(SENDS, min_size=1, max_size=6), min_size=1, max_size=2))
    turn = draw(st.sampled_from([0, 0, 1]))
    rounds = [
        [send._replace(source=(send.source + turn * place) % NPUS, destination=(send.destination + turn * place) % NPUS) for send in each]
        for place, each in enumerate(draw(st.lists(st.sampled_from(palette), min_size=3, max_size=9)))
    ]
    gaps = draw(st.lists(st.sampled_from([0, 0, 0, 30 * US]), min_size=len(rounds), max_size=len(rounds)))
    return Script(rounds, gaps, draw(st.sampled_from([None, US // 10, 5 * US])), draw(st.sets(st.integers(0, 8), max_size=2)))


def play(made: RoceNetwork, script: Script) -> list[object]:
    """All results of the network."""
    log: list[object] = []
    now, number, replies = made.begin(), 0, {}
    made.keep_message_figures()
    for place, (sends, gap) in enumerate(zip(script.rounds, script.gaps, strict=True)):
        now += gap
        going = 0
        for send in sends:
            replies[number] = send
            made.inject(now + send.later, [Message(number, send.source, send.destination, send.bytes, send.queue)])
            number, going = number + 1, going + 1
        horizon, waits = now, 0
        while going:
            horizon += script.horizon or 0
            patient = script.horizon is None or waits > 100  # where all is lost, only an advance without end says so
            answer = made.advance(None if patient else horizon)
            if answer is None:
                waits += 1
                continue
            waits = 0
            now, arrived = answer
            horizon = max(horizon, now)
            log.append((now, arrived, list(made.take_completed())))
            for each in arrived:
                going -= 1
                send = replies.pop(each)
                if send.reply:
                    replies[number] = send._replace(reply=0)
                    made.inject(now, [Message(number, send.destination, send.source, send.reply)])
                    number, going = number + 1, going + 1
        if place in script.looks:
            log.append(figures(made))
    log.append(figures(made))
    return log


def figures(made: RoceNetwork) -> tuple[object, ...]:
    return made.statistics(), made.reports(), made.message_figures()


PLATFORMS = {
    "star": lambda folder: written(folder, topology(NPUS, 1, [(npu, NPUS) for npu in range(NPUS)])),
    "clos": lambda folder: written(folder, clos(3, 2, 2)),
    "unequal links": lambda folder: written(
        folder, topology(NPUS, 1, [(npu, NPUS) for npu in range(NPUS)]).replace("0 6 100Gbps", "0 6 50Gbps")
    ),
    "dumbbell": lambda folder: written(folder, topology(NPUS, 2, [(npu, NPUS + npu // 3) for npu in range(NPUS)] + [(NPUS, NPUS + 1)])),
}


def written(folder: Path, text: str) -> str:
    (folder / "topology.txt").write_text(text)
    return str(folder / "topology.txt")


@settings(max_examples=150, deadline=None)
@given(
    platform=st.sampled_from(sorted(PLATFORMS)),
    preset=st.sampled_from(["default", "reference", "reference"]),
    algorithm=st.sampled_from(["none", "none", "dcqcn", "hpcc", "timely", "dctcp", "pint", "swift"]),
    options=st.sampled_from(
        [
            {},
            {"common_window": False},
            {"windows": False, "buffer_mib": 0.5, "headroom_factor": 0.5},
            {"windows": False, "ecn_kmin": ("100:20",), "ecn_kmax": ("100:20",), "ecn_pmax": ("100:1",)},
            {"windows": False, "ecn_kmin": ("100:5",), "ecn_kmax": ("100:50",), "ecn_pmax": ("100:0.2",)},
            {"error_rate": 0.001, "rto_us": 100.0},
            {"link_down": ("40:0:6",)},
            {"load_balancing": "adaptive"},
            {"rto_us": 20.0},
            {"connections": "queue"},
            {"connections": "queue", "error_rate": 0.001, "rto_us": 100.0},
            {"connections": "queue", "rto_us": 20.0},
        ]
    ),
    script=scripts(),
)
def test_every_answer_and_figure_is_the_same(
    platform: str, preset: str, algorithm: str, options: dict[str, Any], script: Script, tmp_path_factory: Any
) -> None:
    where = PLATFORMS[platform](tmp_path_factory.mktemp("roce"))
    answers = []
    for exact in (None, "every-event"):
        try:
            results = network(where, preset=preset, congestion_control=algorithm, pfc_log=True, exact=exact, **options)
            answers.append(play(results, script))
        except astra_sim.AstraError as error:
            answers.append([str(error)])
    assert answers[0] == answers[1]


ROUND = [Send(npu, (npu + 1) % NPUS, 50_000, 0, 0) for npu in range(NPUS)]
EVERY_ROUND_TURNED = [
    [send._replace(source=(send.source + turn) % NPUS, destination=(send.destination + turn) % NPUS) for send in ROUND]
    for turn in range(20)
]


@pytest.mark.parametrize(
    ("options", "gap", "share"),
    [
        ({"preset": "reference"}, 0, 0.8),
        ({"preset": "default"}, 30 * US, 0.8),  # the last acknowledgements have come
        ({"preset": "default"}, 0, 0),
        ({"preset": "reference", "congestion_control": "dcqcn"}, 0, 0.8),
        ({"preset": "reference", "congestion_control": "hpcc"}, 0, 0),
        ({"preset": "reference", "load_balancing": "adaptive"}, 0, 0),
        ({"preset": "reference", "error_rate": 1e-9}, 0, 0),  # a random number for every packet
        ({"preset": "reference", "qlen_interval_us": 1.0}, 0, 0),
        ({"preset": "reference", "exact": "every-event"}, 0, 0),
    ],
)
def test_rounds_of_a_ring_repeat_though_other_npus_come_first(options: dict[str, Any], gap: int, share: float) -> None:
    results = network(STAR.format(NPUS), **options)
    play(results, Script(EVERY_ROUND_TURNED, [gap] * len(EVERY_ROUND_TURNED), None, set()))
    played = results._core.events_played_back / results.statistics()["events"]
    assert played >= share
    assert (played > 0) == (share > 0)


def test_a_link_that_differs_is_no_repetition(tmp_path: Path) -> None:
    """Two messages in turn, of which one passes a slower link."""
    results = network(PLATFORMS["unequal links"](tmp_path), preset="reference")
    slow, quick = [Send(0, 1, 90_000, 0, 0)], [Send(2, 3, 90_000, 0, 0)]
    play(results, Script([slow, slow, quick, slow, quick], [0] * 5, None, set()))
    times = {number: each.received - each.started for number, each in results.message_figures().items()}
    assert times[0] == times[1] == times[3] > times[2] == times[4]


@pytest.mark.parametrize("engine", ["python", "compiled"])
@pytest.mark.parametrize(
    ("collective", "algorithm"),
    [("all_reduce", "ring"), ("all_gather", "ring"), ("all_to_all", "direct"), ("all_reduce", "halving_doubling")],
)
@pytest.mark.parametrize("preset", ["default", "reference"])
def test_collectives_take_as_long(engine: str, collective: str, algorithm: str, preset: str) -> None:
    def result(*options: str) -> tuple[object, ...]:
        results = astra_sim.simulate(
            platform="plugin:switch?size=8&link_bandwidth_gb_per_s=12.5&link_latency_ns=1000",
            network=f"plugin:roce?preset={preset}",
            workload=f"plugin:collective?collective={collective}&bytes=1000000",
            set=[f"system.{collective}={algorithm}", *options],
            engine=engine,
        )
        return results.finish_ns, results.network, results.layers

    assert result() == result("network.exact=every-event")
