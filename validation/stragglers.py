"""Replay of measured training steps with stragglers, and the scatter of their operations (validation/STRAGGLERS.md).

python validation/stragglers.py FOLDER

FOLDER has trace-NAME.parquet and ms-NAME.json of ByteDance-Seed/StragglerAnalysis (Lin et al., OSDI 2025,
arXiv 2505.05713), which are not part of this repository. Each step is simulated twice: with the measured time of each forward and
backward pass of a micro-batch, and with their means.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

import astra_sim
import pandas as pd
from astra_sim.graph import Communicate, Compute, ExecutionGraph, NpuProgram, Pass, Receive, Send
from astra_sim.platform import LogicalDimension
from astra_sim.schedule import Collective, Peer

NAMES = ("ST", "AR", "SE")
PASSES = ("forward-compute", "backward-compute")
AT_END = ("grads-reduce-scatter", "embedding-grads-all-reduce", "optimizer-clip-main-grad", "optimizer", "params-all-gather")
"""What follows the passes of a step, once: the time that the fastest rank takes, for the others wait."""
PS_PER_S = 10**12


def scatter(table: pd.DataFrame) -> dict[str, dict[str, float]]:
    """Of each kind of pass the coefficients of variation: between ranks of a stage, and within a rank; medians over stages.

    `all passes` of a step, between ranks of a stage in the same step: the mean over steps of the variance.
    """
    result = {"all passes": {"between_ranks_of_a_step": statistics.median(_of_steps(table))}}
    for name in PASSES:
        between, within = [], []
        for _, stage in table[table.optype == name].groupby("gmc"):
            mean, means = stage.duration.mean(), stage.groupby("rank").duration.transform("mean")
            between.append(stage.groupby("rank").duration.mean().std() / mean)
            within.append((stage.duration - means).std() / mean)
        result[name] = {"between_ranks": float(statistics.median(between)), "within_a_rank": float(statistics.median(within))}
    return result


def _of_steps(table: pd.DataFrame) -> list[float]:
    """For each stage how much the times of all passes of a step scatter between its ranks, over their mean."""
    passes = table[table.optype.isin(PASSES)]
    result = []
    for _, stage in passes.groupby("gmc"):
        sums = stage.groupby(["step", "rank"]).duration.sum().unstack()
        result.append(float(sums.var(axis=1).mean() ** 0.5 / sums.to_numpy().mean()))
    return result


def step_s(passes: pd.DataFrame, durations: pd.Series, rest_s: float) -> float:
    """The simulated time of a step: pipelines side by side, whose ranks wait for each other's micro-batches and meet at the end."""
    ranks = sorted(passes["rank"].unique())
    npu_of = {rank: npu for npu, rank in enumerate(ranks)}
    place = {(row.dp_rank, row.gmc): npu_of[row.rank] for row in passes.itertuples()}
    last = passes.gmc.max()
    programs = []
    for rank in ranks:
        operations: list[Any] = []
        before: tuple[int, ...] = ()
        for row in passes[passes["rank"] == rank].sort_values("start_ts").itertuples():
            forward = row.optype == PASSES[0]
            source, target = (row.gmc - 1, row.gmc + 1) if forward else (row.gmc + 1, row.gmc - 1)
            tag = 2 * int(row.mb_id) + (not forward)
            if 0 <= source <= last:
                operations.append(Receive(before, Peer("rank", place[row.dp_rank, source]), 1, tag=tag))
                before = (len(operations) - 1,)
            operations.append(Compute(before, round(float(durations[row.Index]) * PS_PER_S)))
            before = (len(operations) - 1,)
            if 0 <= target <= last:
                operations.append(Send(before, Peer("rank", place[row.dp_rank, target]), 1, tag=tag))
        operations.append(Communicate(before, Collective.ALL_REDUCE, 1, (0,), -1, Pass.FORWARD))
        operations.append(Compute((len(operations) - 1,), round(rest_s * PS_PER_S)))
        programs.append(NpuProgram(tuple(operations), (npu_of[rank],)))
    dimension = LogicalDimension(len(ranks), 1, 0)
    graph = ExecutionGraph(programs[0].operations, (dimension,), (), None, others=tuple(programs[1:]))
    platform = {"dimensions": [{"topology": "switch", "size": len(ranks), "link_bandwidth_gb_per_s": 1000, "link_latency_ns": 0}]}
    return float(astra_sim.simulate(workload=graph, platform=platform, system="plugin:astra2").finish_ns) / 1e9


def replay(folder: Path, name: str, most: int | None = None) -> dict[str, float]:
    """The mean time of a job's steps as measured, as simulated, and with all passes of a kind at their mean; and the published figures."""
    table = pd.read_parquet(folder / f"trace-{name}.parquet")
    published = json.loads((folder / f"ms-{name}.json").read_text())
    real, ideal, measured = [], [], []
    for _, step in list(table.groupby("step"))[:most]:
        passes = step[step.optype.isin(PASSES)]
        rest = step[step.optype.isin(AT_END)].groupby(["optype", "rank"], observed=True).duration.sum()
        rest_s = float(rest.groupby("optype", observed=True).min().sum())
        means = passes.groupby("optype", observed=True).duration.transform("mean")
        real.append(step_s(passes, passes.duration, rest_s))
        ideal.append(step_s(passes, means, rest_s))
        measured.append((step.start_ts + step.duration).max() - step.start_ts.min())
    original, best = statistics.fmean(real), statistics.fmean(ideal)
    return {
        "measured_s": float(statistics.fmean(measured)),
        "simulated_s": original,
        "ideal_s": best,
        "slowdown": original / best,
        "published_s": published["tori"],
        "published_ideal_s": published["tideal"],
        "published_slowdown": published["tori"] / published["tideal"],
    }


def main() -> None:
    """Print the tables of validation/STRAGGLERS.md."""
    folder = Path(sys.argv[1])
    for name in NAMES:
        print(name, {key: round(value, 4) for key, value in replay(folder, name).items()})
        for kind, each in scatter(pd.read_parquet(folder / f"trace-{name}.parquet")).items():
            print("  ", kind, {key: f"{100 * value:.2f} %" for key, value in each.items()})


if __name__ == "__main__":
    main()
