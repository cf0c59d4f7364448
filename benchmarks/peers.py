"""Other programs beside astra: python3 dev.py bench peers.

Each program that an environment variable names (`PROGRAMS`) runs the same input as `astra`, in whole processes, alternately; CPU time
counts; with the results of both. Programs that are not named are left out: none is fetched, and none is shipped. If one gives no
answer (it aborts, does not end, or prints something else), its row gives the reason, and the others are measured all the same.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from astra_sim_chakra import Node, NodeType, write_nodes

from devtools.figures import FigureTable, Row, main
from devtools.peer_processes import NoAnswer, used

PROGRAMS = {
    "ASTRA-sim 1.0": "ASTRA_SIM_1_BINARY",
    "ASTRA-sim 2.x": "ASTRA_SIM_2_BINARY",
    "Garnet": "GARNET_BINARY",
    "BookSim 2": "BOOKSIM_BINARY",
    "SCALE-Sim": "SCALE_SIM_PYTHON",
}
"""The variables that name the programs: `AnalyticalAstra`, `AstraSim_Analytical_Congestion_Unaware`, `gem5.opt` with ASTRA-sim 1.0's
Garnet, `booksim`, and a Python that can import `scalesim`."""
ROUNDS, LONG_S = 3, 20.0
"""How often both run, unless the other program takes `LONG_S`."""
MIB = 1 << 20


class Input(NamedTuple):
    """One input for both: the arguments of the other program and of `astra`, and how the answer is found in what each prints.

    `their_status` is the exit status of the other program if all went well.
    """

    theirs: Sequence[str]
    ours: Sequence[str]
    their_answer: str
    our_answer: Callable[[Any], float]
    their_status: int = 0


def _system_1(algorithm: str, dimensions: int) -> str:
    lines = ["scheduling-policy: LIFO", "endpoint-delay: 10", "active-chunks-per-dimension: 1", "preferred-dataset-splits: 4"]
    names = "_".join([algorithm] * dimensions)
    lines += [f"{kind}-implementation: {names}" for kind in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")]
    return "\n".join([*lines, "boost-mode: 0", "collective-optimization: localBWAware", ""])


def _micro(size: int) -> str:
    return f"MICRO\n1\nallreduce -1 1 NONE 0 1 NONE 0 1 ALLREDUCE {size} 1\n"


def _finish_ns(result: Any) -> float:
    return float(result["finish_ns"])


FINISHED_1 = r"all passes finished at time: (\d+)"


def astra1(npus: int, folder: Path) -> Input:
    """An all-reduce of 64 MiB in four chunks on a ring, every message of it simulated."""
    network = {
        "topology-name": "Hierarchical", "dimensions-count": 1, "topologies-per-dim": ["Ring"], "dimension-type": ["N"],
        "units-count": [npus], "links-count": [2], "link-latency": [500], "link-bandwidth": [50],
        "nic-latency": [0], "router-latency": [0], "hbm-latency": [500], "hbm-bandwidth": [370], "hbm-scale": [0],
    }  # fmt: skip
    (folder / "network.json").write_text(json.dumps(network))
    (folder / "system.txt").write_text(_system_1("ring", 1))
    (folder / "workload.txt").write_text(_micro(64 * MIB))
    files = {"network": "network.json", "system": "system.txt", "workload": "workload.txt"}
    theirs = [f"--{kind}-configuration={folder / name}" for kind, name in files.items()]
    theirs += [f"--path={folder}/", "--run-name=run", "--num-passes=1", "--total-stat-rows=1", "--stat-row=0"]
    ours = [argument for kind, name in files.items() for argument in (f"--{kind}", str(folder / name))]
    return Input(theirs, [*ours, "--no-symmetry", "--json"], FINISHED_1, _finish_ns)


def astra2(npus: int, folder: Path) -> Input:
    """The same from a trace for ASTRA-sim 2.x."""
    algorithms = {f"{kind}-implementation": ["ring"] for kind in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")}
    system = {
        "scheduling-policy": "LIFO", "endpoint-delay": 10, "active-chunks-per-dimension": 1, "preferred-dataset-splits": 4,
        **algorithms, "collective-optimization": "localBWAware", "local-mem-bw": 1600,
    }  # fmt: skip
    (folder / "system.json").write_text(json.dumps(system))
    (folder / "memory.json").write_text('{"memory-type": "NO_MEMORY_EXPANSION"}')
    (folder / "network.yml").write_text(f"topology: [ Ring ]\nnpus_count: [ {npus} ]\nbandwidth: [ 50.0 ]\nlatency: [ 500.0 ]\n")
    node = Node(
        id=0, name="all_reduce", type=NodeType.COMM_COLL_NODE, is_cpu_op=False, comm_type=0, comm_size=64 * MIB, involved_dim=(True,)
    )
    write_nodes(folder / "trace.0.et", [node])
    for rank in range(1, npus):
        (folder / f"trace.{rank}.et").symlink_to(folder / "trace.0.et")
    files = {"workload": "trace", "system": "system.json", "network": "network.yml"}
    theirs = [f"--{kind}-configuration={folder / name}" for kind, name in files.items()]
    theirs += [f"--remote-memory-configuration={folder / 'memory.json'}", f"--logging-folder={folder / 'log'}"]
    ours = [argument for kind, name in files.items() for argument in (f"--{kind}", str(folder / name))]
    return Input(theirs, [*ours, "--memory", str(folder / "memory.json"), "--no-symmetry", "--json"], r"finished, (\d+) cycles", _finish_ns)


def garnet(size: int, folder: Path) -> Input:
    """An all-reduce on Garnet's torus of 2 x 2 x 2."""
    lines = [
        "num-npus: 8", "num-packages: 4", "package-rows: 2", "topology: Torus3D", "local-rings: 2", "vertical-rings: 2",
        "horizontal-rings: 2", "flit-width: 2048", "local-packet-size: 4096", "package-packet-size: 4096", "tile-link-width: 256",
        "package-link-width: 256", "vcs-per-vnet: 50", "routing-algorithm: Ring_XY", "router-latency: 1", "local-link-latency: 90",
        "package-link-latency: 200", "buffers-per-vc: 5000", "local-link-efficiency: 1.0", "package-link-efficiency: 1.0", "",
    ]  # fmt: skip
    (folder / "network.txt").write_text("\n".join(lines))
    (folder / "system.txt").write_text(_system_1("ring", 3))
    (folder / "workload.txt").write_text(_micro(size))
    files = {"network": "network.txt", "system": "system.txt", "workload": "workload.txt"}
    theirs = [*os.environ.get("GARNET_ARGUMENTS", "").split(), "--synthetic=training"]
    theirs += [f"--{kind}-configuration={folder / name}" for kind, name in files.items()]
    theirs += [f"--path={folder}/", "--run-name=run", "--num-passes=1", "--total-stat-rows=1", "--stat-row=0"]
    ours = [argument for kind, name in files.items() for argument in (f"--{kind}", str(folder / name))]
    return Input(theirs, [*ours, "--json"], FINISHED_1, _finish_ns)


def booksim(topology: str, rate: float, folder: Path) -> Input:
    """Uniform traffic on 8 x 8 routers for 40 000 cycles."""
    latency, links = (2, "&links=2") if topology == "torus" else (1, "")
    options = {
        "topology": topology, "k": 8, "n": 2, "routing_function": "dim_order", "num_vcs": 4, "vc_buf_size": 8, "wait_for_tail_credit": 0,
        "vc_allocator": "islip", "sw_allocator": "islip", "alloc_iters": 1, "credit_delay": 1, "routing_delay": 1, "vc_alloc_delay": 1,
        "sw_alloc_delay": 1, "st_prepare_delay": 0, "st_final_delay": 1, "speculative": 0, "input_speedup": 1, "output_speedup": 1,
        "internal_speedup": "1.0", "use_noc_latency": 1, "traffic": "uniform", "packet_size": 1, "injection_process": "bernoulli",
        "injection_rate_uses_flits": 1, "injection_rate": rate, "sim_type": "latency", "warmup_periods": 1, "sample_period": 10_000,
        "max_samples": 3, "stopping_thres": "-1.0", "acc_stopping_thres": "-1.0", "latency_thres": "-1.0", "seed": 1,
    }  # fmt: skip
    (folder / "config").write_text("".join(f"{key} = {value};\n" for key, value in options.items()))
    platform = f"plugin:{topology}?sizes=8,8&link_bandwidth_gb_per_s=32&link_latency_ns={latency}{links}"
    network = "plugin:packet?preset=booksim&vcs=4&buffers=8"
    ours = ["traffic", "--platform", platform, "--network", network, "--rate", str(rate), "--warm-up", "10000", "--period", "10000"]
    ours += ["--periods", "3", "--json"]
    answer = r"Packet latency average = ([\d.]+) \("
    status = 255  # of a run that is at its end
    return Input([str(folder / "config")], ours, answer, lambda found: float(found["rates"][0]["packet_latency"]), status)


def scale_sim(size: int, folder: Path) -> Input:
    """One product of 1024 x 512 x 512 on a weight-stationary array, with all reports."""
    config = f"""[general]
run_name = run

[architecture_presets]
ArrayHeight: {size}
ArrayWidth: {size}
IfmapSramSzkB: 64
FilterSramSzkB: 64
OfmapSramSzkB: 64
IfmapOffset: 0
FilterOffset: 10000000
OfmapOffset: 20000000
Dataflow : ws
Bandwidth : 10
MemoryBanks: 1

[run_presets]
InterfaceBandwidth: CALC
"""
    (folder / "array.cfg").write_text(config)
    (folder / "layers.csv").write_text("Layer, M, N, K,\nproduct, 1024, 512, 512,\n")
    files = str(folder / "array.cfg"), str(folder / "layers.csv")
    theirs = ["-m", "scalesim.scale", "-c", files[0], "-t", files[1], "-p", str(folder / "theirs"), "-i", "gemm"]
    ours = ["systolic", "--config", files[0], "--topology", files[1], "--gemm", "--output", str(folder / "ours"), "--json"]
    return Input(theirs, ours, r"(?:Compute|Total) cycles: (\d+)", lambda found: float(found["layers"][0]["total_cycles"]))


CASE_OF: dict[tuple[str, str], Callable[[Path], Input]] = {
    ("ASTRA-sim 1.0", "all-reduce of 64 MiB, ring of 64, every message"): partial(astra1, 64),
    ("ASTRA-sim 1.0", "the same on a ring of 1024"): partial(astra1, 1024),
    ("ASTRA-sim 2.x", "all-reduce of 64 MiB, ring of 64, every message"): partial(astra2, 64),
    ("ASTRA-sim 2.x", "the same on a ring of 1024"): partial(astra2, 1024),
    ("Garnet", "all-reduce of 1 MiB, torus 2x2x2"): partial(garnet, MIB),
    ("BookSim 2", "mesh 8x8, uniform 0.1"): partial(booksim, "mesh", 0.1),
    ("BookSim 2", "mesh 8x8, uniform 0.4"): partial(booksim, "mesh", 0.4),
    ("BookSim 2", "torus 8x8, uniform 0.3"): partial(booksim, "torus", 0.3),
    ("SCALE-Sim", "reports of one GEMM of 1024 x 512 x 512, 32 x 32"): partial(scale_sim, 32),
}


def _number(answer: str, printed: str) -> float:
    """The last answer in what a program printed. Raises NoAnswer."""
    try:
        return float(re.findall(answer, printed)[-1])
    except (IndexError, ValueError):
        raise NoAnswer("no answer in what it printed", printed) from None


def beside(program: str, make: Callable[[Path], Input]) -> list[str] | None:
    """The figures of a row: CPU seconds of both, how many times as fast astra is, and both answers; None without the program.

    The first cell of a program that gives no answer has the reason. Raises NoAnswer if ours gives none.
    """
    binary = os.environ.get(PROGRAMS[program])
    if not binary:
        return None
    with tempfile.TemporaryDirectory(prefix="astra-bench-") as name:
        folder = Path(name)
        given = make(folder)
        theirs, ours = [], []
        for _ in range(ROUNDS):
            try:
                seconds, printed = used([binary, *given.theirs], folder, given.their_status)
                their_answer = _number(given.their_answer, printed)
            except NoAnswer as error:
                print(f"{program}: {error}", file=sys.stderr)
                return [error.reason, "", "", ""]
            theirs.append(seconds)
            seconds, printed = used([sys.executable, "-m", "astra_sim", *given.ours], folder)
            ours.append(seconds)
            if theirs[-1] > LONG_S:
                break
        shutil.rmtree(folder / "theirs", ignore_errors=True)
    their_s, our_s = statistics.median(theirs), statistics.median(ours)
    answers = f"{their_answer:.10g}, {given.our_answer(json.loads(printed[printed.index('{') :])):.10g}"
    return [f"{their_s:.2f}", f"{our_s:.2f}", f"{their_s / our_s:.1f}", answers]


SIDE_BY_SIDE = FigureTable(
    "side-by-side",
    ("program", "case", "its CPU s", "astra, CPU s", "times as fast", "answers: its, ours"),
    [Row([program, case], partial(beside, program, make)) for (program, case), make in CASE_OF.items()],
)
TABLES = (SIDE_BY_SIDE,)


def _ours(make: Callable[[Path], Input]) -> None:
    with tempfile.TemporaryDirectory(prefix="astra-bench-") as name:
        used([sys.executable, "-m", "astra_sim", *make(Path(name)).ours], Path(name))


CASES: dict[str, Callable[[], None]] = {f"{program}: {case}": partial(_ours, make) for (program, case), make in CASE_OF.items()}
"""What `dev.py bench peers --against REVISION` compares: our side."""

if __name__ == "__main__":
    sys.exit(main(TABLES))
