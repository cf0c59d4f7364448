"""Requests: arrivals, lengths, traces."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import pytest
from astra_sim import InputError
from astra_sim.random import RandomStream
from astra_sim_serving.arrivals import ArrivalStage, arrival_times
from astra_sim_serving.lengths import LengthSampler
from astra_sim_serving.options import RequestOptions
from astra_sim_serving.requests import requests_of
from astra_sim_serving.traces import read_trace


def gaps(name: str, count: int, rate: float = 5.0, cv: float = 1.0) -> list[float]:
    times = arrival_times(name, rate, cv, (), RandomStream(3, "test"))
    result = [next(times) for _ in range(count)]
    return [after - before for before, after in itertools.pairwise(result)]


def moments(values: list[float]) -> tuple[float, float]:
    mean = sum(values) / len(values)
    return mean, math.sqrt(sum((value - mean) ** 2 for value in values) / len(values)) / mean


@pytest.mark.parametrize(("name", "cv"), [("poisson", 1.0), ("gamma", 0.5), ("gamma", 2.0), ("constant", 0.0)])
def test_gaps_have_the_mean_and_the_variation_of_their_process(name: str, cv: float) -> None:
    mean, variation = moments(gaps(name, 20_000, cv=cv or 1.0))
    assert mean == pytest.approx(0.2, rel=0.03)
    assert variation == pytest.approx(cv, rel=0.03, abs=1e-9)


def test_stages_have_their_rates_one_after_another() -> None:
    stages = (ArrivalStage(rate=10, duration_s=100), ArrivalStage(rate=0, duration_s=50), ArrivalStage(rate=40, duration_s=100))
    result = list(arrival_times("stages", 1.0, 1.0, stages, RandomStream(1)))
    assert sum(time < 100 for time in result) == pytest.approx(1000, rel=0.1)
    assert not any(100 <= time < 150 for time in result)
    assert sum(time >= 150 for time in result) == pytest.approx(4000, rel=0.05)
    assert result == sorted(result)
    assert result[-1] < 250


@pytest.mark.parametrize(
    ("table", "low", "high", "mean"),
    [
        (7, 7, 7, 7),
        ({"distribution": "uniform", "low": 3, "high": 9}, 3, 9, 6),
        ({"distribution": "lognormal", "mean": 500, "sigma": 0.7}, 1, 10**6, 500),
        ({"distribution": "lognormal", "mean": 500, "sigma": 0.7, "maximum": 400}, 1, 400, None),
        ({"distribution": "empirical", "values": [2, 4, 12]}, 2, 12, 6),
        ({"distribution": "mixture", "parts": [{"weight": 3, "value": 2}, {"weight": 1, "value": 10}]}, 2, 10, 4),
    ],
)
def test_lengths_have_the_range_and_the_mean_of_their_distribution(table: Any, low: int, high: int, mean: float | None) -> None:
    sampler, stream = LengthSampler(table, "test"), RandomStream(2)
    result = [sampler.draw(stream, number) for number in range(5000)]
    assert low <= min(result)
    assert max(result) <= high
    if mean is not None:
        assert sum(result) / len(result) == pytest.approx(mean, rel=0.03)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"distribution": "lognormal", "mean": 5}, "lognormal needs mean and sigma; sigma is missing"),
        ({"distribution": "constant", "value": 5, "sigma": 1.0}, "sigma has no effect"),
        ({"distribution": "uniform", "low": 5, "high": 2}, "low is 5; expected at most high, which is 2"),
        ({"distribution": "mixture", "parts": [{"value": 2}]}, "weight is None; expected a number above 0"),
        ({"distribution": "zipf"}, "distribution is 'zipf'"),
        (0, "value is 0"),
    ],
)
def test_bad_lengths_are_errors(table: Any, words: str) -> None:
    with pytest.raises(InputError) as caught:
        LengthSampler(table, "serving.requests.input")
    assert words in str(caught.value)
    assert str(caught.value).startswith("serving.requests.input")


def test_requests_do_not_depend_on_how_many_are_drawn_or_on_what_else_is_drawn() -> None:
    options: dict[str, Any] = {"rate": 2.0, "input": {"distribution": "lognormal", "mean": 90, "sigma": 1.0}}
    few = list(requests_of(RequestOptions(count=10, **options), 4, "test"))
    many = list(requests_of(RequestOptions(count=50, output=7, **options), 4, "test"))
    assert [(each.arrival, each.input) for each in few] == [(each.arrival, each.input) for each in many[:10]]
    other = list(requests_of(RequestOptions(count=10, **options), 5, "test"))
    assert [each.input for each in other] != [each.input for each in few]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "arrival = 'poisson' needs rate"),
        ({"arrival": "gamma", "rate": 1.0}, "arrival = 'gamma' needs cv"),
        ({"arrival": "closed", "concurrency": 2, "rate": 1.0}, "rate has no effect with arrival = 'closed'"),
        ({"arrival": "trace"}, "arrival = 'trace' needs trace"),
        ({"arrival": "stages"}, "arrival = 'stages' needs stages"),
        ({"rate": 1.0, "run": "x"}, "run has no effect without trace"),
    ],
)
def test_arrivals_that_lack_something_or_have_too_much_are_errors(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        requests_of(RequestOptions(**options), 1, "serving.requests")
    assert words in str(caught.value)


AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,4808,10
2023-11-16 18:17:04.0319600,3180,8
2023-11-16 18:18:05.4799600,110,27
"""
MOONCAKE = (
    '{"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, 48]}\n'
    '{"timestamp": 30535, "input_length": 6472, "output_length": 26, "hash_ids": [46, 2353]}\n'
)
BURSTGPT = """Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type
5,a,1.1,ChatGPT,472,18,490,Conversation log
45,b,0,ChatGPT,1087,0,1087,Conversation log
118,a,2.0,GPT-4,417,276,693,Conversation log
"""
VIDUR = "arrived_at,num_prefill_tokens,num_decode_tokens\n0.5,100,20\n1.75,90,30\n"
SPLITWISE = (
    "request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,token_size\n0,2,0,0.1,1,30,5\n1,2,0,0.4,1,31,6\n"
)
OWN = "arrival_s,input,output,priority,session\n1,10,2,0,a\n2.5,20,3,1,\n"
MEASURED = (
    '{"kind": "request", "queued_s": 0.0, "input": 5, "output": 6}\n{"kind": "summary"}\n'
    '{"kind": "request", "queued_s": 0.25, "input": 7, "output": 8}\n'
)
BENCHMARK = json.dumps({"input_lens": [10, 20], "output_lens": [3, 4], "start_times": [101.5, 101.0], "ttfts": [0.1, 0.2]})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (AZURE, [(0.0, 4808, 10), (0.052, 3180, 8), (61.5, 110, 27)]),
        (MOONCAKE, [(0.0, 6955, 52), (3.053, 6472, 26)]),
        (VIDUR, [(0.0, 100, 20), (1.25, 90, 30)]),
        (SPLITWISE, [(0.0, 30, 5), (0.3, 31, 6)]),
        (OWN, [(0.0, 10, 2), (1.5, 20, 3)]),
        (MEASURED, [(0.0, 5, 6), (0.25, 7, 8)]),
        (BENCHMARK, [(0.0, 20, 4), (0.5, 10, 3)]),
    ],
    ids=["azure", "mooncake", "vidur", "splitwise", "own", "measured", "benchmark"],
)
def test_a_trace_is_recognised_by_its_content(text: str, expected: list[tuple[float, int, int]], tmp_path: Path) -> None:
    file = tmp_path / "trace"
    file.write_text(text)
    rows = read_trace(str(file))
    assert [(row.input, row.output) for row in rows] == [each[1:] for each in expected]
    assert [row.arrival_s for row in rows] == pytest.approx([each[0] for each in expected], abs=1e-6)


def test_a_trace_keeps_sessions_priorities_and_blocks(tmp_path: Path) -> None:
    file = tmp_path / "trace"
    file.write_text(OWN)
    assert [(row.session, row.priority) for row in read_trace(str(file))] == [("a", 0), ("", 1)]
    file.write_text(MOONCAKE)
    assert [(row.blocks, row.block_tokens) for row in read_trace(str(file))] == [((46, 47, 48), 512), ((46, 2353), 512)]


def test_failed_requests_of_burstgpt_are_left_out_and_counted(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text(BURSTGPT)
    with pytest.warns(UserWarning, match="1 of 3 requests have failed"):
        rows = read_trace(str(file))
    assert [(row.arrival_s, row.input, row.output, row.session) for row in rows] == [(0.0, 472, 18, "a"), (113.0, 417, 276, "a")]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the file is empty"),
        ("arrival_s,input,output\n", "it has no requests"),
        ("a,b\n1,2\n", "a trace of unknown format with a, b"),
        ("arrival_s,input,output\n2,1,1\n1,1,1\n", "line 3: it arrives at 1 s, before the one in front of it, at 2 s"),
        ("arrival_s,input,output\n-1,1,1\n", "line 2: it arrives at -1.0 s; expected a time of at least 0"),
        ("arrival_s,input,output\nnan,1,1\n", "line 2: arrival_s is 'nan'; expected a number"),
        ("arrival_s,input,output\n1,0,1\n", "line 2: input is 0 tokens; expected at least 1"),
        ("arrival_s,input,output\n1,2.5,1\n", "line 2: input is '2.5'; expected a whole number"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\nyesterday,1,1\n", "line 2: TIMESTAMP is 'yesterday'; expected a date and time"),
        ('{"arrival_s": 1, "input": 1}\n{"arrival_s": 1}\n', "a trace of unknown format"),
        ('{"arrival_s": 1, "input": 1, "output": 1}\n{"arrival_s": 2, "input": 1}\n', "line 2: 'output'"),
        ('{"input_lens": [1], "output_lens": [1]}', "has no start_times"),
        (('{"kind": "request", "run": "a", "queued_s": 0, "input": 1, "output": 1}\n'
         '{"kind": "request", "run": "b", "queued_s": 0, "input": 1, "output": 1}\n'), "requests of 2 runs; expected requests.run ="),
    ],
)  # fmt: skip
def test_a_trace_that_is_wrong_is_an_error_with_its_line(text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "trace"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        read_trace(str(file))
    assert words in str(caught.value)
    assert str(file) in str(caught.value)


def test_the_rate_of_a_trace_can_be_scaled(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text(AZURE)
    options = RequestOptions(arrival="trace", trace=str(file), rate=1.0)
    assert [each.arrival for each in requests_of(options, 1, "test")] == pytest.approx([0.0, 0.052 / 61.5 * 2, 2.0])
