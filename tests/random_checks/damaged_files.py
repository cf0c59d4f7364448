# ruff: noqa: E501
"""A damaged file of any format that is read: the command that reads it ends well or with a clear error, in little time and memory."""

from __future__ import annotations

import gzip
import json
import tempfile
from functools import cache
from pathlib import Path
from random import Random

from astra_sim.commands import shared_plugins
from support import formats, msccl_files, traces
from support.damage import damaged
from support.limited import ended
from support.pytorch_traces import training_step

IN_TESTS = 40
IN_NIGHTLY = 3000

_FIGURES = "link_bandwidth_gib_per_s=50&link_latency_ns=500"
_RING = f"plugin:ring?size=4&links=2&{_FIGURES}"
_COLLECTIVE = ("--workload", "plugin:collective?bytes=1048576")
_ON_RING = ("--platform", _RING)
_TEXTS = {
    "e.toml": 'workload = "w.toml"\nplatform = "p.toml"\nnetwork = "plugin:analytical"\n[system]\nplugin = "astra2"\nsplits = 2\n[run]\npasses = 2\n',
    "w.toml": 'plugin = "layers"\nloop = "data"\n[[layers]]\nname = "a"\nforward = { compute_ns = 10 }\n'
    'weight_gradient = { compute_ns = 30, collective = "all_reduce", collective_bytes = 4096 }\n',
    "p.toml": '[[dimensions]]\ntopology = "ring"\nsize = 4\nlinks = 2\nlink_bandwidth_gib_per_s = 50\nlink_latency_ns = 500\n',
    "s.toml": '[base]\nexperiment = "e.toml"\n[axes]\n"system.splits" = [1, 2]\n',
    "search.toml": '[base]\nexperiment = "e.toml"\n[axes]\n"system.splits" = [1, 2]\n[search]\nminimize = "finish_ns"\nsampler = "random"\ntrials = 2\n',
    "b.toml": '[[expect]]\nexperiment = "e.toml"\ncheck = "finish_ns < 1e9"\n',
    "layers.csv": "Layer,m,n,k,parallelisation\nfirst,64,32,16,DATA\nsecond,64,48,32,MODEL\n",
    "model.toml": '[parameters]\nwidth = 64\n[[layers]]\nname = "first"\ngemm = { m = 64, n = "width", k = "2 * width" }\n',
    "topology.csv": "Layer, M, N, K,\none, 10, 20, 30,\ntwo, 4, 5, 6,\n",
    "convolutions.csv": "Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,\na, 9, 9, 3, 3, 4, 8, 1,\n",
    "device.toml": 'based_on = "h100"\nmemory_bandwidth_gb_per_s = 3000\n[peak_tera_ops_per_s]\nbf16 = 900\n',
    "nccl.toml": 'title = "t"\ncalibrated = true\n[[fits]]\noperation = "all_reduce"\nranks = 8\nbytes = [8, 1024, 65536]\n'
    "microseconds = [10.0, 12.0, 30.0]\n",
    "nccl.txt": "# nThread 1 nGpus 2 minBytes 8 maxBytes 32 all_reduce_perf\n#  Rank  0 Group  0 Pid 1 on a device  0\n#  Rank  1 Group  0 Pid 1 on a device  1\n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
    + "".join(f"  {8 << n}  {2 << n}  float  sum  -1  {10 + n}.5  0.1  0.2  0  9.5  0.1  0.2  0\n" for n in range(12)),
    "collectives.csv": "operation,ranks,bytes,microseconds\n" + "".join(f"all_reduce,4,{8 << n},{10 + n}.5\n" for n in range(12)),
    "gemm.csv": "m,n,k,microseconds\n" + "".join(f"{256 * n},{128 * n},512,{10 * n}.5\n" for n in range(1, 16)),
    "attention.csv": "heads,query_length,key_length,head_size,causal,microseconds\n" + "".join(f"8,{128 * n},{128 * n},128,1,{10 * n}.5\n" for n in range(1, 12)),
    "star.csv": "source,target,bandwidth_gb_per_s,latency_ns\n0,switch,50,500\n1,switch,50,500\n2,switch,50,500\n0,1,100,250\n",
    "star.toml": "".join(f'[[links]]\nsource = {n}\ntarget = "switch"\nbandwidth_gb_per_s = 50\nlatency_ns = 500\n' for n in range(3)),
    "flows.csv": "id,src,dst,bytes,start_ns,after\na,0,1,1000,0,\nb,1,2,1000,5,a\n",
    "flows.jsonl": '{"id": 7, "src": 0, "dst": 1, "bytes": 1000}\n{"src": 1, "dst": 2, "bytes": 1000, "after": [7]}\n',
    "permutation.txt": "1 2 3 0\n",
    "groups.json": '{"1": [0, 1], "2": [2, 3]}',
    "groups.toml": "1 = [0, 1]\n2 = [2, 3]\n",
    "ring.xml": msccl_files.ring_all_reduce(4),
    "graph.dot": "digraph taskgraph {\n"
    'node0 [label="{device_id=0|Dense_100|Forward|COMP_NODE|simulated_run_time=2e-5}",shape=record];\n'
    'node2 [label="{device_id=1|Comm|Comm|COMM_SEND_RECV_NODE|src_device_id=0|dst_device_id=1|comm_size=40|run_time=4e-08}",shape=record];\n'
    "node0 -> node2;\n}\n",
    "month.toml": '[goodput]\nnodes = 4\ngpus_per_node = 8\nrates = "llama3"\ndays = 30\nstep_s = 5\n[goodput.checkpoint]\n'
    'levels = [{ name = "memory", write_s = 1, recovers = 0.9, load_s = 5 }, { name = "store", write_s = 10, load_s = 60, every = 10 }]\n'
    "[goodput.recovery]\ndetect_s = 60\nreplace_s = 120\nspares = 2\nrepair_h = 48\n",
    "faults.toml": '[goodput]\nnodes = 2\ngpus_per_node = 2\nrates = "llama3"\ndays = 30\nexperiment = "step.toml"\n[goodput.checkpoint]\n'
    'levels = [{ name = "store", write_s = 10, load_s = 60 }]\n[goodput.recovery]\ndetect_s = 60\nreplace_s = 120\n[[goodput.faults]]\n'
    'name = "link"\nparts = 4\nrate = 5e-5\nrepair_h = 8\nwithout = { links = [[0, 1]] }\n[[goodput.correlated]]\nname = "power"\nnodes = 2\nmtbf_days = 200\n',
    "often.toml": '[goodput]\nnodes = 2\ngpus_per_node = 2\nintervals = "hours.txt"\ndays = 30\nstep_s = 5\n[goodput.checkpoint]\n'
    'levels = [{ name = "store", write_s = 10, load_s = 60 }]\n[goodput.recovery]\ndetect_s = 60\nreplace_s = 120\n',
    "hours.txt": "1.5\n20\n3\n",
    "step.toml": 'workload = "plugin:collective?bytes=1048576"\nplatform = "p.toml"\nnetwork = "plugin:flow"\n',
    "sample.toml": 'workload = "w.toml"\nplatform = "p.toml"\nnetwork = "plugin:flow"\n[variation]\nseed = 7\nnoise_classes = 2\n'
    'compute = [{ ranks = "1", factor = 1.5 }, { distribution = "empirical", file = "factors.txt", scope = "operation" }]\n'
    'links = [{ from = 0, to = 1, bandwidth = 0.25, latency = 2.0 }]\npauses = [{ ranks = "0-2", every_ns = 1000, lasts_ns = 50, phase = "random" }]\n'
    "[energy]\nidle_w = 100\ncompute_w = 650\nhost_w = 1500\nnpus_per_node = 2\n[cost]\ngpu_hour_usd = 2.5\n",
    "factors.txt": "1.0\n1.5\n0.9\n",
    "jobs.toml": 'platform = "plugin:switch?size=8&link_bandwidth_gb_per_s=50&link_latency_ns=500"\nnetwork = "plugin:flow"\n[[jobs]]\nname = "a"\n'
    'workload = "w.toml"\nranks = "0:4"\n[[jobs]]\nname = "b"\nworkload = "w.toml"\nnpus = 4\nplacement = "random?seed=1"\nstart_ns = 50\npasses = 2\n',
    "cluster.toml": 'platform = "plugin:switch?size=8&link_bandwidth_gb_per_s=50&link_latency_ns=500"\nnetwork = "plugin:flow"\n[schedule]\n'
    'trace = "helios.csv"\nqueue = "backfill"\nplacement = "racks?npus=4"\nnpus_per_rack = 4\nworkload = "plugin:collective?bytes=1048576"\n',
    "shortest.toml": 'platform = "plugin:switch?size=8&link_bandwidth_gb_per_s=50&link_latency_ns=500"\n[schedule]\ntrace = "philly.json"\nqueue = "shortest"\n'
    'workload = "plugin:collective?bytes=1048576"\n',
    "helios.csv": "job_id,user,vc,gpu_num,state,submit_time,duration\n"
    + "".join(f"{n},u,v,{1 + n % 4},COMPLETED,2020-06-09 18:{10 + n}:27,{100 * n}\n" for n in range(1, 9)),
    "philly.json": json.dumps(
        [
            {
                "status": "Pass", "vc": "v", "jobid": str(n), "submitted_time": f"2017-10-07 01:1{n}:00", "user": "u",
                "attempts": [{"start_time": f"2017-10-07 01:2{n}:06", "end_time": f"2017-10-07 02:{n}7:06", "detail": [{"ip": "m1", "gpus": ["g0", "g1"]}]}],
            }
            for n in range(4)
        ]
    ),
    "several.csv": "operation,ranks,nodes,bytes,microseconds\n" + "".join(f"all_reduce,16,2,{8 << n},{100 + n * n}.5\n" for n in range(24)),
    "iterations.csv": "experiment,seconds\nstep.toml,0.001\n",
    "requests.jsonl": "".join(f'{{"timestamp": {100 * n}, "input_length": {100 + n}, "output_length": {2 + n}, "hash_ids": [0, {n}]}}\n' for n in range(4)),
    "serve.toml": "[serving]\nmax_batched_tokens = 64\nkv_blocks = 100\n[serving.model]\n"
    "dimensions = { layers = 2, hidden = 64, heads = 4, ffn = 128, vocab = 1000 }\n[serving.requests]\narrival = \"poisson\"\nrate = 100\ncount = 6\n"
    'input = { distribution = "lognormal", mean = 30, sigma = 0.8, maximum = 80 }\noutput = 3\n[serving.slo]\nttft_ms = 20\n[compute]\ntables = "kernels.jsonl"\n',
    "kernels.jsonl": (Path(__file__).parents[2] / "examples/serving/by_hand_kernels.jsonl").read_text(),
    "replay.toml": "[serving]\nmax_batched_tokens = 64\nkv_blocks = 100\n[serving.model]\n"
    "dimensions = { layers = 2, hidden = 64, heads = 4, ffn = 128, vocab = 1000 }\n[serving.requests]\ntrace = \"requests.jsonl\"\n"
    '[compute]\ntables = "kernels.jsonl"\n',
    "config.json": json.dumps(
        {
            "model_type": "llama", "hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 8,
            "num_key_value_heads": 4, "max_position_embeddings": 2048, "vocab_size": 32000, "tie_word_embeddings": False,
        }
    ),
}  # fmt: skip
_OF_KIND = {
    "workload": (*_ON_RING, "--workload"),
    "system": (*_COLLECTIVE, *_ON_RING, "--system"),
    "platform": (*_COLLECTIVE, "--platform"),
    "network": (*_COLLECTIVE, "--network"),
    "compute": (*_ON_RING, "--workload", "plugin:collective?bytes=1000", "--compute"),
    "memory": (*_COLLECTIVE, *_ON_RING, "--memory"),
}
_ON_STAR = (*_COLLECTIVE, "--network", "plugin:flow", "--platform")
_LLM = ("memory", "--workload")
_TRACE = "plugin:chakra?prefix="
_SYSTOLIC = ("systolic", "--config", "scale-sim-configuration", "--topology")
_GENERATE = ("generate", "--parallel", "DATA", "--npus", "4", "--batch", "8")
_CALIBRATE = ("-o", "new.toml")
_LINE = ("line", "--x", "system.splits", "--y", "finish_ns", "-o", "new.svg")
_COMMANDS: dict[str, list[tuple[str, ...]]] = {
    "e.toml": [("run", "e.toml"), ("compare", "e.toml", "--set", "system.splits=1", "--set", "system.splits=2"), ("explain", "e.toml")],
    "w.toml": [("run", "e.toml"), ("convert", "w.toml", "new.txt")],
    "p.toml": [("run", "e.toml"), ("collective", "--platform", "p.toml", "--sizes", "1K")],
    "s.toml": [("sweep", "s.toml", "--jobs", "1", "-o", "new.csv")],
    "search.toml": [("search", "search.toml", "--jobs", "1", "-o", "new.csv")],
    "b.toml": [("assert", "b.toml")],
    "layers.csv": [(*_GENERATE[:-2], "--layers", "layers.csv"), ("generate", "--layers", "layers.csv", "--parallel", "HYBRID_CUSTOMIZED", "--npus", "4")],
    "model.toml": [(*_GENERATE, "--model", "model.toml")],
    "topology.csv": [(*_SYSTOLIC, "topology.csv", "--gemm")],
    "convolutions.csv": [(*_SYSTOLIC, "convolutions.csv")],
    "device.toml": [("device", "device.toml"), ("--workload", "plugin:llm?model=llama3-8b&tensor_parallel=4&global_batch=4", *_ON_RING, "--compute", "plugin:gpu?device=device.toml")],
    "nccl.toml": [(*_COLLECTIVE, "--platform", "plugin:dgx_h100", "--network", "plugin:analytical?model=nccl&parameters=nccl.toml")],
    "nccl.txt": [("calibrate", "collective", "nccl.txt", *_CALIBRATE), ("collective", *_ON_RING, "--ranks", "2", "--measured", "nccl.txt")],
    "collectives.csv": [("calibrate", "collective", "collectives.csv", *_CALIBRATE), ("collective", *_ON_RING, "--measured", "collectives.csv")],
    "gemm.csv": [("calibrate", "gemm", "gemm.csv", "--device", "h100", *_CALIBRATE)],
    "attention.csv": [("calibrate", "attention", "attention.csv", "--device", "h100", *_CALIBRATE)],
    "star.csv": [(*_COLLECTIVE, "--network", "plugin:flow", "--platform", "plugin:graph?file=star.csv")],
    "star.toml": [(*_COLLECTIVE, "--network", "plugin:flow", "--platform", "plugin:graph?file=star.toml")],
    "flows.csv": [("flows", "--flows", "flows.csv", *_ON_RING)],
    "flows.jsonl": [("flows", "--flows", "flows.jsonl", *_ON_RING)],
    "permutation.txt": [("traffic", *_ON_RING, "--pattern", "permutation", "--permutation", "permutation.txt", "--rate", "0.1")],
    "groups.json": [("--workload", f"{_TRACE}pipeline", *_ON_RING, "--groups", "groups.json"), ("trace", "check", "pipeline", "--groups", "groups.json")],
    "groups.toml": [("--workload", f"{_TRACE}pipeline", *_ON_RING, "--groups", "groups.toml")],
    "ring.xml": [(*_COLLECTIVE, *_ON_RING, "--system", "plugin:astra2", "--set", "system.all_reduce=msccl?file=ring.xml")],
    "config.json": [("memory", *_ON_RING, "--workload", "plugin:llm?model=config.json&tensor_parallel=4&global_batch=4", "--compute", "plugin:gpu?device=h100")],
    "month.toml": [("goodput", "month.toml", "--seeds", "3"), ("goodput", "month.toml", "--json"), ("goodput", "month.toml", "--seeds", "2", "--progress", "new.csv")],
    "faults.toml": [("goodput", "faults.toml")],
    "often.toml": [("goodput", "often.toml", "--seeds", "3")],
    "hours.txt": [("goodput", "often.toml", "--seeds", "3")],
    "step.toml": [("goodput", "faults.toml"), ("run", "step.toml", "--set", "platform.without.links=0:1")],
    "sample.toml": [("sample", "sample.toml", "--seeds", "3"), ("run", "sample.toml"), ("sample", "sample.toml", "--seeds", "2", "--blame-ranks", "2")],
    "factors.txt": [("sample", "sample.toml", "--seeds", "3")],
    "jobs.toml": [("jobs", "jobs.toml"), ("jobs", "jobs.toml", "--alone", "--without", "a"), ("jobs", "jobs.toml", "--link-figures", "--set", "network.plugin=analytical", "--set", "network.congestion=aware")],
    "cluster.toml": [("jobs", "cluster.toml"), ("jobs", "cluster.toml", "--at", "600s")],
    "shortest.toml": [("jobs", "shortest.toml")],
    "helios.csv": [("jobs", "cluster.toml")],
    "philly.json": [("jobs", "shortest.toml")],
    "several.csv": [("calibrate", "cluster", "--machine", "dgx_h100", "--nccl-tests", "several.csv", *_CALIBRATE)],
    "iterations.csv": [("calibrate", "cluster", "--machine", "dgx_h100", "--iterations", "iterations.csv", *_CALIBRATE)],
    "requests.jsonl": [("serve", "replay.toml")],
    "serve.toml": [("serve", "serve.toml"), ("serve", "serve.toml", "--json"), ("serve", "serve.toml", "--per-request", "new.csv")],
    "kernels.jsonl": [("serve", "serve.toml")],
    "replay.toml": [("serve", "replay.toml")],
    "trace.0.et": [
        ("--workload", f"{_TRACE}trace", *_ON_RING), ("trace", "check", "trace"), ("trace", "stats", "trace"), ("trace", "repair", "trace", "-o", "new"),
        ("trace", "scale", "trace", "-o", "new", "--npus", "8"), ("convert", "trace.et", "new.json"),
    ],
    "zipped.0.et.gz": [("--workload", f"{_TRACE}zipped", *_ON_RING), ("trace", "check", "zipped.et.gz"), ("convert", "zipped.et.gz", "new.json")],
    "traces.0.json": [("--workload", f"{_TRACE}traces", *_ON_RING), ("trace", "check", "traces.json"), ("convert", "traces.0.json", "new.et")],
    "jsons.0.json.gz": [("--workload", f"{_TRACE}jsons", *_ON_RING), ("trace", "check", "jsons.json.gz"), ("trace", "stats", "jsons.json.gz")],
    "et.0.json": [("trace", "link", "et.0.json", "kineto.0.json"), ("trace", "check", "et.0.json")],
    "kineto.0.json": [("trace", "link", "et.0.json", "kineto.0.json"), ("convert", "et.0.json", "new.et", "--from", "pytorch", "--kineto", "kineto.0.json")],
    "kineto.0.json.gz": [("trace", "link", "et.0.json", "kineto.0.json.gz")],
    "graph.dot": [("convert", "graph.dot", "new.et")],
    "t.csv": [("plot", "t.csv", *_LINE), ("report", "t.csv", "-o", "new.html"), ("plot", "t.csv", "heat", "--x", "system.splits", "--y", "finish_ns", "--hue", "finish_ns", "-o", "new.pdf")],
    "q.sqlite": [("plot", "q.sqlite", *_LINE), ("report", "q.sqlite", "-o", "new.html")],
    "p.parquet": [("report", "p.parquet", "-o", "new.html")],
    "t.journal.sqlite": [("sweep", "s.toml", "--jobs", "1", "-o", "t.csv", "--resume")],
    "u.study.log": [("search", "search.toml", "--jobs", "1", "-o", "u.csv", "--resume")],
    "u.journal.sqlite": [("search", "search.toml", "--jobs", "1", "-o", "u.csv", "--resume")],
    "f/flows.csv": [("plot", "f", "fct", "-o", "new.svg"), ("plot", "f", "slowdown", "-o", "new.svg")],
    "f/qlen.csv": [("plot", "f", "queues", "-o", "new.svg")],
    "o/e_timeline.pftrace.gz": [("report", "o", "-o", "new.html"), ("plot", "o", "utilisation", "-o", "new.svg")],
    "o/links.csv": [("report", "o", "-o", "new.html"), ("plot", "o", "links", "-o", "new.svg")],
    "o/e_dimension_utilization.csv": [("plot", "o", "utilisation", "-o", "new.svg")],
}  # fmt: skip
"""Commands that read a file, by its name; those that read one of a format are in `_commands`."""


@cache
def _commands() -> dict[str, list[tuple[str, ...]]]:
    result = dict(_COMMANDS)
    for name, each in shared_plugins().components("format").items():
        if not each.first_file:
            result[name] = [(*_OF_KIND[kind], name) for kind in each.kinds]
    result["nodes.yml"] = result["astra-sim-2-system"]
    result["topology.txt"] = result["ns3-network"]
    result["logical-dims"] = [(*_COLLECTIVE, "--network", "ns3-network", "--platform", "logical-dims")]
    result["nccl-topology"] = [(*_OF_KIND["platform"], "nccl-topology", "--network", "plugin:flow")]
    result["infragraph"] = [("--network", "plugin:flow", *_OF_KIND["platform"], "plugin:infragraph?file=infragraph&bandwidth_gb_per_s=64")]
    return result


@cache
def _files() -> dict[str, bytes]:
    """The content of the folder of a case: all files, whole."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name, path in formats.samples(folder).items():
            if path.is_file():
                path.rename(folder / name)
        for name, text in _TEXTS.items():
            (folder / name).write_text(text)
        system = json.loads((folder / "astra-sim-2-system").read_text())
        (folder / "astra-sim-2-system").write_text(json.dumps(system | {"per-node-custom-implementation": "nodes.yml"}))
        (folder / "nodes.yml").write_text("1: ring\n")
        traces.write_ranks(folder / "trace", traces.data_parallel)
        traces.write_ranks(folder / "pipeline", traces.pipeline)
        training_step(folder)
        for command in _MAKING:
            result = ended(folder, *command)
            assert result.status == 0, (command, result)
        for rank in range(4):
            packed = gzip.compress((folder / f"trace.{rank}.et").read_bytes())
            (folder / f"zipped.{rank}.et.gz").write_bytes(packed)
            (folder / f"jsons.{rank}.json.gz").write_bytes(gzip.compress((folder / f"traces.{rank}.json").read_bytes()))
        (folder / "kineto.0.json.gz").write_bytes(gzip.compress((folder / "kineto.0.json").read_bytes()))
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


_MAKING = [
    ("convert", "trace.et", "traces.json"),
    ("sweep", "s.toml", "--jobs", "1", "-o", "t.csv"),
    ("sweep", "s.toml", "--jobs", "1", "-o", "q.sqlite"),
    ("sweep", "s.toml", "--jobs", "1", "-o", "p.parquet"),
    ("search", "search.toml", "--jobs", "1", "-o", "u.csv"),
    (
        "flows",
        "--flows",
        "flows.csv",
        "--platform",
        "plugin:switch?size=4&link_bandwidth_gb_per_s=12.5&link_latency_ns=500",
        "--network",
        "plugin:roce?qlen_interval_us=1",
        "-o",
        "f",
    ),
    ("e.toml", "--network", "plugin:packet", "-o", "o", "--report", "timeline", "--report", "astra1"),
]
"""Commands that write the files which others read."""


def check(seed: int, folder: Path) -> list[str]:
    """Damage a file of a random format, and run a command on it."""
    random = Random(seed)
    files = _files()
    name = random.choice(sorted(name for name in _commands() if name in files))
    content = damaged(random, files[name], name)
    for each, data in files.items():
        (folder / each).parent.mkdir(exist_ok=True)
        (folder / each).write_bytes(content if each == name else data)
    command = random.choice(_commands()[name])
    fault = ended(folder, *command).fault
    return [] if fault is None else [f"{' '.join(command)}: {name}: {fault}"]
