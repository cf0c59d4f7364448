"""Random whole experiments: networks, topologies, systems and workloads of all kinds. `experiment_checks` says what must hold for them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from astra_sim.graph import Communicate, Compute, ExecutionGraph, MemoryAccess, NpuProgram, Operation, Pass, Receive, Send
from astra_sim.platform import LogicalDimension
from astra_sim.schedule import Collective, shift
from astra_sim_chakra import CollectiveType, Node, NodeType, write_nodes

COLLECTIVES = [str(collective) for collective in Collective]
HYBRIDS = ("hybrid_data_model", "hybrid_model_data", "hybrid_customized", "hybrid_transformer", "hybrid_transformer_fwd_in_bckwd")
LOOPS = ("data", "model", *HYBRIDS, "hybrid_dlrm", "hybrid_dlrm_enhanced", "micro", "distributed_inference")
ORDERS = ("ascending", "ascending", "round_robin", "offline_greedy", "offline_greedy_flex")
QUEUE_ORDERS = ("fifo", "fifo", "rg", "smallest_first", "less_remaining_phase_first")
Ranks = list[list[dict[str, Any]]]


class Experiment:
    """The experiment of a seed. `options` are arguments of `astra_sim.simulate`; files that it needs are written to `folder`."""

    networks: Sequence[str] = ("unaware",) * 6 + ("aware",) * 3 + ("packet",) * 2 + ("flow",) * 2

    def __init__(self, seed: int, folder: Path) -> None:
        self._random = Random(seed)
        self._folder = folder
        self.network = self._random.choice(self.networks)
        self._most_npus = {"unaware": 64, "aware": 32, "packet": 16, "flow": 32, "roce": 16}[self.network]
        self._is_free = self.network == "unaware" and self._random.random() < 0.25  # nothing waits for anything else
        self._most_bytes = {"unaware": 2_000_000, "aware": 2_000_000, "packet": 8_000, "flow": 2_000_000, "roce": 50_000}[self.network]
        self.sizes, self.platform = self._platform()
        self.npus = math.prod(self.sizes)
        self.kind = self._random.choice(["collective", "layers", "layers", *["traces"] * (0 if self._is_free else 3)])
        self.system_name = self._random.choice(["astra1", "astra1", "astra2"])
        self._grouped = 1
        self._ranks: Ranks | None = None
        self._groups: dict[str, Any] = {}
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
        if self.network not in ("aware", "flow") and self._random.random() < 0.06:
            return self._garnet()
        links = self._links()
        if kind in ("torus", "mesh"):
            sizes = self._random.choice(
                [s for s in ([4], [8], [2, 3], [4, 4], [3, 5], [2, 2, 2], [4, 2, 3]) if math.prod(s) <= self._most_npus]
            )
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
            if 1 < math.prod(sizes) <= self._most_npus:
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

    def _garnet(self) -> tuple[list[int], Any]:
        """A platform of Garnet's."""
        random = self._random
        npus, packages, rows = random.choice([(8, 4, 2), (16, 4, 2), (8, 4, 1), (12, 6, 3)])
        table = {
            "npus": npus,
            "packages": packages,
            "local_rings": random.choice([1, 2]),
            "package_link_width_bits": 256,
            "tile_link_width_bits": 256,
        }
        if random.random() < 0.5:
            return [npus // packages, packages], {"plugin": "nv_switch", **table, "links_per_tile": random.choice([1, 2])}
        sizes = [npus // packages, packages // rows, rows]
        return sizes, {"plugin": "torus3d", **table, "package_rows": rows, "vertical_rings": random.choice([1, 2])}

    def _network(self) -> dict[str, Any]:
        random = self._random
        if self.network == "packet" and isinstance(self.platform, dict) and self.platform.get("plugin") in ("torus3d", "nv_switch"):
            return {"plugin": "packet", "preset": "garnet"}
        if self.network == "packet":
            presets: list[dict[str, Any]] = [
                {"deadlock_freedom": "bubble", "flow_control": "cut_through", "buffers": 64},
                {"preset": "booksim", "packet_bytes": 256},
                {"vcs": 4},
                {"preset": "garnet"},
                {"packet_bytes": 1024, "flit_bytes": 64, "buffers": 32, "flow_control": "cut_through"},
            ]
            return {"plugin": "packet", **random.choice(presets)}
        if self.network == "flow":
            kinds: list[dict[str, Any]] = [{}, {"tolerance": 0}, {"preset": "simgrid_lv08"}, {"fairness": "rtt", "weight_bytes": 1000}]
            return {"plugin": "flow", "routing": random.choice(["hash", "destination", "first", "split"]), **random.choice(kinds)}
        table = {"plugin": "analytical", "rounding": random.choice(["nanosecond", "nanosecond_sum", "picosecond"])}
        if self.network == "unaware":
            return {**table, "accounting_dimension": random.choice(["highest", "lowest"])}
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
        dimensions = (
            self.platform["dimensions"] if isinstance(self.platform, dict) and "dimensions" in self.platform else [{}] * len(self.sizes)
        )
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
            self._ranks, self._groups = ranks, groups
            return self._execution_graph(ranks, groups), {}
        for rank, operations in enumerate(ranks):
            write_nodes(self._folder / f"trace.{rank}.et", [_node(number, operation) for number, operation in enumerate(operations)])
        used = {operation.get("group") for operations in ranks for operation in operations}
        return self._folder / "trace", {name: members for name, members in groups.items() if name in used}

    def _layers(self) -> dict[str, Any]:
        random = self._random
        loop = random.choice(LOOPS)
        options: dict[str, Any] = {}
        layers = [self._layer(number) for number in range(random.randrange(1, 4))]
        if loop == "hybrid_customized":
            for layer in layers:
                layer["loop"] = random.choice(["data", "model", "hybrid_data_model", "hybrid_model_data"])
        if loop.endswith("fwd_in_bckwd"):
            last = len(layers) - 1
            options |= {"checkpoints": [0], "checkpoint_initiates": [last]} if last else {}
        if loop.startswith("hybrid_transformer"):
            self._grouped = random.choice([group for group in range(1, self.npus + 1) if divides(group, self.sizes)])
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
            own = {
                "tensor": list(range(first, first + parts)),
                "data": list(range(rank % (parts * replicas) % parts, parts * replicas, parts)),
            }
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
        """Operations of some NPUs, one after another; each waits for some earlier ones."""
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
        result: dict[str, tuple[list[Operation], list[int]]] = {}
        for rank, operations in enumerate(ranks):
            program = [self._operation(rank, operation, groups) for operation in operations]
            result.setdefault(repr(program), (program, []))[1].append(rank)
        first, *others = result.values()
        strides = [math.prod(self.sizes[:index]) for index in range(len(self.sizes))]
        dimensions = tuple(LogicalDimension(size, stride, i) for i, (size, stride) in enumerate(zip(self.sizes, strides, strict=True)))
        programs = tuple(NpuProgram(program, tuple(npus)) for program, npus in others)
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

    def renumbered(self) -> tuple[dict[str, Any], dict[str, Any], list[int]] | None:
        """The experiment with collectives in which all ranks do the same, the same with other numbers of NPUs, and the new number of each.

        NPUs go one place on in every dimension, which rings, switches and fully connected NPUs do not notice where messages do not wait for
        each other. None where the experiment has something that does, or where all NPUs run one program anyway.
        """
        dimensions = self.platform.get("dimensions") if isinstance(self.platform, dict) else None
        if self._ranks is None or self.network != "unaware" or self._uses_remote_memory or dimensions is None:
            return None
        strides = [math.prod(self.sizes[:index]) for index in range(len(self.sizes))]
        new = [
            sum((npu // stride + 1) % size * stride for size, stride in zip(self.sizes, strides, strict=True)) for npu in range(self.npus)
        ]
        ranks: Ranks = [[] for _ in range(self.npus)]
        for npu, operations in enumerate(self._ranks):
            ranks[new[npu]] = [{**each, **({"peer": new[each["peer"]]} if "peer" in each else {})} for each in operations]
        groups = {name: [new[npu] for npu in members] for name, members in self._groups.items()}
        algorithms = {name: [("ring", "direct")[len(name) % 2]] * len(self.sizes) for name in COLLECTIVES}
        options = {**self.options, "system": {**self.options["system"], **algorithms}}
        return options, {**options, "workload": self._execution_graph(ranks, groups)}, new

    def with_twice_the_bandwidth(self) -> dict[str, Any]:
        """The experiment on links of twice the bandwidth."""

        def doubled(table: Mapping[str, Any]) -> dict[str, Any]:
            widths = ("link_bandwidth", "package_link_width", "tile_link_width")
            return {key: 2 * value if key.startswith(widths) else value for key, value in table.items()}

        platform = doubled(self.platform)
        if "dimensions" in platform:
            platform["dimensions"] = [doubled(dimension) for dimension in platform["dimensions"]]
        return {**self.options, "platform": platform}


class OnAnyNetwork(Experiment):
    """An experiment on any network, on more platforms, and with more algorithms."""

    networks = ("unaware", "aware", "packet", "flow", "roce", "roce")

    def _platform(self) -> tuple[list[int], Any]:
        kind = self._random.choice([*["others"] * 6, "clos", "hyperx", "dragonfly_plus", "rail_optimized"])
        links = {"plugin": kind, **self._links()}
        if kind == "clos":
            return [16], {**links, "npus": 16, "ports": 8, "oversubscription": self._random.choice([1, 3])}
        if kind == "hyperx":
            return [12], {**links, "sizes": [2, 3], "npus": 2}
        if kind == "dragonfly_plus":
            return [8], {**links, "leaves": 2, "spines": 2, "npus": 2, "groups": 2}
        if kind == "rail_optimized":
            table = {"servers": 2, "npus_per_server": 4, "nvlink_latency_ns": 500, "nic_latency_ns": self._random.choice([500, 2000])}
            return [4, 2], {"plugin": kind, **table}
        return super()._platform()

    def _network(self) -> dict[str, Any]:
        if self.network != "roce":
            return super()._network()
        control = self._random.choice(["none", "dcqcn", "hpcc", "timely", "swift"])
        return {"plugin": "roce", "congestion_control": control}

    def _algorithms(self, collective: str) -> Any:
        chosen = super()._algorithms(collective)
        if isinstance(chosen, list):
            return [self._random.choice(["ring?directions=2", name]) if name == "ring" else name for name in chosen]
        return chosen


class _Adder:
    """Append an operation to a list; return its number."""

    def __init__(self, operations: list[dict[str, Any]]) -> None:
        self._operations = operations

    def __call__(self, what: str, after: Sequence[int], **fields: Any) -> int:
        self._operations.append({"what": what, "after": list(after), **fields})
        return len(self._operations) - 1


def divides(group: int, sizes: Sequence[int]) -> bool:
    """Whether groups of a number of NPUs divide a platform along its dimensions."""
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
