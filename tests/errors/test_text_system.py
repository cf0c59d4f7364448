"""Text system files of ASTRA-sim 1.0."""

from __future__ import annotations

from pathlib import Path

import pytest

from errors.inputs import FILES, HUGE, SYSTEM, WORKLOAD, Astra, Words, cases, holds, network, refused, system, two_dimensions, write


@cases(
    {
        "unknown name": (SYSTEM + "colour: red\n", "s.txt:10", "'colour:'"),
        "misspelt name": (SYSTEM.replace("endpoint-delay", "endpoint-dely"), "s.txt:2", "'endpoint-dely:'", "'endpoint-delay:'"),
        "name without a colon": (SYSTEM.replace("endpoint-delay:", "endpoint-delay"), "s.txt:2", "'endpoint-delay'", "'endpoint-delay:'"),
        "value missing": (SYSTEM.replace("LIFO", ""), "s.txt:1", "scheduling-policy", "no value"),
        "last value missing": (SYSTEM + "boost-mode:", "s.txt:10", "boost-mode", "no value"),
        "name twice": (SYSTEM + "endpoint-delay: 3\n", "s.txt:10", "endpoint-delay", "line 2"),
        "number a word": (system(endpoint_delay="x"), "s.txt:2", "endpoint-delay", "'x'", "whole number"),
        "number negative": (system(endpoint_delay="-1"), "s.txt:2", "endpoint-delay", "'-1'", "at least 0"),
        "number a fraction": (system(endpoint_delay="1.5"), "s.txt:2", "endpoint-delay", "'1.5'", "whole number"),
        "number of 5000 digits": (system(endpoint_delay=HUGE), "s.txt:2", "endpoint-delay"),
        "splits 0": (system(preferred_dataset_splits="0"), "s.txt", "splits", "0", "at least 1"),
        "no chunk active": (system(active_chunks_per_dimension="0"), "s.txt", "active-chunks-per-dimension", "0", "at least 1"),
        "unknown scheduling policy": (system(scheduling_policy="RANDOM"), "s.txt:1", "scheduling-policy", "'RANDOM'", "LIFO"),
        "unknown optimization": (system(collective_optimization="best"), "s.txt:9", "collective-optimization", "'best'", "baseline"),
        "unknown order in a dimension": (
            SYSTEM + "intra-dimension-scheduling: RGB\n",
            "s.txt:10",
            "intra-dimension-scheduling",
            "'RGB'",
            "'RG'",
        ),
        "unknown order of dimensions": (
            SYSTEM + "inter-dimension-scheduling: up\n",
            "s.txt:10",
            "inter-dimension-scheduling",
            "'up'",
            "ascending",
        ),
        "latency of the bus a word": (SYSTEM + "L: far\n", "s.txt:10", "'far'", "number"),
        "unknown algorithm": (system(all_reduce_implementation="rng"), "s.txt", "'rng'", "'ring'"),
        "algorithm with a window it has not": (system(all_reduce_implementation="ring4"), "s.txt", "'ring4'", "'ring'"),
        "window of 0": (system(all_reduce_implementation="direct0"), "s.txt", "window", "0", "at least 1"),
        "more algorithms than dimensions": (system(all_gather_implementation="ring_direct"), "s.txt", "all_gather", "2", "1 dimensions"),
        "algorithm without a name": (system(all_reduce_implementation="ring_"), "s.txt", ("all_reduce", "all-reduce-implementation")),
        "algorithm behind one for all NPUs": (system(all_reduce_implementation="oneRing_ring"), "s.txt", "all_reduce", "one_ring"),
        "prose": ("hello world\n", "s.txt", "format"),
    }
)
def test_a_bad_text_system_is_refused_with_its_line(astra: Astra, tmp_path: Path, given: str, words: Words) -> None:
    write(tmp_path, system=given)
    refused(astra(*FILES, "--json"), *words)


def test_fewer_algorithms_than_dimensions_are_refused(astra: Astra, tmp_path: Path) -> None:
    write(tmp_path, network=two_dimensions())
    refused(astra(*FILES), "s.txt", "all_reduce", "1 algorithms", "2 dimensions")


@pytest.mark.parametrize("symmetry", [[], ["--no-symmetry"]], ids=["one for all", "every NPU"])
@cases(
    {
        "halving-doubling on 6": (("halvingDoubling", 6, "ALLREDUCE"), "halving_doubling", "6 ranks", "power of two"),
        "one halving-doubling on 6": (("oneHalvingDoubling", 6, "ALLREDUCE"), "halving_doubling", "6 ranks", "power of two"),
        "halving-doubling for all-to-all": (("halvingDoubling", 4, "ALLTOALL"), "halving_doubling", "all_to_all"),
        "double binary tree on 5": (("doubleBinaryTree", 5, "ALLREDUCE"), "double_binary_tree", "5 ranks", "power of two"),
    }
)
def test_an_algorithm_that_cannot_do_it_says_why(
    astra: Astra, tmp_path: Path, given: tuple[str, int, str], words: Words, symmetry: list[str]
) -> None:
    algorithm, units, collective = given
    text = system(all_reduce_implementation=algorithm, all_to_all_implementation=algorithm)
    write(tmp_path, system=text, network=network(units_count=[units]), workload=WORKLOAD.replace("ALLREDUCE", collective))
    done = astra(*FILES, "--json", *symmetry)
    refused(done, *words)
    holds(done.err, [("s.txt", "all-reduce", "all-to-all", "dense")])


def test_a_collective_smaller_than_its_splits_is_refused(astra: Astra) -> None:
    done = astra(*FILES, "--set", "workload.layers.1.weight_gradient.collective_bytes=3")
    refused(done, "3 bytes", "4 chunks", "splits")
    holds(done.err, ["dense"])
