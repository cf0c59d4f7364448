"""Damaged files give a result or an error, and nothing else."""

from __future__ import annotations

import json
import re

import astra_sim
import pytest
from astra_sim import (
    AstraError,
    Result,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from errors.inputs import NETWORK, RECOMPUTING, SYSTEM, WORKLOAD, Change, changes, finite, network, system, two_layers, write

CUSTOMISED = "HYBRID_CUSTOMIZED\n2\na -1 5 ALLREDUCE 64 5 NONE 0 5 ALLREDUCE 64 1 DATA\nb -1 5 ALLREDUCE 64 5 NONE 0 5 NONE 0 1 MODEL\n"


GOOD_TEXTS = {
    "workload": (
        WORKLOAD,
        two_layers(f"{RECOMPUTING} checkpoints: 1 0 checkpoint_initiates: 1 1").replace("NONE 0", "ALLREDUCE 64"),
        two_layers("HYBRID_DLRM 1").replace("NONE 0", "ALLTOALL 64"),
        CUSTOMISED,
    ),
    "system": (
        SYSTEM,
        SYSTEM + "intra-dimension-scheduling: FIFO\ninter-dimension-scheduling: roundRobin\nboost-mode: 0\nL: 1.5\n",
        system(all_reduce_implementation="halvingDoubling", all_to_all_implementation="direct2", collective_optimization="baseline"),
        system(all_reduce_implementation="doubleBinaryTree", scheduling_policy="FIFO"),
    ),
    "network": (network(), json.dumps(NETWORK, indent=1), network(topologies_per_dim=["Switch"], hbm_scale=[1])),
}


def spoil(text: str, change: Change) -> str:
    """A text with one change. A character is a byte here."""
    words = re.findall(r"\s+|\"[^\"]*\"|[\[\]{},]|[^\s\[\]{},\"]+|\"", text)
    numbers = [index for index, word in enumerate(words) if re.fullmatch(r"-?[0-9.]+", word)]
    visible = [index for index, word in enumerate(words) if not word.isspace()]
    if not text or not visible:
        return change.word
    position = int(change.place * len(text))
    index = visible[int(change.place * len(visible))]
    match change.kind:
        case "cut":
            return text[:position]
        case "drop":
            return "".join(words[:index] + words[index + 1 :])
        case "repeat":
            return "".join([*words[: index + 1], " ", *words[index:]])
        case "word":
            return "".join([*words[:index], change.word, *words[index + 1 :]])
        case "number" if numbers:
            index = numbers[int(change.place * len(numbers))]
            return "".join([*words[:index], change.word, *words[index + 1 :]])
        case "swap":
            other = visible[-1 - int(change.place * len(visible))]
            words[index], words[other] = words[other], words[index]
            return "".join(words)
        case "flip":
            return text[:position] + chr(ord(text[position]) % 256 ^ 1 << position % 8) + text[position + 1 :]
        case "zero":
            return text[:position] + "\0" + text[position:]
        case "crlf":
            return text.replace("\n", "\r\n")
        case "mark":
            return "\xef\xbb\xbf" + text
    return text


@settings(max_examples=3000, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kind=st.sampled_from(sorted(GOOD_TEXTS)), which=st.integers(0, 3), done=changes())
def test_spoilt_files_give_an_answer_or_an_error_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, kind: str, which: int, done: list[Change]
) -> None:
    text = GOOD_TEXTS[kind][which % len(GOOD_TEXTS[kind])]
    for change in done:
        text = spoil(text, change)
    folder = tmp_path_factory.mktemp("spoilt")
    write(folder, **{kind: text.encode("latin-1", errors="replace") if "\xef\xbb\xbf" in text else text})
    try:
        result = astra_sim.simulate(workload=folder / "w.txt", system=folder / "s.txt", network=folder / "n.json")
    except AstraError as error:
        message = str(error)
    else:
        assert isinstance(result, Result)
        finite(result.to_dict())
        return
    assert 0 < len(message) < 4000
