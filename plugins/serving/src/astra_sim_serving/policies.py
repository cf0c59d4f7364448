"""Policies of plugins: their plans, checked and carried out on the cache of an instance."""

from __future__ import annotations

from collections.abc import Mapping

from astra_sim import InputError, PluginError
from astra_sim.commands import Plugins
from astra_sim.options import Typed, structure
from astra_sim.providers import call
from astra_sim.serving import Policy, RequestState, ServingState

from astra_sim_serving.kv_cache import KvCache
from astra_sim_serving.request import Sequence
from astra_sim_serving.scheduler import Batch, InstanceScheduler, Limits

VLLM = "vllm"
_LOOKED_UP = 128
"""Waiting requests whose beginnings are looked up for a policy."""


def make_scheduler(engine: str, cache: KvCache, limits: Limits, by_priority: bool, plugins: Plugins, where: str) -> InstanceScheduler:
    """The scheduler `vllm`, or one that a policy plans: NAME or NAME?key=value. Raises InputError that begins with `where`."""
    if engine == VLLM:
        return InstanceScheduler(cache, limits, by_priority)
    if by_priority:
        raise InputError(f"{where}: priorities has no effect with the policy {engine!r}, which sees them")
    name, _, query = engine.removeprefix("plugin:").partition("?")
    try:
        provider = plugins.get("serving_policy", name)
    except PluginError as error:
        raise InputError(f"{where}: {error}; built in: {VLLM}") from None
    pairs = [part.partition("=") for part in query.split("&") if part]
    cls = provider.load_options()
    if cls is None and pairs:
        raise InputError(f"{where}: {name} has no options, but {pairs[0][0]!r} is given")
    options = None if cls is None else structure(cls, {key: _typed(value) for key, _, value in pairs}, where)
    policy = provider.create(options)
    if not isinstance(policy, Policy):
        raise PluginError(f"{where}: serving policy {name!r} returned {policy!r:.80}, which is not a Policy")
    return PolicyScheduler(name, policy, cache, limits)


def _typed(value: str) -> str:
    return Typed(value)


class PolicyScheduler(InstanceScheduler):
    """Waiting and running sequences of which a policy plans every iteration."""

    in_order = False

    def __init__(self, name: str, policy: Policy, cache: KvCache, limits: Limits) -> None:
        super().__init__(cache, limits)
        self.what = f"serving policy {name!r}"
        self.policy = policy
        self.is_predictable = type(policy).keeps is not Policy.keeps

    def plan(self, now: float = 0.0) -> Batch:
        """Ask the policy, check its plan and carry it out."""
        self.preempted.clear()
        self.admitted.clear()
        if self.cache.tiers is not None:
            for sequence in [*self.waiting][:_LOOKED_UP]:
                if self._load(sequence):
                    self.waiting.remove(sequence)
        here = [each for each in self.running if not each.in_flight]
        if not here and not self.waiting:
            return []
        state = ServingState(
            now,
            tuple(_state(each, now, 0) for each in here),
            tuple(
                _state(each, now, self.cache.match_tokens(each.request) if place < _LOOKED_UP else 0, is_running=False)
                for place, each in enumerate(self.waiting)
            ),
            self.cache.free_blocks,
            self.cache.block_tokens,
            self.limits.tokens,
            self.limits.sequences,
            self.cache.blocks,
        )
        answer = call(self.what, self.policy.plan, state)
        known = {each.request.index: each for each in (*here, *self.waiting)}
        missing = {number: each.missing for number, each in known.items()}
        is_stuck = len(known) == len(self.running) + len(self.waiting)
        plan = [(known[number], tokens) for number, tokens in checked_plan(self.what, answer, missing, self.limits.tokens, is_stuck)]
        batch: Batch = []
        to_come = [sequence for sequence, _ in reversed(plan)]
        tokens_of = {id(sequence): tokens for sequence, tokens in plan}
        while to_come and self._allocate(to_come[-1], tokens_of[id(to_come[-1])], to_come, batch):
            sequence = to_come.pop()
            batch.append((sequence, min(tokens_of[id(sequence)], sequence.missing)))
        if not batch:
            self._admit_holders(batch)
        decodes = self.is_predictable and not self.admitted and not self.preempted and len(batch) == len(self.running)
        self.is_steady = decodes and all(tokens == 1 for _, tokens in batch) and call(self.what, self.policy.keeps, state, answer)
        return batch

    def _admit_holders(self, batch: Batch) -> None:
        """Admit waiting sequences that hold blocks already, for which the planned ones wait."""
        left = self.limits.tokens
        for sequence in [each for each in self.waiting if each.capacity]:
            if left and len(self.running) < self.limits.sequences:
                self.waiting.remove(sequence)
                self._enter(sequence)
                batch.append((sequence, self._cut(sequence.missing, left)))
                left -= batch[-1][1]

    def _allocate(self, sequence: Sequence, tokens: int, to_come: list[Sequence], batch: Batch) -> bool:
        """Give the next of the planned sequences its blocks, and admit it if it waits; False if that cannot be.

        `to_come` are the planned ones that are left, the next last; those that give way to it are taken out.
        """
        if sequence in self.running:
            if self.drafts and sequence.missing == 1:
                self._draft(sequence, self.drafts)
            while not self.cache.grow(sequence, sequence.computed + tokens):
                if self.receives and self._take_back():
                    continue
                if not self._make_room(to_come, batch) and not self._give_way(to_come):
                    return False
            return True
        if len(self.running) >= self.limits.sequences:
            return False
        if not sequence.capacity:
            matching = self.cache.matching(sequence)
            hit = len(matching) * self.cache.block_tokens
            fresh = min(tokens, sequence.total - hit)
            while not self.cache.can_hold(sequence, matching, fresh):
                if not self._make_room(to_come, batch):
                    return False
            self._start(sequence, matching, fresh)
        self.waiting.remove(sequence)
        self._enter(sequence)
        return True

    def _make_room(self, to_come: list[Sequence], batch: Batch) -> bool:
        """Preempt the last running sequence that is not planned; False if there is none."""
        planned = {id(each) for each in to_come} | {id(each) for each, _ in batch}
        places = [place for place, each in enumerate(self.running) if id(each) not in planned and not each.in_flight]
        if not places:
            return False
        self._preempt(places[-1])
        return True

    def _give_way(self, to_come: list[Sequence]) -> bool:
        """Preempt the last running sequence of those that are left of a plan; False if it is the next one.

        While others are in flight, none is: they may end, or give way after.
        """
        if any(each.in_flight for each in self.running):
            return False
        running = {id(each): place for place, each in enumerate(self.running)}
        victim = next(each for each in to_come if id(each) in running)
        self._preempt(running[id(victim)])
        if victim is to_come[-1]:
            return False
        to_come.remove(victim)
        return True


def checked_plan(what: str, plan: object, missing: Mapping[int, int], most: int, is_stuck: bool) -> list[tuple[int, int]]:
    """The plan of a policy, by the missing tokens of all requests that it may plan, and the most tokens of an iteration.

    `is_stuck`: without a plan nothing would ever happen. Raises PluginError if the plan breaks the contract.
    """
    if not isinstance(plan, (list, tuple)):
        raise PluginError(f"{what} returned {plan!r:.80}; expected a list of (number, tokens)")
    result: dict[int, int] = {}
    for entry in plan:
        if not isinstance(entry, tuple) or len(entry) != 2 or not all(type(each) is int for each in entry):
            raise PluginError(f"{what} planned {entry!r:.80}; expected (number, tokens)")
        number, tokens = entry
        if number not in missing or number in result:
            raise PluginError(f"{what} planned request {number}{' twice' if number in result else ', which is not here'}")
        if not 1 <= tokens <= missing[number]:
            raise PluginError(f"{what} planned {tokens} tokens of request {number}; expected 1 to {missing[number]}")
        result[number] = tokens
    total = sum(result.values())
    if total > most:
        raise PluginError(f"{what} planned {total} tokens; expected at most {most}")
    if not result and is_stuck:
        raise PluginError(f"{what} planned nothing, and {len(missing)} requests are here: the run would never end")
    return list(result.items())


def _state(sequence: Sequence, now: float, cached: int, is_running: bool = True) -> RequestState:
    request = sequence.request
    return RequestState(
        request.index, request.input, sequence.generated, sequence.computed, sequence.missing, request.priority,
        now - request.arrival, sequence.preemptions, is_running, request.max_new_tokens, cached,
    )  # fmt: skip
