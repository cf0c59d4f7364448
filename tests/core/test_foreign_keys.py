"""Every key of another program's file is used, or an error, or named in a warning that says what it would do there."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim import InputError, InputWarning
from astra_sim.collective_tables import read_collectives
from astra_sim.files import parse_json
from astra_sim_collectives import msccl_xml
from astra_sim_compute_systolic.scale_sim_files import read_configuration
from astra_sim_llm import hugging_face_keys
from astra_sim_llm.hugging_face import model_of_table
from astra_sim_memory import astra2_file as memory_file
from astra_sim_network_analytical import astra1_file as network_file
from astra_sim_network_roce import ns3_config
from astra_sim_platforms import nccl_xml
from astra_sim_systems import astra1_file, astra2_file
from support.formats import NETWORK_1, SYSTEM_2

SYSTEM_1 = """scheduling-policy: LIFO
endpoint-delay: 10
preferred-dataset-splits: 4
all-reduce-implementation: {all_reduce}
all-gather-implementation: ring
reduce-scatter-implementation: ring
all-to-all-implementation: ring
{more}
"""
NETWORK_2 = """topology: [ Ring, Switch ]
npus_count: [ 4, 2 ]
bandwidth: [ 50.3, 25.7 ]
latency: [ 500.6, 700.6 ]
"""
CFG = """[general]
run_name = small
[architecture_presets]
ArrayHeight: 8
ArrayWidth: 8
IfmapSramSzkB: 64
FilterSramSzkB: 64
OfmapSramSzkB: 64
IfmapOffset: 0
MemoryBanks: 1
Dataflow: os
Bandwidth: 10
ReadRequestBuffer: 64
[run_presets]
InterfaceBandwidth: CALC
UseRamulatorTrace: False
[layout]
IfmapCustomLayout: False
IfmapSRAMBankNum: 4
[sparsity]
SparsitySupport: false
BlockSize: 8
"""


def system_1(more: str = "", all_reduce: str = "ring") -> dict[str, Any]:
    return astra1_file.read(SYSTEM_1.format(all_reduce=all_reduce, more=more), "s.txt")["system"]


def system_2(**changed: Any) -> dict[str, dict[str, Any]]:
    return astra2_file.read(json.dumps({**SYSTEM_2, **{key.replace("_", "-"): value for key, value in changed.items()}}), "s.json")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"trace_enabled": 1}, "s.json: trace-enabled has no effect: ASTRA-sim would log when each node begins and ends"),
        ({"track_local_mem": 1}, "track-local-mem has no effect: .*the most memory .*local-mem-trace-filename 'local_mem_trace'"),
        ({"track_local_mem": 1, "local_mem_trace_filename": "m"}, "local-mem-trace-filename 'm'"),
        ({"no_such_key": 0}, "s.json: no-such-key is not known, and has no effect"),
    ],
)
def test_keys_of_the_system_file_of_2_that_would_do_something_there(changed: dict[str, Any], words: str) -> None:
    with pytest.warns(InputWarning, match=words):
        system_2(**changed)


def test_values_that_do_nothing_there_are_passed_over() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nothing = {
            "trace_enabled": 0,
            "track_local_mem": 0,
            "local_mem_trace_filename": "m",
            "replay_only": 0,
            "peak_perf": 900,
            "boost_mode": 1,
        }
        assert system_2(**nothing) == system_2()
        assert system_1("boost-mode: 1\nseprate-log: 1\ngap-denominator: 8") == system_1()
        assert network_file.read(json.dumps({**NETWORK_1, "topology-name": "Hierarchical"}), "n.json")
        assert read_configuration(CFG, "s.cfg").name == "small"


def test_replaying_goes_before_the_roofline_as_there() -> None:
    both = system_2(replay_only=1, roofline_enabled=1, peak_perf=900, local_mem_bw=50)
    assert both["compute"] == {"plugin": "recorded"}
    assert both["system"]["replay_only"] is True


def test_a_collective_of_traces_takes_one_prefix_as_there() -> None:
    assert system_2(all_reduce_implementation_custom=["t/ring"])["system"]["all_reduce"] == ["one_chakra?prefix=t/ring"]
    with pytest.raises(InputError, match="expected a list of one path prefix"):
        system_2(all_reduce_implementation_custom=["a", "b"])


@pytest.mark.parametrize(
    ("more", "all_reduce", "named"),
    [
        ("model-shared-bus: 1", "ring", "model-shared-bus"),
        ("inter-dimension-scheduling: offlineGreedy", "ring", "Themis"),
        ("", "oneRing", "one_ring"),
        ("", "doubleBinaryTree", "double_binary_tree"),
    ],
)
def test_boost_mode_is_named_where_it_changes_times(more: str, all_reduce: str, named: str) -> None:
    with pytest.warns(InputWarning, match=f"s.txt: boost-mode is 1: ASTRA-sim would leave out NPUs, .* with {named}"):
        with_it = system_1(f"{more}\nboost-mode: 1", all_reduce)
    assert with_it == system_1(more, all_reduce) == system_1(f"{more}\nboost-mode: 0", all_reduce)


def test_logs_that_would_not_be_written_are_named() -> None:
    with pytest.warns(InputWarning, match="s.txt: seprate-log is 0: ASTRA-sim would write no EndToEnd.csv"):
        assert system_1("seprate-log: 0") == system_1()


def test_a_topology_name_at_which_1_stops_is_named() -> None:
    with pytest.warns(InputWarning, match="n.json: topology-name is 'Torus': ASTRA-sim would stop, since it knows only 'Hierarchical'"):
        network_file.read(json.dumps({**NETWORK_1, "topology-name": "Torus"}), "n.json")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "SparsitySupport: false",
            "SparsitySupport: true",
            "sparsitysupport .*: SCALE-Sim 3 would leave out operations on zeros",
        ),
        ("UseRamulatorTrace: False", "UseRamulatorTrace: True", "take DRAM times from a trace of Ramulator"),
        ("IfmapCustomLayout: False", "IfmapCustomLayout: True", "stall on conflicts of SRAM banks"),
        (
            "MemoryBanks: 1",
            "MemoryBank: 1",
            r"\[architecture_presets\]: memorybank is not known, and has no effect; did you mean 'memorybanks'\?",
        ),
    ],
)
def test_what_only_scale_sim_3_does_is_named(old: str, new: str, words: str) -> None:
    with pytest.warns(InputWarning, match=f"s.cfg: .*{words}"):
        assert read_configuration(CFG.replace(old, new), "s.cfg") == read_configuration(CFG, "s.cfg")


def test_a_key_that_stands_twice_is_an_error(tmp_path: Path) -> None:
    """The last one counts in ASTRA-sim 2.x."""
    for text in ('{"a": 1, "b": {"c": 1, "c": 2}}', '{"c": 1, "a": 2, "c": 1}'):
        with pytest.raises(InputError, match=r"f\.json: the key 'c' is given twice"):
            parse_json(text, "f.json")
    (tmp_path / "g.json").write_text('{"1": [0, 1], "1": [2, 3]}')
    ring = "plugin:ring?size=4&links=2&link_bandwidth_gb_per_s=50"
    with pytest.raises(InputError, match="the key '1' is given twice"):
        astra_sim.simulate(workload="plugin:collective?bytes=1000", platform=ring, groups=tmp_path / "g.json")


def test_npus_without_a_node_of_memory_are_an_error(tmp_path: Path) -> None:
    """ASTRA-sim 2.x reads beyond its lists."""
    keys = {"memory-type": "PER_NODE_MEMORY_EXPANSION", "remote-mem-latency": 100, "remote-mem-bw": 50, "num-npus-per-node": 2}
    first = {"name": "only", "loop": "data"}
    layer = {"name": "only", "forward": {"compute_ns": 10, "remote_read_bytes": 1000}}
    others = {name: {"compute_ns": 10} for name in ("input_gradient", "weight_gradient")}
    choice: dict[str, Any] = {
        "workload": {"plugin": "layers", **first, "layers": [{**layer, **others}]},
        "platform": "plugin:ring?size=6&links=2&link_bandwidth_gb_per_s=50",
    }
    assert memory_file.read(json.dumps({**keys, "num-nodes": 2}), "m.json")["memory"]["nodes"] == 2
    for nodes in (2, 3):
        (tmp_path / "m.json").write_text(json.dumps({**keys, "num-nodes": nodes}))
        if nodes == 3:
            assert astra_sim.simulate(memory=tmp_path / "m.json", **choice).finish_ns > 0
            continue
        with pytest.raises(InputError, match="NPU 4 has no node: nodes is 2, with npus_per_node 2; expected more nodes"):
            astra_sim.simulate(memory=tmp_path / "m.json", **choice)


def test_the_rules_of_a_network_file_that_only_gives_the_platform_are_named(tmp_path: Path) -> None:
    path = tmp_path / "n.yml"
    path.write_text(NETWORK_2)
    choice: dict[str, Any] = {"workload": "plugin:collective?bytes=100001", "system": "plugin:astra2?all_reduce=one_ring"}
    meant = astra_sim.simulate(network=path, **choice).finish_ns
    words = r"n\.yml: only the platform is taken .*: network.rounding=nanosecond_sum, network.accounting_dimension=lowest .--set gives them"
    with pytest.warns(InputWarning, match=words):
        other = astra_sim.simulate(platform=path, **choice).finish_ns
    assert other != meant
    with pytest.warns(InputWarning, match="its network: network.accounting_dimension=lowest .--set"):
        astra_sim.simulate(platform=path, network="plugin:analytical?rounding=nanosecond_sum", **choice)
    options = ["network.rounding=nanosecond_sum", "network.accounting_dimension=lowest"]
    assert astra_sim.simulate(platform=path, set=options, **choice).finish_ns == meant
    experiment = tmp_path / "e.toml"
    experiment.write_text('network = "n.yml"\n[platform]\nfile = "n.yml"\n')
    assert astra_sim.simulate(experiment, **choice).finish_ns == meant


def test_no_rules_are_missed_where_the_network_is_another(tmp_path: Path) -> None:
    (tmp_path / "n.yml").write_text(NETWORK_2)
    (tmp_path / "n.json").write_text(json.dumps(NETWORK_1))
    choice: dict[str, Any] = {"workload": "plugin:collective?bytes=1000"}
    assert astra_sim.simulate(platform=tmp_path / "n.yml", network="plugin:packet?vcs=4", **choice).finish_ns > 0
    assert astra_sim.simulate(platform=tmp_path / "n.json", **choice).finish_ns > 0


CONFIG = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32,
    "vocab_size": 32000, "tie_word_embeddings": False, "architectures": ["LlamaForCausalLM"], "torch_dtype": "bfloat16",
    "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}, "_name_or_path": "a",
}  # fmt: skip


def test_keys_of_a_model_that_have_no_effect_are_passed_over_and_unknown_ones_named() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = model_of_table(CONFIG, "config.json")
    for wrong, words in (
        (
            {"tie_word_embedings": True},
            "config.json: tie_word_embedings is not known, and has no effect; did you mean 'tie_word_embeddings'",
        ),
        ({"num_key_value_head": 8}, "did you mean 'num_key_value_heads'"),
        ({"rope_scaling": {"original_max_position_embedding": 8192}}, "config.json: rope_scaling: original_max_position_embedding is not"),
    ):
        with pytest.warns(InputWarning, match=words):
            model_of_table({**CONFIG, **wrong}, "config.json")
    assert model.sequence == 8192


def test_the_page_lists_the_keys_that_have_no_effect() -> None:
    page = (Path(__file__).parents[2] / "plugins" / "compat" / "KEYS.md").read_text()
    attributes = {key for keys in (*nccl_xml.ATTRIBUTES.values(), *msccl_xml.ATTRIBUTES.values()) for key in keys}
    for names in (hugging_face_keys.WITHOUT_EFFECT, attributes, ns3_config.WITHOUT_EFFECT, ns3_config.OUTPUTS):
        assert {name for name in names if f"`{name}`" not in page} == set()


def test_columns_of_nccl_tests_are_found_by_their_names(tmp_path: Path) -> None:
    """Older versions print no root for some operations."""
    older = "# all_gather_perf\n#  size  count  type  time  algbw  busbw  error\n  1024 256 float 10.5 1 1 0\n"
    assert read_collectives(older, "n.log", ranks=2)[0].microseconds == 10.5
    with (
        pytest.warns(InputWarning, match=r"n\.log:2: column: algwb is not known, and has no effect; did you mean 'algbw'"),
    ):
        read_collectives(older.replace("algbw", "algwb"), "n.log", ranks=2)
    with (
        pytest.warns(InputWarning, match="did you mean 'time'"),
        pytest.raises(InputError, match=r"n\.log:2: the columns are .*; expected time among them"),
    ):
        read_collectives(older.replace("time", "tine"), "n.log", ranks=2)
