"""JSON network files of ASTRA-sim 1.0."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from errors.inputs import FILES, NETWORK, Astra, Words, answered_or_refused, cases, network, refused, write

REQUIRED = ("dimensions-count", "topologies-per-dim", "units-count", "links-count", "link-latency", "link-bandwidth")


LISTS = tuple(key for key, value in NETWORK.items() if isinstance(value, list))


NUMBERS = tuple(key for key in LISTS if key not in ("topologies-per-dim", "dimension-type"))


@pytest.mark.parametrize("key", REQUIRED)
def test_a_network_without_a_required_key_is_refused(astra: Astra, tmp_path: Path, key: str) -> None:
    write(tmp_path, network=json.dumps({name: value for name, value in NETWORK.items() if name != key}))
    refused(astra(*FILES), "n.json", key)


@pytest.mark.parametrize("key", LISTS)
@pytest.mark.parametrize("value", [None, True, 3, "x", {}, [], [1, 2]], ids=json.dumps)
def test_a_list_of_the_network_has_one_value_for_each_dimension(astra: Astra, tmp_path: Path, key: str, value: Any) -> None:
    write(tmp_path, network=json.dumps({**NETWORK, key: value}))
    refused(astra(*FILES), "n.json", key)


@pytest.mark.parametrize("key", NUMBERS)
@pytest.mark.parametrize("value", [None, True, "x", -1, [1], {}, math.nan, math.inf, -math.inf], ids=str)
def test_a_number_of_the_network_that_is_none_is_refused(astra: Astra, tmp_path: Path, key: str, value: Any) -> None:
    write(tmp_path, network=json.dumps({**NETWORK, key: [value]}))
    shown = repr(value) if not isinstance(value, float) else str(value)
    refused(astra(*FILES), "n.json", key if "units" not in key and "links" not in key else ("size", "links", key), shown)


@cases(
    {
        "no unit": ({"units_count": [0]}, ("units-count", "size"), "0", "at least 1"),
        "half a unit": ({"units_count": [1.5]}, "units-count", "1.5", "whole"),
        "no link": ({"links_count": [0]}, "links", "0", "at least 1"),
        "half a link": ({"links_count": [2.5]}, "links-count", "2.5", "whole"),
        "no bandwidth": ({"link_bandwidth": [0]}, "link-bandwidth", "0", "more than 0"),
        "no memory bandwidth": ({"hbm_bandwidth": [0]}, "hbm-bandwidth", "0", "more than 0"),
        "a ring with one link": ({"links_count": [1]}, "links", "1", "at least 2"),
        "too few links for all": ({"topologies_per_dim": ["FullyConnected"], "links_count": [2]}, "links", "2", "at least 3"),
        "an unknown topology": ({"topologies_per_dim": ["Torus"]}, "topologies-per-dim", "'Torus'", "Ring"),
        "a topology in small letters": ({"topologies_per_dim": ["ring"]}, "topologies-per-dim", "'ring'", "Ring"),
        "a list for a topology": ({"topologies_per_dim": [["Ring"]]}, "topologies-per-dim", "['Ring']", "Ring"),
        "an object for a topology": ({"topologies_per_dim": [{}]}, "topologies-per-dim", "{}", "Ring"),
        "an unknown key": ({"link_latencies": [1]}, "'link-latencies'", "link-latency"),
        "no dimensions": ({"dimensions_count": 0}, "dimensions-count", "0", "at least 1"),
        "a negative number of dimensions": ({"dimensions_count": -1}, "dimensions-count", "-1", "at least 1"),
        "a fraction of dimensions": ({"dimensions_count": 1.0}, "dimensions-count", "1.0", "whole"),
        "more dimensions than values": ({"dimensions_count": 2}, "topologies-per-dim", "1", "2 dimensions"),
        "dimensions without end": ({"dimensions_count": 10**30}, "topologies-per-dim", "1"),
    }
)
def test_a_network_that_cannot_be_built_is_refused(astra: Astra, tmp_path: Path, given: dict[str, Any], words: Words) -> None:
    write(tmp_path, network=network(**given))
    refused(astra(*FILES), "n.json", *words)


@pytest.mark.parametrize("topology", ["Ring", "Switch"])
@pytest.mark.parametrize("key", NUMBERS)
@pytest.mark.parametrize("value", [1e308, 10**30, 10**400, 1e-320], ids=["1e308", "10^30", "10^400", "1e-320"])
def test_extreme_numbers_of_a_network_give_a_whole_answer_or_an_error(
    astra: Astra, tmp_path: Path, topology: str, key: str, value: float
) -> None:
    changed = {**NETWORK, "topologies-per-dim": [topology], "hbm-scale": [1], key: [value]}
    write(tmp_path, network=json.dumps(changed))
    answered_or_refused(astra(*FILES, "--json"), "n.json")
