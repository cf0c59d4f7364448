"""Files of ASTRA-sim's ns-3 back end: config.txt, topologies, logical dimensions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim.errors import InputWarning
from astra_sim_network_roce import logical_dims, ns3_config, ns3_topology
from support.commands import Astra, Done, command

TOPOLOGY = "5 1 4\n4\n0 4 100Gbps 0.001ms 0\n1 4 100Gbps 0.001ms 0\n2 4 100Gbps 0.001ms 0\n3 4 100Gbps 0.001ms 0.5\n"
COLLECTIVE = "plugin:collective?collective=all_reduce&bytes=65536"


@pytest.fixture
def astra(capsys: pytest.CaptureFixture[str]) -> Astra:
    return command(capsys)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "topology.txt").write_text(TOPOLOGY.replace("0.5", "0"))
    path = tmp_path / "config.txt"
    path.write_text("CC_MODE 3\nTOPOLOGY_FILE topology.txt\nRATE_AI 50Mb/s\nLINK_DOWN 0 0 0\nENABLE_QCN 1\nKMIN_MAP 1 100000000000 400\n")
    return path


def test_a_config_is_a_network_and_its_platform(config: Path) -> None:
    read = ns3_config.read(config.read_text(), str(config))
    assert read["platform"] == {"plugin": "ns3_topology", "file": str(config.parent / "topology.txt")}
    assert read["network"] == {
        "plugin": "roce",
        "preset": "reference",
        "congestion_control": "hpcc",
        "rate_ai_mbps": 50.0,
        "link_down": [],
        "ecn": True,
        "ecn_kmin": ["100.0:400.0"],
    }


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("CC_MOD 3", "config.txt:7: unknown key 'CC_MOD'; did you mean 'CC_MODE'"),
        ("CC_MODE 3", "config.txt:7: CC_MODE is given again (first in line 1)"),
        ("HAS_WIN yes", "config.txt:7: HAS_WIN: the value is 'yes'; expected 0 or 1"),
        ("RATE_HAI 50", "config.txt:7: RATE_HAI: the rate is 50; expected a number and a unit"),
        (
            "KMAX_MAP 2 100000000000 1",
            "config.txt:7: KMAX_MAP: '2 100000000000 1'; expected a number of entries",
        ),
        ("BUFFER_SIZE", "config.txt:7: BUFFER_SIZE: 0 values; expected one"),
        ("MI_THRESH 0.5", "config.txt:7: MI_THRESH: the value is '0.5'; expected a whole number"),
    ],
)
def test_what_is_wrong_in_a_config_is_named(line: str, message: str, config: Path, astra: Astra) -> None:
    config.write_text(config.read_text() + line + "\n")
    done = astra("--network", str(config), "--workload", COLLECTIVE)
    assert done.status == 2
    assert message in done.error


def test_a_topology_that_is_not_there_is_an_error(config: Path) -> None:
    (config.parent / "topology.txt").unlink()
    with pytest.raises(astra_sim.InputError, match=r"config.txt:2: TOPOLOGY_FILE is 'topology.txt', which is not there"):
        ns3_config.read(config.read_text(), str(config))


def test_keys_without_effect_are_told(config: Path) -> None:
    with pytest.warns(astra_sim.InputWarning, match="without effect here and in ns-3: PAUSE_TIME, ENABLE_TRACE"):
        ns3_config.read(config.read_text() + "PAUSE_TIME 5\nENABLE_TRACE 1\n", str(config))


def test_output_files_ask_for_reports_or_are_told(config: Path) -> None:
    text = config.read_text() + "FCT_OUTPUT_FILE a/fct.txt\nPFC_OUTPUT_FILE pfc.txt\nQLEN_MON_FILE q.txt\nQLEN_MON_END 20000\n"
    with pytest.warns(astra_sim.InputWarning, match=r"no file for QLEN_MON_FILE, QLEN_MON_END: .*qlen_interval_us"):
        network = ns3_config.read(text, str(config))["network"]
    assert (network["fct"], network["pfc_log"]) == (True, True)


def test_a_topology_keeps_ids_rates_delays_and_losses() -> None:
    parse = ns3_topology.parse("4 1 3\n1\n0 1 10Gbps 2us 0\n2 1 400Gbps 0.0005ms 0.25\n3 1 1Mb/s 1s 0\n", "t.txt")
    assert (parse.size, parse.switches, parse.node_ids) == (3, 1, (0, 2, 3, 1))
    assert parse.links()[:3] == [(0, 3, 1.25, 2000.0, 0.0), (3, 0, 1.25, 2000.0, 0.0), (1, 3, 50.0, 500.0, 0.25)]
    assert (parse.hops(0, 2), parse.links_per_npu()) == (2, 1)


def test_parallel_links_are_kept() -> None:
    parse = ns3_topology.parse("3 1 4\n2\n0 2 1Gbps 1us 0\n0 2 1Gbps 1us 0\n1 2 1Gbps 1us 0\n1 2 1Gbps 1us 0\n", "t.txt")
    assert len(parse.links()) == 8
    assert parse.links_per_npu() == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("5 1\n", "t.txt:1: '5 1'; expected 'nodes switches links'"),
        (TOPOLOGY.replace("\n4\n", "\n5\n", 1), "t.txt:2: '5'; expected the ids of 1 switches, different and below 5"),
        (TOPOLOGY.replace("3 4 100", "4 4 100"), "t.txt:6: a link between 4 and 4; expected two different nodes below 5"),
        (TOPOLOGY.replace("100Gbps", "100Gib", 1), "t.txt:3: the rate is 100Gib; expected a number and a unit"),
        (TOPOLOGY.replace("0.001ms", "1", 1), "t.txt:3: the delay is 1; expected a number and a unit"),
        (TOPOLOGY.replace("0.5", "2"), "t.txt:6: the error rate is '2'; expected a number from 0 to 1"),
        (TOPOLOGY.replace("5 1 4", "5 1 5"), "t.txt: 4 links; expected 5, as in line 1"),
        (TOPOLOGY.replace("5 1 4", "5 1 3"), "t.txt:6: '3 4 100Gbps 0.001ms 0.5'; expected no more than the 3 links of line 1"),
        (TOPOLOGY.replace("3 4 100", "2 4 100"), "t.txt: NPU 3 has no link"),
        (TOPOLOGY.replace(" 0.001ms 0\n", "\n", 1), "t.txt:3: '0 4 100Gbps'; expected 'node node rate delay error'"),
    ],
)
def test_what_is_wrong_in_a_topology_is_named(text: str, message: str) -> None:
    with pytest.raises(astra_sim.InputError) as raised:
        ns3_topology.parse(text, "t.txt")
    assert message in str(raised.value)


def test_files_are_known_by_their_content(config: Path, astra: Astra) -> None:
    topology = str(config.parent / "topology.txt")
    for arguments in (["--network", str(config)], ["--platform", topology, "--network", "plugin:roce"]):
        done = astra(*arguments, "--workload", COLLECTIVE, "--set", "network.ecn=false", "--json")
        assert (done.status, '"npus": 4' in done.out) == (0, True)


def test_a_platform_as_network_is_told(config: Path, astra: Astra) -> None:
    logical = config.parent / "logical.json"
    logical.write_text('{"logical-dims": ["2", "2"]}')
    for path, name in ((config.parent / "topology.txt", "ns3-topology"), (logical, "logical-dims")):
        done = astra("--network", str(path), "--workload", COLLECTIVE)
        assert f"{path}: a platform file ({name}), not a network file; expected --platform {path}" in done.error


def test_logical_dimensions_are_those_of_collectives(config: Path, astra: Astra) -> None:
    logical = config.parent / "logical.json"
    logical.write_text('{"logical-dims": ["2", "2"]}')
    done = astra("--network", str(config), "--set", "network.ecn=false", "--platform", str(logical), "--workload", COLLECTIVE, "--json")
    assert done.status == 0, done.error
    assert done.out.count('"topology": "ns3_topology"') == 2
    logical.write_text('{"logical-dims": ["2", "3"]}')
    done = astra("--network", str(config), "--platform", str(logical), "--workload", COLLECTIVE)
    assert "logical dimensions of 2 x 3 NPUs on a platform of 4; expected at most as many NPUs" in done.error


@pytest.mark.parametrize(
    "text", ['{"logical-dims": []}', '{"logical-dims": ["x"]}', '{"logical-dims": 3}', '{"logical-dims": [1], "a": 2}']
)
def test_logical_dimensions_that_cannot_be_are_errors(text: str) -> None:
    assert logical_dims.recognises(text)
    with pytest.raises(astra_sim.InputError, match=r"l.json: (logical-dims is .*; expected a list of sizes|unknown key 'a')"):
        logical_dims.read(text, "l.json")


def test_a_key_like_that_of_logical_dimensions_is_known() -> None:
    text = '{"logical-dim": ["2"]}'
    assert logical_dims.recognises(text)
    with pytest.raises(astra_sim.InputError, match=r"l.json: unknown key 'logical-dim'; did you mean 'logical-dims'\?"):
        logical_dims.read(text, "l.json")


def test_the_files_of_simai_run_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two servers of three GPUs and a leaf, as its generator writes them.

    Its config.txt has thresholds up to 1600 Gbit/s, and NVLink 2880: switches of servers do not mark. A leaf does need thresholds.
    """
    astra = command(capsys)
    maps = [f"{name}_MAP 2 100000000000 {value} 400000000000 {value}" for name, value in (("KMAX", 30), ("KMIN", 10), ("PMAX", 0.2))]
    monitors = ["BW_MON_FILE bw.txt", "RATE_MON_FILE rate.txt", "CNP_MON_FILE cnp.txt", "MON_START 0", "MON_END 20000"]
    monitors += [f"{name}_MON_INTERVAL 100" for name in ("QP", "QLEN", "BW")]
    (tmp_path / "SimAI.conf").write_text("\n".join(["ENABLE_QCN 1", "CC_MODE 1", *maps, *monitors]) + "\n")
    flows = [(1, 0), (2, 0), (3, 0), (4, 0)]
    (tmp_path / "flows.csv").write_text("\n".join(["src,dst,bytes", *(f"{a},{b},1000000" for a, b in flows)]) + "\n")

    result = "no file for BW_MON_FILE, RATE_MON_FILE, CNP_MON_FILE, MON_START, MON_END, QP_MON_INTERVAL"
    with pytest.warns(InputWarning, match=result):
        ns3_config.read((tmp_path / "SimAI.conf").read_text(), "SimAI.conf")

    def run(leaf: str) -> Done:
        lines = [f"{gpu} {6 + gpu // 3} 2880Gbps 0.000025ms 0" for gpu in range(6)]
        lines += [f"{gpu} 8 {leaf} 0.001ms 0" for gpu in range(6)]
        (tmp_path / "H100_6g").write_text("\n".join(["9 3 2 1 12 H100", "6 7 8 ", *lines]) + "\n")
        files = {"network": "SimAI.conf", "platform": "H100_6g", "flows": "flows.csv"}
        return astra("flows", *(word for kind, file in files.items() for word in (f"--{kind}", str(tmp_path / file))), "--json")

    done = run("100Gbps")
    marked = [flow["marked_acks"] for flow in json.loads(done.out)["flows"]]
    assert marked[:2] == [0, 0]
    assert min(marked[2:]) > 0
    done = run("200Gbps")
    assert (done.status, done.out) == (2, "")
    assert (
        "ecn_kmin has no value for links of 200 Gbit/s, which a switch has (between nodes 8 and 0); it has values for 100, 400"
        in done.error
    )


def test_thresholds_are_asked_for_links_of_the_file_alone(tmp_path: Path, astra: Astra) -> None:
    """NPU 0 has three links, and forwards to NPU 3, which no switch joins to the others: what is within an NPU never marks."""
    (tmp_path / "config.txt").write_text("CC_MODE 1\nTOPOLOGY_FILE t.txt\nENABLE_QCN 1\n" + THRESHOLDS)
    (tmp_path / "flows.csv").write_text("src,dst,bytes\n1,3,1000000\n2,3,1000000\n")
    links = ["0 4 400Gbps 0.001ms 0", "1 4 400Gbps 0.001ms 0", "2 4 400Gbps 0.001ms 0", "0 5 400Gbps 0.001ms 0", "0 3 400Gbps 0.001ms 0"]

    def run(rate: str) -> Done:
        (tmp_path / "t.txt").write_text("\n".join(["6 2 5", "4 5", *links]).replace("2 4 400Gbps", f"2 4 {rate}") + "\n")
        files = ("--network", str(tmp_path / "config.txt"), "--flows", str(tmp_path / "flows.csv"))
        return astra("flows", *files, "--set", "network.npu_forwarding=true", "--json")

    done = run("400Gbps")
    assert done.status == 0, done.error
    assert len(json.loads(done.out)["flows"]) == 2
    done = run("200Gbps")
    assert "ecn_kmin has no value for links of 200 Gbit/s, which a switch has (between nodes 2 and 4)" in done.error


THRESHOLDS = "KMIN_MAP 1 400000000000 400\nKMAX_MAP 1 400000000000 1600\nPMAX_MAP 1 400000000000 0.2\n"


def test_dimensions_of_another_name_are_named(tmp_path: Path) -> None:
    text = '{"physical-dims": ["8", "2"]}'
    assert logical_dims.recognises(text)
    with pytest.raises(astra_sim.InputError, match=r"d\.json: unknown key 'physical-dims'; expected 'logical-dims'"):
        logical_dims.read(text, "d.json")


@pytest.mark.parametrize("network", ["analytical", "analytical?congestion=aware&switching=cut_through", "flow", "packet", "roce"])
def test_a_topology_of_simai_is_held_against_what_its_links_carry(network: str, tmp_path: Path) -> None:
    """Its links have figures of their own, and a share of packets that are lost: the audit looks at them where NVLink is faster."""
    lines = [f"{gpu} {8 + gpu // 4} 2880Gbps 0.000025ms 0" for gpu in range(8)] + [f"{gpu} 10 400Gbps 0.0005ms 0" for gpu in range(8)]
    path = tmp_path / "topology.txt"
    path.write_text("\n".join(["11 4 2 1 16 H100", "8 9 10", *lines]) + "\n")
    workload = "plugin:collective?collective=all_reduce&bytes=1048576"
    run: dict[str, Any] = {"workload": workload, "system": "plugin:astra2?all_reduce=direct", "network": f"plugin:{network}"}
    assert astra_sim.simulate(platform=str(path), **run).audit == []
