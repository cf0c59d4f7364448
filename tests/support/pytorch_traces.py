"""A step of training as PyTorch would record it: an execution trace and a trace of Kineto, written from one timeline that is known.

All times are in microseconds. A rank computes two layers forward on its main thread, waits for nothing, and backward on another thread; the
gradients are reduced on a stream of their own, and the main thread waits for the GPU at the end.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs

MAIN, AUTOGRAD = 4711, 4712
"""Threads of the system, as Kineto names them; the execution trace counts threads from 1 on."""
COMPUTE, NCCL = 7, 20
"""Streams."""
KERNEL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
GROUPS = {"0": [0, 1], "1": [0, 1]}


@attrs.define
class Recorder:
    """Writes both traces: each operator is in both, calls and kernels only in Kineto's."""

    nodes: list[dict[str, Any]] = attrs.field(factory=list)
    events: list[dict[str, Any]] = attrs.field(factory=list)
    next_id: int = 2
    correlation: int = 100
    pid: int = 99
    steps: list[tuple[int, float, float]] = attrs.field(factory=list)

    def thread(self, tid: int) -> int:
        """A node of the execution trace for a thread."""
        return self._node("[pytorch|profiler|execution_trace|thread]", 1, tid, 0)

    def step(self, number: int, main: int, begin: float, end: float) -> int:
        """A step of the profiler, in both traces; it begins before its operators."""
        self.steps.append((number, begin, end))
        return self._node(f"ProfilerStep#{number}", main, 1, self.next_id + 1000)

    def operator(self, name: str, tid: int, begin: float, end: float, parent: int, *, in_both: bool = True, **fields: Any) -> int:
        """An operator; returns its id in the execution trace, which is also its External id."""
        id_ = self._node(name, parent, tid, self.next_id + 1000, **fields)
        args = {"External id": id_, "Record function id": id_ + 1000 if in_both else 0}
        self._event("cpu_op", name, _system(tid), begin, end, args)
        return id_

    def call(self, name: str, tid: int, begin: float, end: float, operator: int) -> int:
        """A call of the CUDA runtime; returns its correlation."""
        self.correlation += 1
        args = {"External id": operator, "correlation": self.correlation, "cbid": 211}
        self._event("cuda_runtime", name, _system(tid), begin, end, args)
        return self.correlation

    def kernel(self, name: str, stream: int, begin: float, end: float, correlation: int, operator: int, **args: Any) -> None:
        """What a call launched."""
        own = {"External id": operator, "correlation": correlation, "stream": stream, "device": 0, **args}
        self._event("kernel", name, stream, begin, end, own, pid=0)

    def sync(self, stream: int, waits_for: int, correlation: int, record: int) -> None:
        """A wait of a stream for another one, as the profiler records it with enable_cuda_sync_events."""
        args = {"stream": stream, "wait_on_stream": waits_for, "wait_on_cuda_event_record_corr_id": record, "correlation": correlation}
        self._event("cuda_sync", "Stream Wait Event", stream, 0, 0, {**args, "device": 0}, pid=0)

    def _node(self, name: str, parent: int, tid: int, rf_id: int, **fields: Any) -> int:
        attributes = {
            "rf_id": rf_id,
            "fw_parent": 0,
            "seq_id": -1,
            "scope": 0,
            "tid": tid,
            "fw_tid": 0,
            "op_schema": "",
            **fields.pop("more", {}),
        }
        inputs = {"values": fields.pop("values", []), "shapes": [], "types": fields.pop("types", [])}
        listed = [
            {"name": key, "type": "string" if isinstance(value, str) else "uint64", "value": value} for key, value in attributes.items()
        ]
        outputs: dict[str, list[Any]] = {"values": [], "shapes": [], "types": []}
        self.nodes.append({"id": self.next_id, "name": name, "ctrl_deps": parent, "inputs": inputs, "outputs": outputs, "attrs": listed})
        self.next_id += 1
        return self.next_id - 1

    def _event(self, category: str, name: str, tid: int, begin: float, end: float, args: dict[str, Any], pid: int | None = None) -> None:
        process = self.pid if pid is None else pid
        event = {
            "ph": "X",
            "cat": category,
            "name": name,
            "pid": process,
            "tid": tid,
            "ts": begin,
            "dur": round(end - begin, 3),
            "args": args,
        }
        self.events.append(event)

    def write(self, folder: Path, rank: int) -> tuple[str, str]:
        """Write both files; returns their names."""
        head = {"schema": "1.1.1-chakra.0.0.4", "pid": self.pid, "time": "2026-01-01 00:00:00", "start_ts": 1, "finish_ts": 2}
        host, kineto = folder / f"et.{rank}.json", folder / f"kineto.{rank}.json"
        host.write_text(json.dumps({**head, "nodes": self.nodes}))
        groups = [
            {"pg_name": name, "pg_desc": "", "backend_config": "cuda:nccl", "pg_size": 2, "ranks": ranks} for name, ranks in GROUPS.items()
        ]
        distributed = {"backend": "nccl", "rank": rank, "world_size": 2, "pg_count": 2, "pg_config": groups}
        step = {
            "ph": "X",
            "cat": "user_annotation",
            "name": "ProfilerStep#1",
            "pid": self.pid,
            "tid": MAIN,
            "ts": 0,
            "dur": 5000,
            "args": {},
        }
        spans = self.steps or [(1, 0, 5000)]
        steps = [{**step, "name": f"ProfilerStep#{number}", "ts": begin, "dur": end - begin} for number, begin, end in spans]
        flow = {"ph": "s", "id": 1, "cat": "ac2g", "name": "ac2g", "pid": self.pid, "tid": MAIN, "ts": 1.0}
        kineto.write_text(json.dumps({"schemaVersion": 1, "distributedInfo": distributed, "traceEvents": [*steps, flow, *self.events]}))
        return str(host), str(kineto)


def _system(tid: int) -> int:
    return {1: MAIN, 2: AUTOGRAD}[tid]


def training_step(
    folder: Path, rank: int = 0, *, recorded_waits: bool = True, old_records: bool = False, numbered: bool = True
) -> tuple[str, str]:
    """Write the traces of a step; returns their names. What happens, in microseconds:

    | what | main thread | autograd thread | stream 7 | stream 20 |
    |---|---|---|---|---|
    | forward | aten::linear 10-40, aten::relu 50-60 | | gemm 30-130, relu 130-150 | |
    | backward | | aten::mm 200-230 | dgemm 225-425 | |
    | all-reduce | | c10d::allreduce_ 240-300, nccl:all_reduce in it | | 430-730 |
    | step | cudaStreamWaitEvent 320, aten::add_ 330-350 | | add 732-762 | |
    | the end | cudaStreamSynchronize 360-770 | | | |

    `recorded_waits`: the profiler recorded `cuda_sync` events. `old_records`: the communicated tensor is among the inputs, as before
    PyTorch 2.4. `numbered`: Kineto has the numbers of all calls, which it lacks for relu and mm otherwise.
    """
    recorder = Recorder()
    groups = json.dumps([{"pg_name": name, "ranks": ranks} for name, ranks in GROUPS.items()])
    main, autograd = recorder.thread(1), recorder.thread(2)
    recorder._node("## process_group:init ##", main, 1, 1, values=[groups], types=["String"])
    linear = recorder.operator("aten::linear", 1, 10, 40, main)
    inner = recorder.operator("aten::addmm", 1, 15, 38, linear)
    recorder.kernel("gemm", COMPUTE, 30, 130, recorder.call("cudaLaunchKernel", 1, 20, 28, inner), inner)
    relu = recorder.operator("aten::relu", 1, 50, 60, main, in_both=numbered)
    recorder.kernel("relu", COMPUTE, 130, 150, recorder.call("cudaLaunchKernel", 1, 52, 58, relu), relu)
    backward = recorder.operator("aten::mm", 2, 200, 230, autograd, in_both=numbered)
    recorder.kernel("dgemm", COMPUTE, 225, 425, recorder.call("cudaLaunchKernel", 2, 210, 220, backward), backward)
    reduce = recorder.operator("c10d::allreduce_", 2, 240, 300, autograd)
    tensor = [31, 32, 0, 1024, 4, "cuda:0"]
    more = {"collective_name": "allreduce", "dtype": "Float", "in_msg_nelems": 1024, "out_msg_nelems": 1024, "pg_name": "1"}
    types = ["GenericList[Tensor(float)]", "Int", "Tuple[String,String]", "Int", "String"]
    values = [[tensor], 5, ["1", "dp"], 0, "allreduce"]
    record = recorder.operator("record_param_comms", 2, 245, 295, reduce, values=values, types=types, more={} if old_records else more)
    nccl = recorder.operator("nccl:all_reduce", 2, 250, 290, record)
    recorded = recorder.call("cudaEventRecord", 2, 252, 254, nccl)
    waiting = recorder.call("cudaStreamWaitEvent", 2, 256, 258, nccl)
    if recorded_waits:
        recorder.sync(NCCL, COMPUTE, waiting, recorded)
    args = {} if old_records else {"Collective name": "allreduce", "In msg nelems": 1024, "dtype": "Float", "Process Group Name": "1"}
    recorder.kernel(KERNEL, NCCL, 430, 730, recorder.call("cudaLaunchKernelExC", 2, 270, 280, nccl), nccl, **args)
    step = recorder.operator("aten::add_", 1, 315, 350, main)
    ended = recorder.call("cudaEventRecord", 2, 282, 284, nccl)
    waiting = recorder.call("cudaStreamWaitEvent", 1, 318, 322, step)
    if recorded_waits:
        recorder.sync(COMPUTE, NCCL, waiting, ended)
    recorder.kernel("add", COMPUTE, 732, 762, recorder.call("cudaLaunchKernel", 1, 335, 345, step), step)
    item = recorder.operator("aten::item", 1, 355, 775, main)
    recorder.call("cudaStreamSynchronize", 1, 360, 770, item)
    return recorder.write(folder, rank)
