"""Memories behind the cache: what they keep, what a load takes, and that others run beside it."""

from __future__ import annotations

from typing import Any

import pytest
from astra_sim import InputError
from astra_sim_serving.result import ServingResult
from astra_sim_serving.tiers import MemoryTier, Tiers

from serving.cases import TINY, check_conserved, run

BLOCK_BYTES = 16 * 2 * TINY["layers"] * TINY["kv_heads"] * 16 * 2
GROUPS = {"rate": 20.0, "count": 300, "input": 8, "output": 4, "prefix": {"groups": 12, "tokens": 160}}
"""Twelve beginnings of ten blocks, of which a cache of 40 blocks keeps three."""


def tiered(*tiers: dict[str, Any], **serving: Any) -> ServingResult:
    result = run(**{"requests": GROUPS, "kv_blocks": 40, "tier": list(tiers), **serving})
    check_conserved(result)
    return result


def tier(blocks: int, read: float = 10.0, **more: Any) -> dict[str, Any]:
    return {"capacity_gib": (blocks + 0.5) * BLOCK_BYTES / 2**30, "read_gb_per_s": read, "latency_us": 0.0, **more}


def test_what_was_longest_not_used_gives_way_to_the_next_tier() -> None:
    near, far = MemoryTier(2, 0.0, 1.0), MemoryTier(2, 0.0, 10.0)
    tiers = Tiers([near, far])
    keys = [(number, 0) for number in range(6)]
    for key in keys[:3]:
        tiers.put(key)
    assert [near.has(key) for key in keys[:3]] == [False, True, True]
    assert tiers.find(keys[0]) is far
    near.use(keys[1])
    tiers.put(keys[3])
    assert (near.has(keys[1]), tiers.find(keys[2]) is far) == (True, True)
    for key in keys[4:]:
        tiers.put(key)
    assert [tiers.find(key) is not None for key in keys] == [False, True, False, True, True, True]


def test_loads_follow_each_other_and_take_latency_and_bandwidth() -> None:
    near, far = MemoryTier(9, 0.5, 1.0), MemoryTier(9, 2.0, 10.0)
    tiers = Tiers([near, far])
    near.put((0, 0))
    far.put((0, 1))
    far.put((0, 2))
    assert tiers.load(100.0, [(near, (0, 0)), (far, (0, 1)), (far, (0, 2))]) == 100 + 0.5 + 1 + 2 + 20
    assert tiers.load(101.0, [(near, (0, 0))]) == 123.5 + 1.5
    assert (tiers.loads, tiers.loaded_blocks) == (2, 4)


def test_a_fast_tier_saves_what_a_small_cache_gives_up() -> None:
    none, fast, slow = tiered().document(), tiered(tier(200)).document(), tiered(tier(200, read=0.0001)).document()
    assert none["kv"]["tier_hit_fraction"] == 0
    assert fast["kv"]["tier_hit_fraction"] > 0.4
    assert fast["ttft_s"]["mean"] < 0.8 * none["ttft_s"]["mean"] < slow["ttft_s"]["mean"]
    assert fast["explanation"]["ttft"][0]["load"] < slow["explanation"]["ttft"][0]["load"]


def test_a_load_takes_its_bytes() -> None:
    """Two prefixes alternately, far apart in time: each pushes the other out, and comes back from the tier."""
    requests = {"arrival": "constant", "rate": 0.1, "count": 40, "input": 8, "output": 1, "prefix": {"groups": 2, "tokens": 160}}
    result = tiered(tier(200, read=0.001), requests=requests, kv_blocks=11)
    loads = {round(each.spent.load_s / (BLOCK_BYTES / 1e6), 6) for each in result.sequences}
    assert loads == {0.0, 10.0}
    for each in result.sequences:
        assert each.cached == 160 or each.spent.load_s == 0


def test_others_run_beside_a_load() -> None:
    """With loads of a second each, requests without beginnings hardly notice."""
    requests = {**GROUPS, "rate": 0.5, "count": 60}
    result = tiered(tier(400, read=BLOCK_BYTES * 10 / 1e9), requests=requests)
    loaded = [result.ttft(each) for each in result.sequences if each.spent.load_s > 0.9]
    others = [result.ttft(each) for each in result.sequences if not each.spent.load_s]
    assert min(loaded) > 0.9
    assert sum(others) / len(others) < 0.2


def test_a_shared_tier_helps_instances_that_have_not_seen_a_beginning() -> None:
    hits = [
        tiered(tier(100, shared=shared), pool=[{"instances": 3}], requests={**GROUPS, "count": 100}).document()["kv"]["tier_hit_fraction"]
        for shared in (True, False)
    ]
    assert hits[0] > hits[1]


def test_a_tier_behind_a_tier_keeps_more() -> None:
    one, two = tiered(tier(20)), tiered(tier(20), tier(200, read=1.0))
    assert two.document()["kv"]["tier_hit_fraction"] > one.document()["kv"]["tier_hit_fraction"]


@pytest.mark.parametrize(
    ("serving", "words"),
    [
        ({"tier": [tier(0)]}, "holds no block of"),
        ({"tier": [{"capacity_gib": 1.0}]}, "read_gb_per_s"),
        ({"tier": [tier(5)], "prefix_caching": False}, "serving.tier has no effect without prefix_caching"),
    ],
)
def test_bad_tiers_are_errors(serving: dict[str, Any], words: str) -> None:
    if "tier" in serving and "capacity_gib" in serving["tier"][0] and len(serving["tier"][0]) > 1 and words.startswith("holds"):
        serving["tier"][0]["capacity_gib"] = 1e-9
    with pytest.raises(InputError) as caught:
        run(**serving)
    assert words in str(caught.value)
