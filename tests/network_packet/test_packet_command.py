"""The packet network through the command `astra`: Garnet's files, deadlock, bad configurations, reports."""

from __future__ import annotations

import csv
import json
import subprocess
from pathlib import Path

import pytest
from support import ROOT, warm

pytest.importorskip("astra_sim_network_packet")

NETWORK = """\
num-npus: {npus}
num-packages: {npus}
package-rows: 1
topology: Torus3D
local-rings: 1
vertical-rings: 1
horizontal-rings: 1
flit-width: 256
package-packet-size: 512
vcs-per-vnet: {vcs}
routing-algorithm: Ring_XY
router-latency: 1
local-link-latency: 5
package-link-latency: 20
buffers-per-vc: {buffers}
"""
SYSTEM = """\
scheduling-policy: LIFO
endpoint-delay: 10
active-chunks-per-dimension: 1
preferred-dataset-splits: 2
boost-mode: 0
all-reduce-implementation: ring_ring_ring
all-gather-implementation: ring_ring_ring
reduce-scatter-implementation: ring_ring_ring
all-to-all-implementation: direct_direct_direct
collective-optimization: localBWAware
"""
WORKLOAD = "MICRO\n1\nlayer -1 5 NONE 0 5 NONE 0 5 {collective} 5\n"
ENGINES = pytest.mark.parametrize("engine", ["python", "compiled"])
FILES = ("--network", "garnet.txt", "--system", "s.txt", "--workload", "w.txt")
EXAMPLES = ROOT / "examples"
RING = "plugin:ring?size=4&links=2&link_bandwidth_gb_per_s=32&link_latency_ns=20"


@pytest.fixture(name="folder")
def folder_fixture(tmp_path: Path) -> Path:
    """A folder with a Garnet network of 4 NPUs, a system, and a workload of one all-reduce."""
    (tmp_path / "garnet.txt").write_text(NETWORK.format(npus=4, vcs=8, buffers=64))
    (tmp_path / "s.txt").write_text(SYSTEM)
    (tmp_path / "w.txt").write_text(WORKLOAD.format(collective="ALLREDUCE 16384"))
    return tmp_path


def astra(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    command = [warm.astra(), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=600)


def needs(engine: str) -> None:
    if engine == "compiled":
        pytest.importorskip("astra_sim_engine")


@ENGINES
def test_garnets_files_run_and_the_finish_counts_the_cycles_before_the_workload(folder: Path, engine: str) -> None:
    needs(engine)
    answers = []
    for collective in ("NONE 0", "ALLREDUCE 16384"):
        (folder / "w.txt").write_text(WORKLOAD.format(collective=collective))
        done = astra(folder, *FILES, "--engine", engine, "--json")
        assert (done.returncode, done.stderr) == (0, "")
        answers.append(json.loads(done.stdout))
    assert answers[0]["finish_ns"] == 13
    # A chunk each way round, of 8192 bytes: 6 messages one after another of 2048 bytes, 64 flits, which take 2 + 2 * 5 + 2 + 20 + 63
    # cycles; the rest is what the system layer does between them.
    assert answers[1]["finish_ns"] == 754 > 13 + 6 * 97
    assert (answers[1]["npus"], answers[1]["messages"]) == (4, 48)


@ENGINES
def test_a_deadlock_ends_the_run_and_names_the_links_that_wait(folder: Path, engine: str) -> None:
    needs(engine)
    (folder / "garnet.txt").write_text(NETWORK.format(npus=8, vcs=1, buffers=1))
    (folder / "w.txt").write_text(WORKLOAD.format(collective="ALLTOALL 1638400"))
    done = astra(folder, *FILES, "--engine", engine)
    assert (done.returncode, done.stdout) == (1, "")
    first, *cycle = done.stderr.splitlines()
    assert "the network is deadlocked" in first
    assert [line.strip() for line in cycle] == [
        f"router {place} to {(place + 1) % 8} of the ring (1 flits) waits for router {(place + 1) % 8} to {(place + 2) % 8} of the ring"
        for place in range(8)
    ]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("buffers-per-vc: 64", "buffers-per-vc: 0"), "garnet.txt:15: buffers-per-vc is '0'; expected a whole number of at least 1"),
        (("vcs-per-vnet: 8", "vcs-per-vnet: 0"), "garnet.txt:10: vcs-per-vnet is '0'; expected a whole number of at least 1"),
        (("package-packet-size: 512", "package-packet-size: 16"), "packet_bytes is 16, less than a flit of 32 bytes"),
    ],
)
def test_bad_garnet_files(folder: Path, change: tuple[str, str], words: str) -> None:
    path = folder / "garnet.txt"
    path.write_text(path.read_text().replace(*change))
    done = astra(folder, *FILES)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("platform", "network", "words"),
    [
        (RING, "buffers=0", "buffers is 0; expected at least 1"),
        (RING, "vcs=0", "vcs is 0; expected at least 1"),
        (RING, "packet_bytes=100", "packet_bytes is 100, less than a flit of 256 bytes"),
        ("plugin:graph?file=links.csv", "vcs=2", "there is no route from NPU"),
    ],
)
def test_bad_configurations(folder: Path, platform: str, network: str, words: str) -> None:
    (folder / "links.csv").write_text("source,target,bandwidth_gb_per_s\n0,left,32\n1,right,32\n")
    done = astra(folder, "--platform", platform, "--network", f"plugin:packet?{network}", *FILES[2:])
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_example_agrees_with_the_network_without_contention() -> None:
    networks = "--network", "plugin:analytical", "--network", "plugin:packet"
    done = astra(EXAMPLES, "compare", "packet_torus.toml", *networks, "--json", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    analytical, packet = (run["finish_ns"] for run in json.loads(done.stdout))
    assert packet == pytest.approx(analytical, rel=0.001)


def test_reports_show_the_load_of_links(folder: Path) -> None:
    done = astra(folder, *FILES, "--output", "out")
    assert (done.returncode, done.stderr) == (0, "")
    with (folder / "out" / "links.csv").open() as file:
        links = list(csv.DictReader(file))
    # A ring each way; every link carries 6 messages of 64 flits of 32 bytes.
    assert [int(link["bytes"]) for link in links] == [384 * 32] * 8
    picture = (folder / "out" / "links.txt").read_text().splitlines()
    assert picture[0].startswith("domain 0: load of links by router, ' ' for none to '@' for 0.5")
    assert picture[1] == "    0  1:@"
    names = {path.name for path in (folder / "out").iterdir()}
    assert {name for name in names if name.startswith("links")} == {"links.csv", "links.txt"}  # a picture would take longer than the run
