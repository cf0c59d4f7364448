"""Policies beside vLLM's V1 rules, as documentation describes them; none was checked against the code of these engines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from astra_sim.serving import Policy, RequestState, ServingState


class PrefillFirst(Policy):
    """vLLM before V1: an iteration computes whole prompts, or one token of each running request; prompts go first."""

    def plan(self, state: ServingState) -> Sequence[tuple[int, int]]:
        """Whole prompts that fit, else one token of each running request."""
        prompts: list[tuple[int, int]] = []
        budget, blocks, places = state.max_tokens, state.free_blocks, state.max_sequences - len(state.running)
        for request in state.waiting[:places]:
            needed = -(-request.missing // state.block_tokens)
            if request.missing > budget or needed > blocks:
                break
            prompts.append((request.number, request.missing))
            budget, blocks = budget - request.missing, blocks - needed
        return prompts or _decodes(state)


class Sarathi(Policy):
    """Every running request gets its token, and one prompt at a time a chunk of what is left (Sarathi-Serve, arXiv 2403.02310)."""

    def plan(self, state: ServingState) -> Sequence[tuple[int, int]]:
        """One token of each that decodes, and a chunk."""
        planned = _decodes(state)
        left = state.max_tokens - len(planned)
        return planned + _chunk((each for each in state.running if each.missing > 1), state, left)


class ShortestFirst(Policy):
    """As Sarathi, with the shortest prompt that waits first: long ones may wait for ever."""

    def plan(self, state: ServingState) -> Sequence[tuple[int, int]]:
        """One token of each that decodes, and a chunk of the shortest prompt."""
        planned = _decodes(state)
        prompts = [each for each in state.running if each.missing > 1]
        waiting = sorted(state.waiting, key=lambda each: (each.missing, each.number))
        return planned + _chunk(prompts, state, state.max_tokens - len(planned), waiting)


def _decodes(state: ServingState) -> list[tuple[int, int]]:
    """One token of each running request whose prompt is computed, as many as the budget has."""
    return [(each.number, 1) for each in state.running if each.missing == 1][: state.max_tokens]


def _chunk(
    prompts: Iterable[RequestState], state: ServingState, left: int, waiting: Sequence[RequestState] | None = None
) -> list[tuple[int, int]]:
    """A chunk of the first prompt under way, else of the first that waits, if places and blocks are there."""
    if left < 1:
        return []
    for each in prompts:
        return [(each.number, min(left, each.missing))]
    queue = state.waiting if waiting is None else waiting
    if queue and len(state.running) < state.max_sequences and (state.free_blocks > 0 or not state.running):
        return [(queue[0].number, min(left, queue[0].missing, max(1, state.free_blocks * state.block_tokens)))]
    return []
