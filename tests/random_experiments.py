"""Random whole experiments, and what must hold for each of them.

`python3 dev.py random [N] [FIRST]` runs N of them (1000) from seed FIRST (0) on, over all networks, topologies, systems and kinds of
workload, and prints what does not hold. An experiment runs with and without symmetry, on the Python and on the compiled engine:

* Every figure of the result is the same in all four runs: JSON, tables, timeline, CSV files, when each NPU had finished. An experiment
  that cannot run fails in all four with the same kind of error, on both engines with the same words.
* Bytes are conserved: what NPUs hand to the network, counted where it is handed over, is what schedules, sends and requests say, all NPUs
  together; what NPU 0 hands over, by dimension, is what the result says of it.
* Twice the bandwidth is never slower, where that is a theorem (see `Experiment.is_monotone`).
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import attrs

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))

import astra_sim
from astra_sim import AstraError, DeadlockError, csv_reports
from astra_sim.api import run_components
from astra_sim.components import Components, build
from astra_sim.engine import CONTROL_BYTES
from astra_sim.experiment import Experiment as Sections
from astra_sim.graph import Communicate, Compute, ExecutionGraph, MemoryAccess, Operation, Pass, RankProgram, Receive, Send
from astra_sim.network import EventNetwork, Message, RouteDelayNetwork
from astra_sim.platform import Group, LogicalDimension
from astra_sim.plugins import shared_plugins
from astra_sim.schedule import Collective, Schedule, shift
from astra_sim.system import PhasePlan
from astra_sim_chakra import CollectiveType, Node, NodeType, write_nodes

COLLECTIVES = [str(collective) for collective in Collective]
RUNS = [(engine, symmetry) for engine in ("compiled", "python") for symmetry in (True, False)]
HYBRIDS = ("hybrid_data_model", "hybrid_model_data", "hybrid_customized", "hybrid_transformer", "hybrid_transformer_fwd_in_bckwd")
LOOPS = ("data", "model", *HYBRIDS, "hybrid_dlrm", "hybrid_dlrm_enhanced", "micro", "distributed_inference")
ORDERS = ("ascending", "ascending", "round_robin", "offline_greedy", "offline_greedy_flex")
QUEUE_ORDERS = ("fifo", "fifo", "rg", "smallest_first", "less_remaining_phase_first")
Ranks = list[list[dict[str, Any]]]


def product(numbers: Sequence[int]) -> int:
    """The product of numbers."""
    result = 1
    for number in numbers:
        result *= number
    return result


class Experiment:
    """The experiment of a seed. `options` are arguments of `astra_sim.simulate`; files that it needs are written to `folder`."""

    def __init__(self, seed: int, folder: Path) -> None:
        self._random = Random(seed)
        self._folder = folder
        self.network = self._random.choice(["unaware"] * 6 + ["aware"] * 3 + ["packet"] * 2)
        self._most_npus = {"unaware": 64, "aware": 32, "packet": 16}[self.network]
        self._is_free = self.network == "unaware" and self._random.random() < 0.25  # nothing waits for anything else
        self._most_bytes = {"unaware": 2_000_000, "aware": 2_000_000, "packet": 8_000}[self.network]
        self.sizes, self.platform = self._platform()
        self.npus = product(self.sizes)
        self.kind = self._random.choice(["collective", "layers", "layers", *["traces"] * (0 if self._is_free else 3)])
        self.system_name = self._random.choice(["astra1", "astra1", "astra2"])
        self._grouped = 1
        self._uses_remote_memory = not self._is_free and self._random.random() < 0.15
        workload, groups = self._workload()
        self.options: dict[str, Any] = {
            "workload": workload,
            "platform": self.platform,
            "network": self._network(),
            "system": self._system(),
            "passes": self._random.choice([1, 1, 2]),
            "queues_per_dim": self._random.choice([1, 1, 1, 2, 3]),
            "rendezvous": self._random.random() < 0.2,
            "comm_scale": self._random.choice([1.0, 1.0, 1.0, 0.5]),
            "injection_scale": self._random.choice([1.0, 1.0, 2.0]),
        }
        if groups:
            self.options["groups"] = groups
        if self._uses_remote_memory:
            self.options["memory"] = self._remote_memory()
        elif self._random.random() < 0.3:
            self.options["memory"] = {"plugin": "local", "bandwidth_bytes_per_ns": self._random.choice([1.0, 100.0])}

    # -- platform and network ------------------------------------------------------------------------------------------

    def _links(self) -> dict[str, Any]:
        unit = self._random.choice(["link_bandwidth_gb_per_s", "link_bandwidth_gib_per_s"])
        bandwidths = (32, 64) if self.network == "packet" else (0.5, 3, 6.25, 25, 62)
        latencies = (10, 30) if self.network == "packet" else (0, 1, 30, 500, 500.5)
        return {unit: self._random.choice(bandwidths), "link_latency_ns": self._random.choice(latencies)}

    def _platform(self) -> tuple[list[int], Any]:
        kind = self._random.choice(["dimensions"] * 4 + ["torus", "mesh", "fat_tree", "dragonfly", "graph"])
        links = self._links()
        if kind in ("torus", "mesh"):
            sizes = self._random.choice([s for s in ([4], [8], [2, 3], [4, 4], [3, 5], [2, 2, 2], [4, 2, 3]) if product(s) <= self._most_npus])
            return sizes, {"plugin": kind, "sizes": sizes, **links}
        if kind == "fat_tree":
            arity, levels = self._random.choice([(2, 2), (2, 3), (4, 1), (3, 2), (4, 2)])
            return [arity**levels], {"plugin": kind, "arity": arity, "levels": levels, **links}
        if kind == "dragonfly":
            routers, npus = self._random.choice([(2, 1), (2, 2), (3, 1)])
            return [routers * npus * (routers + 1)], {"plugin": kind, "routers": routers, "npus": npus, **links}
        if kind == "graph":
            return self._graph()
        while True:
            dimensions = [self._dimension() for _ in range(self._random.choice([1, 1, 2, 2, 3]))]
            sizes = [dimension["size"] for dimension in dimensions]
            if 1 < product(sizes) <= self._most_npus:
                return sizes, {"dimensions": dimensions}

    def _dimension(self) -> dict[str, Any]:
        random = self._random
        size = random.choice([1, 2, 2, 3, 4, 4, 5, 6, 8])
        topology = random.choice(["ring", "fully_connected", "switch"])
        links = {"ring": random.choice([2, 2, 4]), "switch": random.choice([1, 2]), "fully_connected": max(1, size - 1)}[topology]
        dimension = {"topology": topology, "size": size, "links": links, **self._links()}
        if topology == "ring":
            dimension["both_ways"] = random.random() < 0.5
        if topology == "switch":
            dimension["router_latency_ns"] = random.choice([0, 0, 20])
            dimension["in_network_reduction"] = random.random() < 0.3
        if self.network == "unaware" and random.random() < 0.1:
            dimension |= {"hbm_scale": 1.0, "hbm_latency_ns": 10, "hbm_bandwidth_bytes_per_ns": random.choice([1.0, 50.0])}
        return {**dimension, "nic_latency_ns": random.choice([0, 0, 12.5])}

    def _graph(self) -> tuple[list[int], Any]:
        """A ring or a star with some links more, all links alike."""
        size = self._random.choice([3, 4, 6, 8])
        links = self._links()
        bandwidth, latency = next(iter(links.values())), links["link_latency_ns"]
        ends = {(str(npu), str((npu + 1) % size)) for npu in range(size)}
        if self._random.random() < 0.5:
            ends = {(str(npu), "switch") for npu in range(size)}
        elif size > 3:
            ends.add(("0", str(size // 2)))
        path = self._folder / "graph.csv"
        rows = "".join(f"{a},{b},{bandwidth},{latency}\n" for a, b in sorted(ends))
        path.write_text("source,target,bandwidth_gb_per_s,latency_ns\n" + rows)
        return [size], f"plugin:graph?file={path}"

    def _network(self) -> dict[str, Any]:
        random = self._random
        if self.network == "packet":
            preset = random.choice(
                [
                    {"deadlock_freedom": "bubble", "flow_control": "cut_through", "buffers": 64},
                    {"preset": "booksim", "packet_bytes": 256},
                    {"vcs": 4},
                    {"preset": "garnet"},
                    {"packet_bytes": 1024, "flit_bytes": 64, "buffers": 32, "flow_control": "cut_through"},
                ]
            )
            return {"plugin": "packet", **preset}
        table = {"plugin": "analytical", "rounding": random.choice(["nanosecond", "nanosecond_sum", "picosecond"])}
        if self.network == "unaware":
            return {**table, "charged_dimension": random.choice(["highest", "lowest"])}
        return {
            **table,
            "congestion": "aware",
            "switching": random.choice(["store_and_forward", "cut_through"]),
            "link_figures": random.random() < 0.3,
        }

    # -- system --------------------------------------------------------------------------------------------------------

    def _algorithms(self, collective: str) -> Any:
        random = self._random
        if random.random() < 0.3:
            return "auto"
        whole = ["one_ring", "one_direct", "one_direct?window=2"]
        if self.npus & (self.npus - 1) == 0 and collective != "all_to_all":
            whole.append("one_halving_doubling")
        if random.random() < 0.25 and self._grouped == 1:
            return random.choice(whole)
        chosen = []
        dimensions = self.platform["dimensions"] if isinstance(self.platform, dict) and "dimensions" in self.platform else [{}] * len(self.sizes)
        for size, dimension in zip(self.sizes, dimensions, strict=True):
            names = ["ring", "direct", "direct?window=1", "direct?window=2"]
            if dimension.get("in_network_reduction") and collective != "all_to_all" and self.kind != "traces":
                names += ["in_network"] * 3
            if size & (size - 1) == 0 and self._grouped == 1 and self.kind != "traces":
                names += ["halving_doubling"] if collective != "all_to_all" else []
                names += ["double_binary_tree"] if collective == "all_reduce" else []
            chosen.append(random.choice(names))
        return chosen

    def _system(self) -> dict[str, Any]:
        random = self._random
        table: dict[str, Any] = {
            "plugin": self.system_name,
            **{name: self._algorithms(name) for name in COLLECTIVES},
            "splits": random.choice([1, 1, 2, 3, 5]),
            "active_chunks_per_dimension": random.choice([1, 2, 3, 1000]),
            "endpoint_delay_ns": random.choice([0, 1, 10, 100]),
            "scheduling_policy": random.choice(["lifo", "fifo"]),
            "collective_optimization": random.choice(["baseline", "local_bw_aware"]),
            "inter_dimension_scheduling": random.choice(ORDERS),
            "intra_dimension_scheduling": random.choice(QUEUE_ORDERS),
        }
        if random.random() < 0.1:
            table |= {"shared_bus": True, "bus_latency_ns": random.randrange(20), "bus_overhead_ns": random.randrange(10)}
            table |= {"bus_gap_ns": random.randrange(20), "bus_gap_per_byte_ns": random.choice([0.0, 0.001, 0.1])}
        if self.system_name == "astra2":
            table |= {"one_at_a_time": random.random() < 0.7, "group_algorithm": random.choice(["auto", "ring", "direct"])}
            table |= {"local_memory_gb_per_s": random.choice([None, 1.0, 200.0])}
        if self._is_free:
            orders = {"inter_dimension_scheduling": random.choice(["ascending", "round_robin"])}
            table |= {"active_chunks_per_dimension": 1000, "shared_bus": False, **orders}
            table |= {"one_at_a_time": False} if self.system_name == "astra2" else {}
        return {key: value for key, value in table.items() if value is not None}

    def _remote_memory(self) -> dict[str, Any]:
        random = self._random
        table = {"plugin": "remote", "bandwidth_gb_per_s": random.choice([1.0, 40.0]), "latency_ns": random.choice([0, 100])}
        nodes = [number for number in range(1, self.npus + 1) if self.npus % number == 0]
        arrangement = random.choice(["per_npu", "pool", "per_node"])
        return {**table, "arrangement": arrangement, **({"npus_per_node": random.choice(nodes)} if arrangement == "per_node" else {})}

    # -- workloads -----------------------------------------------------------------------------------------------------

    def _bytes(self) -> int:
        random = self._random
        return random.choice([random.randrange(64, self._most_bytes), 1 << random.randrange(6, self._most_bytes.bit_length())])

    def _workload(self) -> tuple[Any, dict[str, Any]]:
        if self.kind == "collective":
            return {"plugin": "collective", "collective": self._random.choice(COLLECTIVES), "bytes": self._bytes()}, {}
        if self.kind == "layers":
            return self._layers(), {}
        ranks, groups = self._random.choice([self._parallel, self._parallel, self._irregular])()
        if self._random.random() < 0.5:
            return self._execution_graph(ranks, groups), {}
        for rank, operations in enumerate(ranks):
            write_nodes(self._folder / f"trace.{rank}.et", [_node(number, operation) for number, operation in enumerate(operations)])
        return self._folder / "trace", groups

    def _layers(self) -> dict[str, Any]:
        random = self._random
        loop, options = random.choice(LOOPS), {}
        layers = [self._layer(number) for number in range(random.randrange(1, 4))]
        if loop == "hybrid_customized":
            for layer in layers:
                layer["loop"] = random.choice(["data", "model", "hybrid_data_model", "hybrid_model_data"])
        if loop.endswith("fwd_in_bckwd"):
            last = len(layers) - 1
            options |= {"checkpoints": [0], "checkpoint_initiates": [last]} if last else {}
        if loop.startswith("hybrid_transformer"):
            self._grouped = random.choice([group for group in range(1, self.npus + 1) if _divides(group, self.sizes)])
            options["model_parallel_npus"] = self._grouped
        if loop.startswith("hybrid_dlrm"):
            options["last_bottom_layer"] = random.randrange(len(layers))
        return {"plugin": "layers", "loop": loop, "loop_options": options, "layers": layers, "single_precision": random.random() < 0.3}

    def _layer(self, number: int) -> dict[str, Any]:
        random = self._random
        layer: dict[str, Any] = {"name": f"layer{number}", "update_ns": random.choice([0, 7, 40])}
        for training_pass in Pass:
            layer[training_pass] = {"compute_ns": random.choice([0, 1, 10, 100, 5000])}
            if random.random() < 0.5:
                layer[training_pass] |= {"collective": random.choice(COLLECTIVES), "collective_bytes": self._bytes()}
            if self._uses_remote_memory:
                layer[training_pass]["remote_read_bytes"] = random.choice([0, 0, 50_000])
        return layer

    def _parallel(self) -> tuple[Ranks, dict[str, Any]]:
        """Tensor, data and pipeline parallel: rank = (stage * replicas + replica) * parts + part."""
        random = self._random
        parts = random.choice([n for n in range(1, self.npus + 1) if self.npus % n == 0])
        replicas = random.choice([n for n in range(1, self.npus // parts + 1) if self.npus // parts % n == 0])
        stages = self.npus // parts // replicas
        micro_batches = random.randrange(1, 4)
        tensor, gradient, activation = self._bytes(), self._bytes(), self._bytes()
        spread = random.choice([0, 0, 1])
        groups: dict[str, Any] = {}
        ranks: Ranks = []
        for rank in range(self.npus):
            stage, part = rank // (parts * replicas), rank % parts
            first = rank - part
            own = {"tensor": list(range(first, first + parts)), "data": list(range(rank % (parts * replicas) % parts, parts * replicas, parts))}
            own["data"] = [stage * parts * replicas + member for member in own["data"]]
            names = {}
            for key, members in own.items():
                if 1 < len(members) < self.npus:
                    names[key] = f"{key} {members[0]}"
                    groups[names[key]] = members
            ranks.append([])
            add = _Adder(ranks[-1])
            last: list[int] = []
            for tag in range(micro_batches):
                if stage:
                    last.append(add("receive", [], peer=rank - parts * replicas, bytes=activation, tag=tag))
                last = [add("compute", last, ns=random.choice([700, 700]) + spread * stage)]
                if parts > 1:
                    last = [add("collective", last, collective="all_reduce", bytes=tensor, group=names.get("tensor"))]
                if stage < stages - 1:
                    add("send", last, peer=rank + parts * replicas, bytes=activation, tag=tag)
            if replicas > 1:
                add("collective", last, collective=COLLECTIVES[gradient % 3], bytes=gradient, group=names.get("data"))
        return ranks, groups

    def _irregular(self) -> tuple[Ranks, dict[str, Any]]:
        """Something happens to some NPUs, one thing after another; each waits for some that was there before."""
        random = self._random
        groups = {}
        for number in range(random.randrange(3)):
            if self.npus > 2:
                groups[f"group {number}"] = random.sample(range(self.npus), random.randrange(2, self.npus))
        ranks: Ranks = [[] for _ in range(self.npus)]
        for _ in range(random.randrange(2, 10)):
            what = random.choice(["compute", "collective", "collective", "message", "message", *["access"] * self._uses_remote_memory])
            if what == "access":
                for rank in random.sample(range(self.npus), random.randrange(1, self.npus + 1)):
                    self._add(ranks[rank], "access", bytes=random.choice([1000, 100_000]), write=random.random() < 0.5)
            elif what == "compute":
                for rank in random.sample(range(self.npus), random.randrange(1, self.npus + 1)):
                    self._add(ranks[rank], "compute", ns=random.choice([0, 1, 500, 30_000]))
            elif what == "collective":
                group = random.choice([None, *groups])
                fields = {"collective": random.choice(COLLECTIVES), "bytes": self._bytes(), "group": group}
                for rank in range(self.npus) if group is None else groups[group]:
                    self._add(ranks[rank], "collective", **fields)
            else:
                source, target = random.sample(range(self.npus), 2)
                fields = {"bytes": self._bytes(), "tag": random.randrange(3)}
                self._add(ranks[source], "send", peer=target, **fields)
                self._add(ranks[target], "receive", peer=source, **fields)
        for operations in ranks:
            if not operations:
                self._add(operations, "compute", ns=1)
        return ranks, groups

    def _add(self, operations: list[dict[str, Any]], what: str, **fields: Any) -> None:
        after = self._random.sample(range(len(operations)), min(len(operations), self._random.choice([0, 1, 1, 2])))
        operations.append({"what": what, "after": sorted(after), **fields})

    def _execution_graph(self, ranks: Ranks, groups: Mapping[str, Sequence[int]]) -> ExecutionGraph:
        made: dict[str, tuple[list[Operation], list[int]]] = {}
        for rank, operations in enumerate(ranks):
            program = [self._operation(rank, operation, groups) for operation in operations]
            made.setdefault(repr(program), (program, []))[1].append(rank)
        first, *others = made.values()
        strides = [product(self.sizes[:index]) for index in range(len(self.sizes))]
        dimensions = tuple(LogicalDimension(size, stride, i) for i, (size, stride) in enumerate(zip(self.sizes, strides, strict=True)))
        programs = tuple(RankProgram(program, tuple(npus)) for program, npus in others)
        return ExecutionGraph(first[0], dimensions, (), None, programs)

    def _operation(self, rank: int, operation: Mapping[str, Any], groups: Mapping[str, Sequence[int]]) -> Operation:
        after = tuple(operation["after"])
        match operation["what"]:
            case "compute":
                return Compute(after, operation["ns"] * 1000)
            case "access":
                return MemoryAccess(after, operation["bytes"], operation["write"], remote=True)
            case "send":
                return Send(after, shift((operation["peer"] - rank) % self.npus), operation["bytes"], operation["tag"])
            case "receive":
                return Receive(after, shift((operation["peer"] - rank) % self.npus), operation["bytes"], operation["tag"])
        group = None if operation["group"] is None else tuple(groups[operation["group"]])
        every = tuple(range(len(self.sizes)))
        return Communicate(after, Collective(operation["collective"]), operation["bytes"], every, -1, Pass.FORWARD, group=group)

    # -- what holds ----------------------------------------------------------------------------------------------------

    def is_monotone(self) -> bool:
        """Whether twice the bandwidth cannot be slower.

        It cannot where each event is a maximum (or the k-th of some) of earlier ones plus delays that shrink: messages never wait for each
        other, chunks never wait in queues, nothing is shared (bus, memory ports, units), all NPUs run one program, and the order of
        dimensions does not look at the clock or the bandwidth. Elsewhere there are Graham's anomalies.
        """
        system = self.options["system"]
        return (
            self.network == "unaware"
            and self.kind != "traces"
            and system["active_chunks_per_dimension"] == 1000
            and not system.get("shared_bus", False)
            and not system.get("one_at_a_time", False)
            and not system["inter_dimension_scheduling"].startswith("offline_greedy")
            and isinstance(self.platform, dict)
        )

    def with_twice_the_bandwidth(self) -> dict[str, Any]:
        """The experiment on links of twice the bandwidth."""

        def doubled(table: Mapping[str, Any]) -> dict[str, Any]:
            return {key: 2 * value if key.startswith("link_bandwidth") else value for key, value in table.items()}

        platform = doubled(self.platform)
        if "dimensions" in platform:
            platform["dimensions"] = [doubled(dimension) for dimension in platform["dimensions"]]
        return {**self.options, "platform": platform}


class _Adder:
    """Appends an operation to a list; answers its number."""

    def __init__(self, operations: list[dict[str, Any]]) -> None:
        self._operations = operations

    def __call__(self, what: str, after: Sequence[int], **fields: Any) -> int:
        self._operations.append({"what": what, "after": list(after), **fields})
        return len(self._operations) - 1


def _divides(group: int, sizes: Sequence[int]) -> bool:
    """Whether groups of so many NPUs divide a platform along its dimensions."""
    for size in sizes:
        if group <= size:
            return size % group == 0
        if group % size:
            return False
        group //= size
    return group == 1


def _node(number: int, operation: Mapping[str, Any]) -> Node:
    what = operation["what"]
    fields: dict[str, Any] = {"id": number, "data": tuple(operation["after"]), "is_cpu_op": False}
    if what == "compute":
        return Node(type=NodeType.COMP_NODE, duration_ns=operation["ns"], **fields)
    if what == "access":
        kind = NodeType.MEM_STORE_NODE if operation["write"] else NodeType.MEM_LOAD_NODE
        return Node(type=kind, tensor_size=operation["bytes"], **fields)
    fields["comm_size"] = operation["bytes"]
    if what == "collective":
        of = CollectiveType[operation["collective"].upper()]
        return Node(type=NodeType.COMM_COLL_NODE, comm_type=of, pg_name=operation["group"], **fields)
    if what == "send":
        return Node(type=NodeType.COMM_SEND_NODE, comm_dst=operation["peer"], comm_tag=operation["tag"], **fields)
    return Node(type=NodeType.COMM_RECV_NODE, comm_src=operation["peer"], comm_tag=operation["tag"], **fields)


# -- counting bytes ----------------------------------------------------------------------------------------------------


@attrs.define
class Handed:
    """What NPUs hand to a network: messages, bytes, and bytes of NPU 0 in each dimension."""

    messages: int = 0
    bytes: int = 0
    of_first: Counter[int] = attrs.field(factory=Counter)


def count_handed(components: Components) -> Handed:
    """Count from now on what the Python engine hands to the network of a run, message by message."""
    handed, network, platform = Handed(), components.network, components.platform

    def handle(source: int, destination: int, size: int) -> None:
        handed.messages += 1
        handed.bytes += size
        if source == 0:
            crossed = [i for i in range(len(platform.dimensions)) if platform.coordinate(0, i) != platform.coordinate(destination, i)]
            handed.of_first[crossed[0] if _goes_first(components) else crossed[-1]] += size

    if isinstance(network, RouteDelayNetwork):
        delay_of = network.message_delay

        def message_delay(source: int, destination: int, size: int) -> int:
            handle(source, destination, size)
            return delay_of(source, destination, size)

        network.message_delay = message_delay  # type: ignore[method-assign]
    else:
        assert isinstance(network, EventNetwork)
        hand_over = network.inject

        def inject(now: int, messages: Sequence[Message]) -> None:
            for message in messages:
                handle(message.source, message.destination, message.bytes)
            hand_over(now, messages)

        network.inject = inject  # type: ignore[method-assign]
    return handed


def _goes_first(components: Components) -> bool:
    """Whether a message counts in the first dimension that it crosses."""
    return isinstance(components.network, EventNetwork) or components.network.charged_dimension == "lowest"


def said(components: Components, result: astra_sim.Result) -> tuple[int, int]:
    """The messages and bytes of all NPUs, as schedules, sends and requests say.

    Collectives over dimensions are those of NPU 0, for all NPUs take part in them. Those of a group are planned once more here, by its first member.
    """
    messages = size = 0
    for record in result._trace.phases:
        if not isinstance(record.plan.logical, Group):
            count, amount = _of_phase(record.plan)
            groups = components.platform.npus // record.plan.logical.size
            messages, size = messages + groups * count, size + groups * amount
    session = components.system.session(components.graph.dimensions)
    for program in components.graph.programs(components.platform.npus):
        for operation in program.operations:
            if isinstance(operation, Send):
                messages, size = messages + len(program.npus), size + operation.bytes * len(program.npus)
            elif isinstance(operation, Communicate) and operation.group is not None and operation.group[0] in program.npus:
                for chunk in session.issue(operation, 0):
                    for plan in chunk.phases:
                        count, amount = _of_phase(plan) if isinstance(plan.logical, Group) else (0, 0)
                        messages, size = messages + count, size + amount
    return (2 * messages, size + CONTROL_BYTES * messages) if components.system.rendezvous else (messages, size)


def _of_phase(plan: PhasePlan) -> tuple[int, int]:
    """Messages and bytes that all ranks of one group send in a phase."""
    schedule: Schedule = plan.schedule
    steps = [step for rank in range(schedule.ranks) for step in schedule.program(rank).steps if step.send_to is not None]
    return sum(step.times for step in steps), sum(step.times * step.bytes for step in steps)


# -- running -----------------------------------------------------------------------------------------------------------


def components_of(options: Mapping[str, Any], engine: str, symmetry: bool) -> Components:
    """The components of a run."""
    made = Sections()
    for kind in ("workload", "platform", "network", "system", "memory"):
        if kind in options:
            made.use(kind, options[kind], shared_plugins(), where=kind)
    if "groups" in options:
        made.use_groups(options["groups"])
    made.run.update({name: value for name, value in options.items() if name not in (*made.sections, "groups")})
    made.run.update(engine=engine, symmetry=symmetry)
    return build(made, shared_plugins())


def figures(result: astra_sim.Result) -> dict[str, Any]:
    """Every figure of the simulated system, in all the forms in which a result gives it."""
    table = result.to_dict()
    tables = result.tables()
    del tables["run"]
    for name in ("wall_s", "simulated_npus", "events"):
        del table[name]
    reports = ("end_to_end", "detailed", "dimension_utilization", "backend_end_to_end", "backend_dim_info", "tutorial_result")
    return {
        "json": table,
        "tables": tables,
        "busy_ns": result.busy_ns,
        "npu_finish_ns": result.npu_finish_ns,
        "csv": {name: getattr(csv_reports, name)(result) for name in reports},
        "network": result.network_reports(),
    }


def differences(a: Any, b: Any, where: str = "") -> list[str]:
    """Where two figures differ, by their path."""
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        return [line for key in a for line in differences(a[key], b[key], f"{where}.{key}")]
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return [line for place, (x, y) in enumerate(zip(a, b, strict=True)) for line in differences(x, y, f"{where}[{place}]")]
    return [] if a == b else [f"{where or 'answer'}: {str(a)[:100]} and {str(b)[:100]}"]


@attrs.define
class Outcome:
    """What an experiment came to: "finished", or the kind of its error; and what does not hold."""

    end: str
    violations: list[str]
    checked_bandwidth: bool = False


def check(seed: int, folder: Path) -> Outcome:
    """Run the experiment of a seed in all ways."""
    experiment = Experiment(seed, folder)
    answers: dict[tuple[str, bool], Any] = {}
    sizes: dict[tuple[str, bool], tuple[int, int]] = {}
    violations: list[str] = []
    finished: astra_sim.Result | None = None
    for engine, symmetry in RUNS:
        try:
            components = components_of(experiment.options, engine, symmetry)
            counts = engine == "python" and not symmetry
            handed = count_handed(components) if counts else Handed()
            result = run_components(components, "run", time.perf_counter())
            answers[engine, symmetry] = figures(result)
            sizes[engine, symmetry] = result.simulated_npus, result.events
            finished = result
            if counts:
                violations += _conservation(components, result, handed)
        except AstraError as error:
            answers[engine, symmetry] = type(error).__name__, str(error)
    first = answers[RUNS[0]]
    for run in RUNS[1:]:
        other = answers[run]
        if isinstance(first, tuple) and isinstance(other, tuple):
            if first[0] != other[0] or first[1] != other[1] and run[1] == RUNS[0][1]:
                violations.append(f"{run}: {other} for {first}")
        else:
            violations += [f"{run}{line}" for line in differences(first, other)[:5]]
    for symmetry in (True, False):
        if len({sizes.get((engine, symmetry)) for engine in ("compiled", "python")}) > 1:
            violations.append(f"symmetry {symmetry}: NPUs and events are {sizes}")
    monotone = finished is not None and experiment.is_monotone()
    if finished is not None and monotone:
        faster = run_components(components_of(experiment.with_twice_the_bandwidth(), "compiled", True), "run", time.perf_counter())
        if faster.finish_ns > finished.finish_ns:
            violations.append(f"twice the bandwidth takes {faster.finish_ns} ns for {finished.finish_ns}")
    return Outcome(first[0] if isinstance(first, tuple) else "finished", violations, monotone)


def _conservation(components: Components, result: astra_sim.Result, handed: Handed) -> list[str]:
    messages, size = said(components, result)
    pairs = [
        ("messages of the result", result.messages, handed.messages),
        ("messages of schedules", messages, handed.messages),
        ("bytes of schedules", size, handed.bytes),
        (
            "payload_bytes_per_dimension",
            result.network["payload_bytes_per_dimension"],
            [handed.of_first[number] for number in range(len(components.platform.dimensions))],
        ),
    ]
    if not components.system.rendezvous:
        in_table = sum(dimension.bytes for dimension in result.dimensions)
        pairs.append(("bytes of the table of dimensions", in_table, sum(handed.of_first.values())))
    return [f"{what} are {told}, and handed to the network {got}" for what, told, got in pairs if told != got]


def main(arguments: Sequence[str]) -> int:
    """Run many experiments. Returns 1 if something does not hold."""
    count, first = (int(argument) for argument in (*arguments, *("1000", "0")[len(arguments) :]))
    ends: Counter[str] = Counter()
    wrong = bandwidths = 0
    for seed in range(first, first + count):
        with tempfile.TemporaryDirectory() as folder:
            outcome = check(seed, Path(folder))
        ends[outcome.end] += 1
        bandwidths += outcome.checked_bandwidth
        wrong += bool(outcome.violations)
        for line in outcome.violations:
            print(f"seed {seed}: {line}", flush=True)
        if (seed - first + 1) % 100 == 0:
            print(f"{seed - first + 1} of {count}: {wrong} in which something does not hold", file=sys.stderr, flush=True)
    ran = ", ".join(f"{number} {end}" for end, number in ends.most_common())
    print(f"{count} experiments ({ran}); {bandwidths} with twice the bandwidth; {wrong} in which something does not hold")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
