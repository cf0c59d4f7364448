"""Damaged files of every sort give one clear error, and nothing is read as something else; limits are named."""

from __future__ import annotations

import gzip
import inspect
import json
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import astra_sim
import attrs
import pytest
from astra_sim import InputError, limits
from astra_sim.collective_tables import read_collectives
from astra_sim.files import csv_rows, csv_table, parse_json, read_packed_text
from astra_sim.results import read_results
from astra_sim.schedule import Collective
from astra_sim.yaml_text import parse_yaml
from astra_sim_chakra import write_nodes
from astra_sim_chakra.doctor import lenient
from astra_sim_chakra.doctor.rank_checks import examine
from astra_sim_chakra.pytorch.host import host_of
from astra_sim_chakra.trace_files import load_trace, read_document
from astra_sim_collectives.msccl_xml import read_algorithm
from astra_sim_compute_gpu.measured_table import read_gemms
from astra_sim_compute_systolic.generate.layers import read_csv
from astra_sim_compute_systolic.scale_sim_files import read_topology
from astra_sim_flows.flow_files import parse_flows
from astra_sim_memory import astra2_file
from astra_sim_platforms.graph import GraphOptions, graph
from astra_sim_platforms.infragraph_file import read_infrastructure
from astra_sim_report.runs import read_timeline
from astra_sim_report.tables import read_table
from astra_sim_sweep.journal import Journal
from support import ROOT
from support.commands import Astra, command
from support.limited import ended
from support.msccl_files import ring_all_reduce
from support.traces import compute

RING = "plugin:ring?size=4&links=2&link_bandwidth_gib_per_s=50&link_latency_ns=500"
COLLECTIVE = "plugin:collective?bytes=65536"


@pytest.fixture
def astra(capsys: pytest.CaptureFixture[str]) -> Astra:
    return command(capsys)


# -- Gzip --------------------------------------------------------------------------------------------------------------

PACKED: dict[str, Callable[[str], Any]] = {
    "a trace": load_trace,
    "a trace as JSON": read_document,
    "text": read_packed_text,
}


@pytest.mark.parametrize("read", PACKED.values(), ids=PACKED)
@pytest.mark.parametrize("damage", ["inside", "cut"])
def test_damaged_gzip_is_named(read: Callable[[str], Any], damage: str, tmp_path: Path) -> None:
    file, random = tmp_path / "x.et.gz", Random(5)
    write_nodes(file, [attrs.evolve(compute(number), name=random.randbytes(40).hex()) for number in range(200)])
    whole = gzip.compress(file.read_bytes())
    file.write_bytes(whole[:10] + b"\xff" * 30 + whole[40:] if damage == "inside" else whole[:-20])
    with pytest.raises(InputError, match=r"x\.et\.gz: the gzip file (is damaged|was cut off)"):
        read(str(file))


@pytest.mark.parametrize("size", [10, 100, -1])
def test_a_damaged_timeline_is_named(size: int, tmp_path: Path) -> None:
    results = astra_sim.simulate(workload=COLLECTIVE, platform=RING)
    (name,) = [path for path in astra_sim.write_reports(results, tmp_path, reports=["timeline"]) if str(path).endswith(".gz")]
    whole = Path(name).read_bytes()
    Path(name).write_bytes(whole[:size] + b"\xff" * 30 if size > 0 else whole[:-20])
    with pytest.raises(InputError, match=r"\.gz: (the gzip file (is damaged|was cut off)|not a timeline of astra)"):
        read_timeline(Path(name))


def test_a_small_packed_file_does_not_become_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "x.json.gz"
    with gzip.open(file, "wb") as packed:
        for _ in range(1 + (limits.MAX_FILE_BYTES >> 20)):
            packed.write(b" " * (1 << 20))
    with pytest.raises(InputError, match=rf"x\.json\.gz: more than {limits.MAX_FILE_BYTES} bytes of content"):
        read_document(str(file))


def test_traces_are_looked_at_up_to_a_number_of_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lenient, "MAX_CHECKED_NODES", 3)
    write_nodes(tmp_path / "t.0.et", [compute(number) for number in range(4)])
    with pytest.raises(InputError, match=r"t\.0\.et: more than 3 nodes are too many to check one by one"):
        lenient.read_loosely(str(tmp_path / "t.0.et"))


# -- CSV ---------------------------------------------------------------------------------------------------------------

LONG = "a" * (limits.MAX_CELL + 1)
TABLES: dict[str, tuple[str, str, Callable[[str, str], Any]]] = {
    "flows": ("src,dst,bytes", "0,1,{}", lambda text, path: parse_flows(text, path, 4)),
    "collectives": ("operation,ranks,bytes,microseconds", "all_reduce,8,{},5", read_collectives),
    "products": ("m,n,k,microseconds", "8,8,8,{}", read_gemms),
    "layers": ("layer,m,n,k", "{},1,2,3", read_csv),
    "topology": ("layer,M,N,K", "{},1,2,3", lambda text, path: read_topology(text, path, gemm=True)),
}


@pytest.mark.parametrize(("heading", "row", "read"), TABLES.values(), ids=TABLES)
def test_a_long_cell_and_a_doubled_column_are_named(heading: str, row: str, read: Callable[[str, str], Any]) -> None:
    with pytest.raises(InputError, match=rf"^t\.csv:2: a cell has more than {limits.MAX_CELL} characters"):
        read(f"{heading}\n{row.format(LONG)}\n", "t.csv")
    last = heading.rpartition(",")[2]
    with pytest.raises(InputError, match=rf"^t\.csv:1: the column '?{last}'? is given twice"):
        read(f"{heading},{last}\n{row.format(1)},1\n", "t.csv")


@pytest.mark.parametrize("name", ["t.csv", "star.csv"])
def test_files_with_a_doubled_column_or_a_long_cell_are_refused(name: str, tmp_path: Path) -> None:
    file = str(tmp_path / name)

    def read() -> Any:
        return graph(GraphOptions(file=file)) if name == "star.csv" else read_table(file)

    Path(file).write_text("source,target,source\n0,1,2\n")
    with pytest.raises(InputError, match=r":1: the column 'source' is given twice"):
        read()
    Path(file).write_text(f"source,target\n0,{LONG}\n")
    with pytest.raises(InputError, match=rf":2: a cell has more than {limits.MAX_CELL} characters"):
        read()


def test_rows_keep_the_numbers_of_their_lines() -> None:
    assert list(csv_rows('# c\n\na, b\n"x\ny",2\n', "t")) == [(3, ["a", "b"]), (5, ["x\ny", "2"])]
    assert list(csv_rows("a\n#1\n \n", "t", plain=True)) == [(1, ["a"]), (2, ["#1"]), (3, [" "])]
    assert list(csv_table("b,a\n1,2\n", "t", ("a",), None)) == [("t:2", {"b": "1", "a": "2"})]


# -- JSON, YAML, XML ---------------------------------------------------------------------------------------------------


def test_whole_numbers_of_many_digits_are_named() -> None:
    digits = "9" * 5000
    with pytest.raises(InputError, match=r"^t: a number has 5000 digits"):
        parse_json(f'{{"a": {digits}}}', "t")
    with pytest.raises(InputError, match=r"^t:1: a value of 5000 characters"):
        parse_yaml(f"a: {digits}", "t", "a file")
    with pytest.raises(InputError, match=r"^t\.csv:2: bytes is '9999"):
        read_collectives(f"operation,ranks,bytes,microseconds\nall_reduce,8,{digits},5\n", "t.csv")
    with pytest.raises(InputError, match=r"^t: a number has 5000 digits"):
        parse_flows(f'{{"src": 0, "dst": 1, "bytes": {digits}}}', "t", 4)


def test_values_of_json_are_counted_before_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("astra_sim.files.MAX_VALUES", 10)
    with pytest.raises(InputError, match=r"^t: more than 10 values in a file of JSON"):
        parse_json("[" + "[]," * 10 + "1]", "t")


@pytest.mark.parametrize("value", ["[]", "{}", "null", "3", '["NO_MEMORY_EXPANSION"]'])
def test_a_memory_type_that_is_no_text_is_named(value: str) -> None:
    with pytest.raises(InputError, match=r"^m.json: memory-type is "):
        astra2_file.read(f'{{"memory-type": {value}}}', "m.json")


@pytest.mark.parametrize("name", [[], {}, 3, None])
def test_names_in_traces_of_pytorch_that_are_no_text_are_named(name: Any) -> None:
    node = {"id": 1, "name": "a", "attrs": [{"name": name, "value": 1}]}
    with pytest.raises(InputError, match=r"^t: node number 0: attrs is .*expected a list of tables with name and value"):
        host_of({"nodes": [node]}, "t")


def test_keys_of_infragraph_that_stand_twice_are_named() -> None:
    with pytest.raises(InputError, match=r"^g\.yaml:5: the key 'count' is given twice"):
        read_infrastructure("devices: []\ninstances:\n- name: a\n  count: 1\n  count: 2\n", "g.yaml")


@pytest.mark.parametrize(("depid", "deps"), [("-1", "0"), ("0", "-1")])
def test_a_step_of_msccl_waits_for_a_step_of_a_thread_block(depid: str, deps: str, tmp_path: Path) -> None:
    file = tmp_path / "a.xml"
    file.write_text(ring_all_reduce(4).replace('depid="-1" deps="-1"', f'depid="{depid}" deps="{deps}"', 1))
    with pytest.raises(InputError, match=rf"a\.xml:\d+: step: depid is {depid} and deps is {deps}; expected a thread block and a step"):
        read_algorithm(str(file))


# -- Read as something else --------------------------------------------------------------------------------------------


def test_columns_of_layers_are_found_by_their_names() -> None:
    (by_name,) = read_csv("name,k,n,m\na,1,2,3\n", "l.csv")
    assert (by_name.shape.gemm.m, by_name.shape.gemm.n, by_name.shape.gemm.k) == (3, 2, 1)
    (product,) = read_topology("Layer name, K, N, M,\na,1,2,3,\n", "t.csv", gemm=True)
    assert (product.shape.gemm.m, product.shape.gemm.n, product.shape.gemm.k) == (3, 2, 1)
    (in_order,) = read_topology("of some other program\na,1,2,3,\n", "t.csv", gemm=True)
    assert (in_order.shape.gemm.m, in_order.shape.gemm.n, in_order.shape.gemm.k) == (1, 2, 3)


@pytest.mark.parametrize("read", [read_csv, lambda text, path: read_topology(text, path, gemm=True)])
def test_a_layer_is_no_heading(read: Callable[[str, str], Any]) -> None:
    with pytest.raises(InputError, match=r"^l\.csv:1: .*expected a heading"):
        read("a,1,2,3\nb,4,5,6\n", "l.csv")


RANKS = "".join(f"#  Rank  {rank} Group  0 Pid 1 on h device  {rank}\n" for rank in range(2))
ROW = "  1024  256  float  sum  -1  10.5  0.10  0.17  0  9.5  0.11  0.18  0\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (RANKS + "#  Rank  1 Group  0 Pid 1 on h device  1\n" + ROW, "t:3: rank 1 is listed again (first in line 2)"),
        (RANKS.replace("Rank  1", "Rank  2") + ROW, "t: 2 ranks are listed, without rank 1"),
        (RANKS + ROW + ROW[:30] + "\n", "t:4: '1024  256  float  sum  -1  1' is no whole row of nccl-tests"),
        (RANKS + ROW.replace("1024", "1o24"), "t:3: '1o24  256"),
        (RANKS + ROW.replace("10.5", "1x.5"), "t:3: '1024  256"),
    ],
)
def test_damaged_output_of_nccl_tests_is_named(text: str, words: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(words)}"):
        read_collectives(text, "t", Collective.ALL_REDUCE)


def test_other_lines_of_nccl_tests_say_nothing() -> None:
    text = RANKS + "nThread 1 nGpus 2\nhost:12:34 [0] NCCL INFO a b c d e f\n" + ROW
    assert [row.bytes for row in read_collectives(text, "t", Collective.ALL_REDUCE)] == [1024]


@pytest.mark.parametrize("name", ["-1", "0.5", "1e3", "+2"])
def test_a_number_that_is_no_npu_is_no_switch(name: str, tmp_path: Path) -> None:
    file = tmp_path / "g.csv"
    file.write_text(f"source,target,bandwidth_gb_per_s\n0,1,5\n0,{name},5\n")
    with pytest.raises(InputError, match=rf"a link joins '{re.escape(name)}'; expected an NPU"):
        graph(GraphOptions(file=str(file)))


def test_what_a_run_refuses_is_an_error_of_the_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> Any:
        raise InputError("t.et: for a reason of its own")

    write_nodes(tmp_path / "t.et", [compute(0)])
    monkeypatch.setattr(lenient, "load_trace", refuse)
    (finding, *others) = examine(lenient.read_loosely(str(tmp_path / "t.et"))).findings
    assert (finding.kind, others) == ("refused", [])
    assert "for a reason of its own" in finding.text


# -- Tables of results -------------------------------------------------------------------------------------------------


def test_a_view_without_an_end_and_text_that_is_none_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = str(tmp_path / "t.sqlite")
    with sqlite3.connect(file) as database:
        database.execute("CREATE VIEW results AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n")
    monkeypatch.setattr("astra_sim_report.tables.MAX_ROWS", 1000)
    with pytest.raises(InputError, match=r"t\.sqlite: its table 'results' has more than 1000 rows"):
        read_table(file)
    with sqlite3.connect(file) as database:
        database.execute("DROP VIEW results")
        database.execute("CREATE TABLE results AS SELECT CAST(x'61ff' AS TEXT) AS a")
    assert list(read_table(file).columns["a"]) == ["a\\xff"]


@pytest.mark.parametrize("figures", ["no json", "[]", "3", b"\xff", "[" * 100_000])
def test_a_row_of_a_journal_that_cannot_be_read_is_told(figures: str | bytes, tmp_path: Path) -> None:
    file = str(tmp_path / "t.journal.sqlite")
    with Journal(file) as journal:
        journal._database.execute("INSERT INTO runs VALUES (?, '{}', ?, NULL, 1)", (b"k", figures))
        with pytest.raises(astra_sim.RunError, match=r"t\.journal\.sqlite: "):
            journal.get(b"k")


# -- Results -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("result")
    results = astra_sim.simulate(ROOT / "examples" / "vgg16_dgx2_pod.toml")
    astra_sim.write_reports(results, folder, reports=())
    table: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return table


@pytest.mark.parametrize(
    ("keys", "value", "words"),
    [
        (["finish_ns"], "1", "r.json: finish_ns: '1' is not a finite number"),
        (["finish_ns"], -1, "finish_ns is -1; expected at least 0"),
        (["npus"], 2.5, "npus: 2.5 is not a whole number"),
        (["layers", 0, "forward"], [], "layers 0: forward: [] is not a table"),
        (["layers", 1, "name"], None, "layers 1: name: None is not text"),
        (["layers", 0, "queueing_delay_ns"], [], "layers 0: queueing_delay_ns has 0 values and network_delay_ns"),
        (["dimensions", 0, "size"], 0, "dimensions 0: size is 0; expected at least 1"),
        (["network", "cost_usd"], "x", "network: cost_usd: 'x' is not"),
        (["wall_s"], float("nan"), "wall_s: nan is not a finite number"),
        (["events"], 10**400, "events: 10^400 is out of range"),
        (["versions", "plugins"], [], "versions: plugins: [] is not a table"),
        (["network", "more"], float("inf"), "network: more is inf; expected a finite number"),
    ],
)
def test_a_changed_value_of_a_result_is_named(
    keys: list[Any], value: Any, words: str, result: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table = json.loads(json.dumps(result))
    place = table
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    Path("r.json").write_text(json.dumps(table))
    with pytest.raises(InputError, match=re.escape(words)):
        read_results("r.json")


def test_names_between_dollar_signs_are_drawn_as_they_are(tmp_path: Path, astra: Astra) -> None:
    results = astra_sim.simulate(workload=COLLECTIVE, platform=RING, run_name="$a_{b$")
    astra_sim.write_reports(results, tmp_path / "r", reports=())
    done = astra("plot", str(tmp_path / "r"), "breakdown", "-o", str(tmp_path / "p.svg"), "--title", r"$\x^$")
    assert (done.status, done.error) == (0, "")


# -- Sizes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [2**power for power in (32, 40, 61)])
@pytest.mark.parametrize("first", ["run", "explain"])
def test_platforms_have_a_limit(size: int, first: str, astra: Astra) -> None:
    done = astra(first, "--workload", COLLECTIVE, "--platform", RING.replace("=4", f"={size}"))
    assert done.status == 2
    assert f"expected at most {limits.MAX_NPUS}" in done.error


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ("--workload", COLLECTIVE, "--platform", RING.replace("=4", "=1048576"), "--set", "system.all_reduce=ring"),
            f"expected at most {limits.MAX_RING} ranks",
        ),
        (
            ("--workload", f"plugin:llm?model=llama3-8b&global_batch={2**32}&tensor_parallel=4", "--platform", RING),
            f"expected at most {limits.MAX_MICRO_BATCHES}",
        ),
    ],
)
def test_sizes_are_refused_at_once(arguments: tuple[str, ...], words: str, astra: Astra) -> None:
    done = astra(*arguments)
    assert done.status == 2
    assert words in done.error


EVENT_NETWORKS = ["flow", "packet", "roce", "analytical?congestion=aware"]


@pytest.mark.parametrize("network", EVENT_NETWORKS)
def test_networks_that_simulate_each_npu_have_a_limit(network: str, astra: Astra) -> None:
    platform = RING.replace("=4", "=1048576").replace("plugin:ring", "plugin:switch").replace("&links=2", "")
    done = astra("--workload", COLLECTIVE, "--platform", platform, "--network", f"plugin:{network}")
    assert done.status == 2
    assert f"1048576 NPUs; expected at most {limits.MAX_EVENT_NPUS}" in done.error


@pytest.mark.parametrize("network", EVENT_NETWORKS)
def test_messages_that_cross_too_many_links_are_refused_at_once(network: str, astra: Astra) -> None:
    algorithm = "system.all_reduce=halving_doubling"
    platform = RING.replace("=4", "=65536")
    done = astra("--workload", COLLECTIVE, "--platform", platform, "--network", f"plugin:{network}", "--set", algorithm)
    assert done.status == 2
    assert f"expected at most {limits.MAX_MESSAGES} crossings" in done.error or "forwarding entry for each NPU" in done.error


def test_too_many_messages_one_by_one_are_refused_at_once(astra: Astra) -> None:
    platform = RING.replace("=4", "=131072")
    done = astra("run", "--workload", COLLECTIVE, "--platform", platform, "--set", "system.all_reduce=ring", "--no-symmetry")
    assert done.status == 2
    assert f"expected at most {limits.MAX_MESSAGES} that are simulated one by one" in done.error


@pytest.mark.parametrize("command", ["run", "explain"])
@pytest.mark.parametrize("size", [1 << 24, 1 << 31])
def test_auto_looks_at_the_largest_ring(command: str, size: int, astra: Astra) -> None:
    done = astra(command, "--workload", COLLECTIVE, "--platform", RING.replace("=4", f"={size}"))
    assert done.status == 0


@pytest.mark.parametrize("engine", ["compiled", "python"])
def test_memory_that_runs_out_in_a_network_is_told_as_such(engine: str, tmp_path: Path) -> None:
    platform = RING.replace("=4", "=4096")
    arguments = ("run", "--workload", COLLECTIVE, "--platform", platform, "--network", "plugin:flow", "--engine", engine, "--json")
    done = ended(tmp_path, *arguments, memory=1 << 27)
    assert done.status == 1
    assert "memory ran out: 4096 of 4096 NPUs are simulated on network FlowNetwork" in done.errors


def test_a_model_has_a_limit_of_layers(astra: Astra, tmp_path: Path) -> None:
    (tmp_path / "w.toml").write_text(
        'plugin = "llm"\nglobal_batch = 4\ntensor_parallel = 4\nmodel = { layers = 1000000000, hidden=8, heads = 4, ffn = 8, vocab = 8 }\n'
    )
    done = astra("--workload", str(tmp_path / "w.toml"), "--platform", RING)
    assert f"layers is 1000000000; expected at most {limits.MAX_LAYERS}" in done.error


def test_every_limit_is_described() -> None:
    """The page of the module in the API reference is made of these texts."""
    source = inspect.getsource(limits)
    names = [name for name in vars(limits) if name.startswith("MAX_")]
    assert len(names) > 10
    assert [name for name in names if not re.search(rf'^{name} = .*\n"""\w', source, re.MULTILINE)] == []
