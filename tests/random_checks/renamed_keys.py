"""No key passes in silence: a misspelt one is an error, or a warning names it.

A case takes a file of a format, of another program or our own, misspells one of its keys, and reads it. Keys are where the format has its
names: those of mappings, elements and attributes of XML, names of lines and columns.
"""

from __future__ import annotations

import contextlib
import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import astra_sim
from astra_sim import AstraError
from astra_sim.collective_tables import read_collectives
from astra_sim_collectives.msccl_xml import read_algorithm
from astra_sim_compat.log_configuration import read_log_configuration
from astra_sim_compute_gpu.device import read_device
from astra_sim_compute_gpu.device_file import template
from astra_sim_compute_systolic.scale_sim_files import read_configuration
from astra_sim_llm.hugging_face import model_of_config
from support import msccl_files

IN_TESTS = 60
IN_NIGHTLY = 3000

_IN_JSON, _IN_YAML, _IN_XML = r'"([\w-]+)"(?=\s*:)', r"([\w-]+)(?=\s*:)", r"(?<=<)(\w+)(?=[ />])|(\w+)(?==\")"
_IN_LINES, _IN_TOML = r"^([\w-]+)", r"^([\w.-]+)(?=\s*=)|^\[\[?([\w.-]+)\]"
ROOT = Path(__file__).parents[2]

Reader = Callable[[Path], object]


class Format(NamedTuple):
    """A format: an example, where its keys are, and how it is read."""

    file: str
    text: str
    keys: str
    read: Reader


def check(seed: int, folder: Path) -> list[str]:
    """Misspell a key of an example, and read it."""
    random = Random(seed)
    name = random.choice(sorted(FORMATS))
    form = FORMATS[name]
    (folder / "topology.txt").write_text("3 1 2\n2\n0 2 100Gbps 0.001ms 0\n1 2 100Gbps 0.001ms 0\n")
    match = random.choice(list(re.finditer(form.keys, form.text, re.MULTILINE)))
    place = next(number for number in range(1, len(match.groups()) + 1) if match[number])
    key = match[place]
    wrong = _misspelt(random, key)
    path = folder / form.file
    path.write_text(form.text[: match.start(place)] + wrong + form.text[match.end(place) :])
    if wrong in form.text:
        return []
    with warnings.catch_warnings(record=True) as result:
        warnings.simplefilter("always")
        try:
            form.read(path)
            error = ""
        except AstraError as raised:
            error = str(raised)
    results = [str(each.message) for each in result]
    if path.name in error or any(wrong.lower() in each.lower() for each in (error, *results)):
        return []
    return [f"{name}: {key} as {wrong}: {error or 'it passes in silence'}"]


def _misspelt(random: Random, key: str) -> str:
    """A key with a letter more, less or other, or with two in the wrong order."""
    place = random.randrange(len(key))
    letter = random.choice("aeiostqz")
    kind = random.choice(["more", "less", "other", "swapped"]) if len(key) > 2 else "more"
    if kind == "swapped" and place + 1 < len(key) and key[place] != key[place + 1]:
        return key[:place] + key[place + 1] + key[place] + key[place + 2 :]
    rest = key[place + (kind in ("less", "other")) :]
    return key[:place] + ("" if kind == "less" else letter) + rest


# -- Formats -----------------------------------------------------------------------------------------------------------


def _platform(path: Path) -> object:
    return astra_sim.simulate(platform=path, workload="plugin:collective?bytes=1024", network="plugin:flow")


def _graph(path: Path) -> object:
    return _platform(f"plugin:graph?file={path}")  # type: ignore[arg-type]


def _network(path: Path) -> object:
    return astra_sim.simulate(network=path, workload="plugin:collective?bytes=1024")


def _system(path: Path) -> object:
    return astra_sim.simulate(system=path, **_ON_A_RING)


def _loggers(path: Path) -> object:
    with contextlib.chdir(path.parent):
        configuration = read_log_configuration(path.name)
        configuration.close()
        return configuration


def _memory(path: Path) -> object:
    return astra_sim.simulate(memory=path, **_ON_A_RING)


_ON_A_RING: dict[str, Any] = {
    "platform": "plugin:ring?size=4&links=2&link_bandwidth_gb_per_s=50",
    "workload": "plugin:collective?bytes=1024",
}
_NODE = """<system version="1">
<cpu host_hash="0x1" numaid="0" affinity="ff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
<pci busid="0000:17:00.0" class="0x060400" vendor="0x1000" device="0x1" subsystem_vendor="0x1" subsystem_device="0x1"
link_speed="32 GT/s" link_width="16">
<pci busid="0000:18:00.0" class="0x030200" link_speed="32 GT/s" link_width="16">
<gpu dev="0" sm="90" rank="0" gdr="1"><nvlink target="0000:c1:00.0" count="18" tclass="0x068000"/></gpu></pci>
<pci busid="0000:19:00.0" class="0x030200" link_speed="32 GT/s" link_width="16">
<gpu dev="1" sm="90" rank="1" gdr="1"><nvlink target="0000:c1:00.0" count="18" tclass="0x068000"/></gpu></pci>
<nic><net name="mlx5_0" dev="0" latency="0.0" speed="400000" port="1" guid="0x1" maxconn="131072" gdr="1" coll="1"/></nic>
</pci></cpu></system>
"""
_MODEL = {
    "architectures": ["MixtralForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu",
    "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336, "max_position_embeddings": 32768, "model_type": "mixtral",
    "num_attention_heads": 32, "num_experts_per_tok": 2, "num_hidden_layers": 32, "num_key_value_heads": 8, "num_local_experts": 8,
    "output_router_logits": False, "rms_norm_eps": 1e-05, "rope_theta": 1000000.0, "router_aux_loss_coef": 0.02, "sliding_window": None,
    "rope_scaling": {"factor": 8.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"}, "tie_word_embeddings": False,
    "torch_dtype": "bfloat16", "transformers_version": "4.36.0", "use_cache": True, "vocab_size": 32000,
}  # fmt: skip
_SCALE_SIM = """[general]
run_name = small
[architecture_presets]
ArrayHeight: 8
ArrayWidth: 8
IfmapSramSzkB: 64
FilterSramSzkB: 64
OfmapSramSzkB: 64
IfmapOffset: 0
Dataflow: os
Bandwidth: 10
[run_presets]
InterfaceBandwidth: CALC
[layout]
IfmapCustomLayout: False
[sparsity]
SparsitySupport: false
"""
_NCCL_TESTS = """# Collective test starting: all_reduce_perf
# nThread 1 nGpus 2 minBytes 1024 maxBytes 4096 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid   4000 on      host device  0 [0x17] NVIDIA H100
#  Rank  1 Group  0 Pid   4000 on      host device  1 [0x18] NVIDIA H100
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
        1024           256     float     sum      -1    10.12    0.10    0.10      0     9.98    0.10    0.10      0
        4096          1024     float     sum      -1    12.12    0.34    0.34      0    11.98    0.34    0.34      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 0.2
"""
_SYSTEM_1 = """scheduling-policy: LIFO
endpoint-delay: 10
active-chunks-per-dimension: 1
preferred-dataset-splits: 4
boost-mode: 0
all-reduce-implementation: ring
all-gather-implementation: ring
reduce-scatter-implementation: ring
all-to-all-implementation: direct
collective-optimization: localBWAware
"""
_SYSTEM_2 = {
    "scheduling-policy": "LIFO", "endpoint-delay": 10, "active-chunks-per-dimension": 1, "preferred-dataset-splits": 1, "boost-mode": 0,
    **{f"{kind}-implementation": ["ring"] for kind in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")},
    "collective-optimization": "localBWAware", "local-mem-bw": 50, "trace-enabled": 0, "roofline-enabled": 0, "peak-perf": 900,
}  # fmt: skip
_NETWORK_1 = {
    "topology-name": "Hierarchical", "dimensions-count": 1, "topologies-per-dim": ["Ring"], "dimension-type": ["N"], "units-count": [4],
    "links-count": [2], "link-latency": [500], "link-bandwidth": [50], "nic-latency": [0], "router-latency": [0], "hbm-latency": [0],
    "hbm-bandwidth": [370], "hbm-scale": [0],
}  # fmt: skip
_MEMORY = {
    "memory-type": "PER_NODE_MEMORY_EXPANSION",
    "remote-mem-latency": 100,
    "remote-mem-bw": 50,
    "num-nodes": 2,
    "num-npus-per-node": 2,
}
_GARNET = """num-npus: 8
num-packages: 4
package-rows: 2
topology: Torus3D
local-rings: 1
vertical-rings: 1
horizontal-rings: 1
flit-width: 128
local-packet-size: 512
package-packet-size: 256
tile-link-width: 256
package-link-width: 256
vcs-per-vnet: 4
routing-algorithm: Ring_XY
router-latency: 1
local-link-latency: 1
package-link-latency: 1
buffers-per-vc: 8
local-link-efficiency: 1
package-link-efficiency: 1
"""
_HTSIM = """Nodes 8
Tiers 2
Podsize 8
Tier 0
Downlink_speed_Gbps 100
Radix_Down 4
Radix_Up 2
Downlink_Latency_ns 1000
Switch_Latency_ns 50
Oversubscribed 2
Tier 1
Downlink_speed_Gbps 100
Radix_Down 2
Downlink_Latency_ns 700
Switch_Latency_ns 90
"""
_NS3 = """ENABLE_QCN 1
CC_MODE 3
PACKET_PAYLOAD_SIZE 1000
TOPOLOGY_FILE topology.txt
RATE_AI 50Mb/s
HAS_WIN 1
BUFFER_SIZE 32
LINK_DOWN 0 0 0
KMIN_MAP 1 100000000000 400
PAUSE_TIME 5
TRACE_OUTPUT_FILE mix.tr
"""
_LOG = """[[sink]]
name = "file"
type = "rotating_file_sink_mt"
level = "info"
base_filename = "log.txt"
max_size = "10M"
max_files = 3
create_parent_dir = true
[[logger]]
name = "workload"
sinks = ["file"]
level = "debug"
"""
_LINKS = """[[links]]
source = "0"
target = "sw"
bandwidth_gb_per_s = 50
latency_ns = 500
both_ways = true
[[links]]
source = "1"
target = "sw"
bandwidth_gib_per_s = 40
latency_ns = 500
"""

FORMATS = {
    "InfraGraph": Format("g.yaml", re.sub(r"#.*", "", (ROOT / "examples/platforms/infragraph_pod.yaml").read_text()), _IN_YAML, _platform),
    "NCCL topology": Format("n.xml", _NODE, _IN_XML, _platform),
    "MSCCL": Format("a.xml", msccl_files.ring_all_reduce(3), _IN_XML, lambda path: read_algorithm(str(path))),
    "Hugging Face": Format("config.json", json.dumps(_MODEL, indent=1), _IN_JSON, model_of_config),
    "SCALE-Sim": Format(
        "s.cfg", _SCALE_SIM, r"^\[(\w+)\]|^(\w+)(?=\s*[:=])", lambda path: read_configuration(path.read_text(), str(path))
    ),
    "nccl-tests": Format(
        "n.log", _NCCL_TESTS, r"^#\s+(Rank)|(?<=\s)(size|count|type|redop|root|time|algbw|busbw)(?=\s)",
        lambda path: read_collectives(path.read_text(), str(path)),
    ),
    "collectives in CSV": Format(
        "n.csv", "operation,ranks,bytes,microseconds\nall_reduce,2,1024,10\n", r"(operation|ranks|bytes|microseconds)",
        lambda path: read_collectives(path.read_text(), str(path)),
    ),
    "system of 1.0": Format("s.txt", _SYSTEM_1, _IN_LINES, _system),
    "system of 2.x": Format("s.json", json.dumps(_SYSTEM_2, indent=1), _IN_JSON, _system),
    "network of 1.0": Format("n.json", json.dumps(_NETWORK_1, indent=1), _IN_JSON, _network),
    "network of 2.x": Format(
        "n.yml", "topology: [ Ring ]\nnpus_count: [ 4 ]\nbandwidth: [ 50.0 ]\nlatency: [ 500.0 ]\n", _IN_YAML, _network
    ),
    "network of Garnet": Format("g.txt", _GARNET, _IN_LINES, _network),
    "memory of 2.x": Format("m.json", json.dumps(_MEMORY, indent=1), _IN_JSON, _memory),
    "HTSim": Format("t.topo", _HTSIM, _IN_LINES, _platform),
    "ns-3": Format("config.txt", _NS3, _IN_LINES, _network),
    "loggers": Format("log.toml", _LOG, _IN_TOML, _loggers),
    "graph": Format("links.toml", _LINKS, _IN_TOML, _graph),
    "graph in CSV": Format(
        "links.csv", "source,target,bandwidth_gb_per_s,latency_ns,both_ways\n0,1,50,500,true\n",
        r"(source|target|bandwidth_gb_per_s|latency_ns|both_ways)", _graph,
    ),
    "device": Format("d.toml", template("h100", whole=True), _IN_TOML, lambda path: read_device(str(path))),
}  # fmt: skip
"""By name."""
