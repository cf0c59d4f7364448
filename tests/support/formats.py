"""A file of each format that components are read from."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from astra_sim_chakra.schema import NodeType
from astra_sim_chakra.trace import Node
from astra_sim_chakra.writer import write_nodes
from astra_sim_platforms import examples as platforms
from astra_sim_torch import examples as torch
from astra_sim_xla import examples as xla

from support.roce import clos

SYSTEM_1 = "scheduling-policy: LIFO\nendpoint-delay: 10\npreferred-dataset-splits: 4\n" + "".join(
    f"{kind}-implementation: ring\n" for kind in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
)
SYSTEM_2: dict[str, Any] = {"preferred-dataset-splits": 1} | {
    f"{kind}-implementation": ["ring"] for kind in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
}
NETWORK_1: dict[str, Any] = {
    "dimensions-count": 1,
    "topologies-per-dim": ["Ring"],
    "units-count": [4],
    "links-count": [2],
    "link-latency": [500],
    "link-bandwidth": [50],
}
GARNET = """num-npus: 8
num-packages: 4
package-rows: 2
topology: Torus3D
flit-width: 1024
package-packet-size: 512
"""
SCALE_SIM = """[architecture_presets]
ArrayHeight: 8
ArrayWidth: 8
IfmapSramSzkB: 4
FilterSramSzkB: 4
OfmapSramSzkB: 4
Bandwidth: 10
Dataflow: os
[run_presets]
InterfaceBandwidth: CALC
"""
MEMORY_2 = {"memory-type": "PER_NPU_MEMORY_EXPANSION", "remote-mem-latency": 100, "remote-mem-bw": 50}
WORKLOAD_1 = "DATA\n1\nlayer -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 1024 10\n"
TEXTS = {
    "astra-sim-1-system": SYSTEM_1,
    "astra-sim-1-network": json.dumps(NETWORK_1),
    "astra-sim-2-network": "topology: [ Ring ]\nnpus_count: [ 4 ]\nbandwidth: [ 50 ]\nlatency: [ 500 ]\n",
    "astra-sim-2-memory": json.dumps(MEMORY_2),
    "astra-sim-1-workload": WORKLOAD_1,
    "garnet-network": GARNET,
    "scale-sim-configuration": SCALE_SIM,
    "ns3-topology": clos(2, 1, 4),
    "logical-dims": '{"logical-dims": ["2", "2"]}',
    "htsim-topology": "Nodes 4\nTiers 2\nPodsize 4\n"
    "Tier 0\nDownlink_speed_Gbps 100\nRadix_Down 2\nRadix_Up 2\nDownlink_Latency_ns 10\n"
    "Tier 1\nDownlink_speed_Gbps 100\nRadix_Down 2\nDownlink_Latency_ns 10\n",
}


def samples(folder: Path) -> dict[str, Path]:
    """A file of each format, by its name; files that it names are beside it."""
    result = {}
    for name, text in TEXTS.items():
        result[name] = folder / name
        result[name].write_text(text)
    (options,) = platforms.nccl_topology(folder)[:1]
    result["nccl-topology"] = Path(str(options["file"]))
    (options,) = platforms.infragraph(folder)[:1]
    result["infragraph"] = Path(str(options["file"]))
    (folder / "nodes.yml").write_text("7: ring/a\n")
    result["astra-sim-2-system"] = folder / "system.json"
    result["astra-sim-2-system"].write_text(json.dumps(SYSTEM_2 | {"per-node-custom-implementation": str(folder / "nodes.yml")}))
    (folder / "topology.txt").write_text(clos(2, 1, 4))
    result["ns3-network"] = folder / "config.txt"
    result["ns3-network"].write_text("CC_MODE 12\nTOPOLOGY_FILE topology.txt\n")
    result["chakra"], result["chakra_json"] = folder / "trace", folder / "json"
    write_nodes(folder / "trace.0.et", [Node(id=0, type=NodeType.COMP_NODE)])
    result["chakra_gzip"], result["chakra_json_gzip"] = folder / "zipped", folder / "json_zipped"
    (folder / "zipped.0.et.gz").write_bytes(gzip.compress((folder / "trace.0.et").read_bytes()))
    (folder / "json_zipped.0.json.gz").write_bytes(gzip.compress(b'{"schema": "1.0.2-chakra.0.0.4"}\n'))
    (folder / "json.0.json").write_text('{"schema": "1.0.2-chakra.0.0.4"}\n')
    (options,) = xla.workload(folder)
    result["hlo"] = Path(str(options["path"]))
    (options,) = torch.workload(folder)
    result["torch_capture"] = Path(str(options["path"]))
    return result
