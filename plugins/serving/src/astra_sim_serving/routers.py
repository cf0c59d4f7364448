"""Which instance takes a request."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from astra_sim.random import RandomStream

from astra_sim_serving.instance import ServingInstance
from astra_sim_serving.request import ServingRequest

ROUTERS = ("random", "round-robin", "least-requests", "least-waiting", "least-tokens", "least-kv", "two-choices", "session", "prefix")

Router = Callable[[ServingRequest, Sequence[ServingInstance]], ServingInstance]


def make_router(policy: str, stream: RandomStream, beta: float) -> Router:
    """The router of a name. Of equal instances the first is taken. Random numbers go by the number of the request."""
    if policy == "random":
        return lambda request, instances: instances[int(stream.uniform(request.index) * len(instances))]
    if policy == "two-choices":
        return lambda request, instances: _two_choices(request, instances, stream)
    if policy == "session":
        return _session
    if policy == "prefix":
        return lambda request, instances: _prefix(request, instances, beta)
    if policy == "round-robin":
        turn = iter(range(1 << 62))
        return lambda request, instances: instances[next(turn) % len(instances)]
    load = {
        "least-requests": lambda each: each.requests,
        "least-waiting": lambda each: 4 * len(each.scheduler.waiting) + len(each.scheduler.running),  # vLLM between data-parallel ranks
        "least-tokens": lambda each: each.outstanding_tokens,
        "least-kv": lambda each: each.scheduler.cache.used_blocks / each.scheduler.cache.blocks,
    }[policy]
    return lambda request, instances: min(instances, key=load)


def _two_choices(request: ServingRequest, instances: Sequence[ServingInstance], stream: RandomStream) -> ServingInstance:
    """The less loaded of two different instances that are drawn (Mitzenmacher, IEEE TPDS 12(10), 2001)."""
    first = int(stream.uniform(2 * request.index) * len(instances))
    if len(instances) == 1:
        return instances[first]
    second = (first + 1 + int(stream.uniform(2 * request.index + 1) * (len(instances) - 1))) % len(instances)
    return min(instances[first], instances[second], key=lambda each: each.requests)


def _session(request: ServingRequest, instances: Sequence[ServingInstance]) -> ServingInstance:
    """The instance that the session's name hashes to (rendezvous hashing); requests without a session by their number."""
    name = request.session or str(request.index)
    return max(instances, key=lambda each: hashlib.blake2b(f"{name}/{each.number}".encode(), digest_size=8).digest())


def _prefix(request: ServingRequest, instances: Sequence[ServingInstance], beta: float) -> ServingInstance:
    """The largest share of the prompt that is cached, less `beta` times the load relative to the mean."""
    mean = sum(each.requests for each in instances) / len(instances) or 1.0
    return max(instances, key=lambda each: each.scheduler.cache.match_tokens(request) / request.input - beta * each.requests / mean)
