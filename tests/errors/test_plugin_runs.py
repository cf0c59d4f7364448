"""Plugins that fail in a run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import astra_sim
import pytest
from astra_sim import (
    AstraError,
)
from astra_sim.engine.orders import Job
from astra_sim.errors import DeadlockError
from astra_sim.graph import Pass
from astra_sim.network import EventNetwork, Message, RouteDelayNetwork
from astra_sim.platform import Platform

from errors.inputs import COMPONENTS, Constant, Recorded, choosing, given_or_raised, holds, mine, offering


class Flat(RouteDelayNetwork):
    """Every message takes so long."""

    def __init__(self, platform: Platform, answer: Any) -> None:
        super().__init__(platform)
        self._answer = answer

    def route_delay(self, dimension: int, hops: int, size: int) -> int:
        answered: int = given_or_raised(self._answer)
        return answered


@pytest.mark.parametrize("symmetry", [True, False], ids=["one for all", "every NPU"])
@pytest.mark.parametrize("kind", ["compute", "memory", "network"])
@pytest.mark.parametrize("answer", [-5, math.nan, math.inf, None, "x", RuntimeError("no luck")], ids=repr)
def test_a_model_that_answers_no_time_fails_the_run(inputs: dict[str, Any], kind: str, answer: Any, symmetry: bool) -> None:
    makers = {"compute": lambda: Recorded(answer), "memory": lambda: Constant(answer), "network": lambda platform: Flat(platform, answer)}
    plugins = offering(**{COMPONENTS[kind]: lambda: mine(makers[kind])})
    with pytest.raises(AstraError) as caught:
        astra_sim.simulate(**choosing(inputs, COMPONENTS[kind]), plugins=plugins, symmetry=symmetry)
    assert not isinstance(caught.value, DeadlockError)


class Post(EventNetwork):
    """Delivers a message 1 ns after it was sent, one at a time; `trouble` says what goes wrong."""

    def __init__(self, platform: Platform, trouble: str) -> None:
        super().__init__(platform)
        self._trouble = trouble
        self._under_way: list[tuple[int, int]] = []

    def inject(self, time: int, messages: Sequence[Message]) -> None:
        if self._trouble == "raises":
            raise RuntimeError("no luck")
        if self._trouble != "loses":
            self._under_way += [(time + 1000, number) for number, *_ in messages]

    def advance(self, until: int | None) -> Any:
        if not self._under_way or (until is not None and self._under_way[0][0] > until):
            return None
        time, number = self._under_way.pop(0)
        answers: dict[str, Any] = {
            "answers a number": 3,
            "invents a message": (time, [10**9]),
            "delivers twice": (time, [number, number]),
            "delivers in the past": (-1, [number]),
            "delivers text": (time, ["x"]),
        }
        return answers.get(self._trouble, (time, [number]))


def test_an_event_network_works_when_nothing_goes_wrong(inputs: dict[str, Any]) -> None:
    plugins = offering(networks=lambda: mine(lambda platform: Post(platform, "nothing")))
    assert astra_sim.simulate(**choosing(inputs, "networks"), plugins=plugins).finish_ns > 0


@pytest.mark.parametrize(
    "trouble", ["raises", "answers a number", "invents a message", "delivers twice", "delivers in the past", "delivers text"]
)
def test_an_event_network_that_breaks_its_contract_fails_the_run(inputs: dict[str, Any], trouble: str) -> None:
    plugins = offering(networks=lambda: mine(lambda platform: Post(platform, trouble)))
    with pytest.raises(AstraError):
        astra_sim.simulate(**choosing(inputs, "networks"), plugins=plugins)


def test_messages_that_a_network_loses_are_named_with_those_who_wait(inputs: dict[str, Any]) -> None:
    plugins = offering(networks=lambda: mine(lambda platform: Post(platform, "loses")))
    with pytest.raises(DeadlockError) as caught:
        astra_sim.simulate(**choosing(inputs, "networks"), plugins=plugins)
    holds(str(caught.value), ["cannot finish", "NPU 0 waits for a message of 128 bytes from NPU 3", "dense"])
    assert caught.value.exit_status == 1


@pytest.mark.parametrize("answer", ["x", None, -1, 10**9, RuntimeError("no luck")], ids=repr)
def test_an_order_that_answers_no_place_fails_the_run(inputs: dict[str, Any], answer: Any) -> None:
    def order(jobs: Sequence[Job], started: int, job: Job) -> int:
        answered: int = given_or_raised(answer)
        return answered

    plugins = offering(schedulers=lambda: mine(lambda: order))
    with pytest.raises(AstraError):
        astra_sim.simulate(**choosing(inputs, "schedulers"), plugins=plugins)


def test_a_training_loop_that_breaks_off_fails_the_run(inputs: dict[str, Any]) -> None:
    plugins = offering(training_loops=lambda: mine(lambda program: program.compute(99, Pass.FORWARD)))
    with pytest.raises(AstraError, match="mine"):
        astra_sim.simulate(**choosing(inputs, "training_loops"), plugins=plugins)
