"""What programs of ASTRA-sim 2.x print is read by what public repositories read the logs of those programs with.

Only the patterns are here, as facts about what callers expect.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from astra_sim_chakra import Node, NodeType, write_nodes
from support.compat import install, run

COMPUTED = 5000
"""Nanoseconds. ASTRA-sim divides rooflines by 1 ns more, so 5000 operations a byte are 4999."""
SYSTEM = {
    "scheduling-policy": "LIFO",
    "preferred-dataset-splits": 1,
    **{f"{kind}-implementation": ["ring"] for kind in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")},
    "roofline-enabled": 1,
    "peak-perf": 1,
    "local-mem-bw": 100,
}


@pytest.fixture(scope="module", name="output")
def output_fixture(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What a run of two NPUs prints that compute beside an all-reduce, with rooflines."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "s.json").write_text(json.dumps(SYSTEM))
    (folder / "n.yml").write_text("topology: [ Ring ]\nnpus_count: [ 2 ]\nbandwidth: [ 50.0 ]\nlatency: [ 500.0 ]\n")
    (folder / "m.json").write_text('{"memory-type": "NO_MEMORY_EXPANSION"}')
    nodes = [
        Node(id=0, name="compute", type=NodeType.COMP_NODE, num_ops=5 * 10**6, tensor_size=1000, is_cpu_op=False),
        Node(id=1, name="reduce", type=NodeType.COMM_COLL_NODE, is_cpu_op=False, comm_type=0, comm_size=1 << 20),
    ]
    for rank in range(2):
        write_nodes(folder / f"w.{rank}.et", nodes)
    options = ("workload=w", "system=s.json", "network=n.yml", "remote-memory=m.json")
    program = install(folder / "bin") / "AstraSim_Analytical_Congestion_Aware"
    ended = run(
        program, *(f"--{name}-configuration={value}" for name, _, value in (each.partition("=") for each in options)), folder=folder
    )
    assert (ended.status, ended.errors) == (0, "")
    return ended.output


def found(pattern: str, flags: int = 0) -> Callable[[str], list[object]]:
    return lambda text: list(re.findall(pattern, text, flags))


def in_lines(pattern: str, flags: int = 0) -> Callable[[str], list[object]]:
    """The groups of the first match in each line."""
    return lambda text: [matched.groups() for line in text.splitlines() if (matched := re.search(pattern, line, flags))]


FINISH, EXPOSED, COMM = "{finish}", "{exposed}", "{comm}"
ANY = re.IGNORECASE
READ: dict[str, list[tuple[Callable[[str], list[object]], list[Any]]]] = {
    # repository, path: reader, what it finds
    "UPC-Qualcomm/astra-sim-opt upc/Optimization/helper/output_parser.py": [
        (found(r"\[statistics\] \[info\] sys\[0\], Wall time: (\d+)"), [FINISH]),
    ],
    "PeisongZhang/astra-sim megatron_gpt_experiment/collect_and_compare.py": [
        (
            found(r"sys\[(\d+)\] finished, (\d+) cycles, exposed communication (\d+) cycles\."),
            [
                ("0", FINISH, EXPOSED),
                ("1", FINISH, EXPOSED),
            ],
        ),
        (
            lambda text: found(r"sys\[(\d+)\], ([A-Za-z][A-Za-z \-]*): ([-\d\.]+)%?")(text)[:4],
            [
                ("0", "Wall time", FINISH),
                ("0", "GPU time", str(COMPUTED)),
                ("0", "Comm time", COMM),
                ("0", "Total compute-communication overlap", str(COMPUTED)),
            ],
        ),
    ],
    "PeisongZhang/astra-sim llama_experiment/generate_report.py": [
        (found(r"Compute bound percentage:\s*([\d.]+)%"), ["99.980"] * 2),
        (found(r"Average compute utilization:\s*([\d.]+)%"), ["99.980"] * 2),
        (found(r"Average operation intensity:\s*([\d.]+)"), ["4999.000"] * 2),
    ],
    "gkarfakis19/Rapid-LLM astrasim_lib/integration.py": [
        (in_lines(r"sys\[(\d+)\],\s*Wall time:\s*(\d+)"), [("0", FINISH), ("1", FINISH)]),
    ],
    "madhavvyas03/Distributed-training-bottleneck-analyzer-using-AstraSim ollama_analyzer.py": [
        (found(r"sys\[(\d+)\].*?Wall time:\s*([0-9]+)", ANY), [("0", FINISH), ("1", FINISH)]),
        (found(r"sys\[(\d+)\].*?Comm time:\s*([0-9]+)", ANY), [("0", COMM), ("1", COMM)]),
        (
            found(r"sys\[(\d+)\]\s*finished,\s*([0-9]+)\s*cycles,.*?exposed communication\s*([0-9]+)\s*cycles", ANY),
            [
                ("0", FINISH, EXPOSED),
                ("1", FINISH, EXPOSED),
            ],
        ),
    ],
    "shuoshuc/astra-sim-artifacts tools/sweep.py": [
        (lambda text: found(r"finished, (\d+) cycles")(text)[:1], [FINISH]),
    ],
    "jjasoncool/ROCm-ASTRAsim scripts/run_ns3.py": [
        (in_lines(r"\[statistics\].*?sys\[\d+\].*?Wall\s*time:\s*(\d+)", ANY), [(FINISH,), (FINISH,)]),
        (
            in_lines(r"workload.*?sys\[\d+\].*?finished,\s*(\d+)\s*cycles,\s*exposed\s*communication\s*(\d+)\s*cycles", ANY),
            [
                (
                    FINISH,
                    EXPOSED,
                ),
                (
                    FINISH,
                    EXPOSED,
                ),
            ],
        ),
    ],
    "of unknown name": [
        (found(r"\[workload\] \[info\] sys\[(?P<rank>\d+)\] finished,"), ["0", "1"]),
        (
            lambda text: found(r"\[statistics\] \[info\] sys\[(?P<sid>\d+)\], (?P<key>[^:]+):\s*(?P<val>[-\d.]+)%?")(text)[:2],
            [("0", "Wall time", FINISH), ("0", "GPU time", str(COMPUTED))],
        ),
    ],
}


@pytest.mark.parametrize("where", READ)
def test_public_parsers_read_what_is_printed(where: str, output: str) -> None:
    line = re.search(r"sys\[0\] finished, (\d+) cycles", output)
    assert line
    values = {"finish": line[1], "exposed": str(int(line[1]) - COMPUTED), "comm": line[1]}

    def filled(expected: object) -> object:
        if isinstance(expected, tuple):
            return tuple(map(filled, expected))
        return str(expected).format(**values)

    for read, expected in READ[where]:
        assert read(output) == list(map(filled, expected))
