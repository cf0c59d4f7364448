"""The command `astra calibrate cluster`: a cluster fitted to its owner's logs, as an experiment without a workload."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from astra_sim.commands import Column, Progress, Screen, Table, candidates, json_option, quiet_option, say_json

if TYPE_CHECKING:
    from astra_sim.collective_tables import MeasuredCollective
    from astra_sim.platform import Platform

    from astra_sim_compute_gpu.cluster_fit import FabricFit, FactorFit, Iteration

_LEAST_ITERATIONS = 2


@click.command()
@click.option(
    "--machine", required=True, metavar="NAME", help="The machine, such as dgx_h100: a platform whose nodes have GPUs and a device."
)
@click.option(
    "--nccl-tests", "logs", multiple=True, type=click.Path(), metavar="LOG", help="Output of nccl-tests or rccl-tests. Repeatable."
)
@click.option("--gemm", type=click.Path(), metavar="CSV", help="Measured products, as for `calibrate gemm`.")
@click.option("--iterations", type=click.Path(), metavar="CSV", help="Measured iterations: columns experiment (its path) and seconds.")
@click.option(
    "--device",
    metavar="NAME",
    help="Device (or DEVICE.toml) to start from.  [default: the machine's]",
    shell_complete=candidates("one_of", "astra_sim_compute_gpu.device:names"),
)
@click.option("--gpus-per-node", type=click.IntRange(min=1), default=8, show_default=True, help="GPUs of a node, if a log lists no hosts.")
@click.option("-o", "--output", required=True, metavar="CLUSTER.toml", type=click.Path(dir_okay=False), help="The experiment to write.")
@json_option
@quiet_option
def cluster(
    machine: str,
    logs: tuple[str, ...],
    gemm: str | None,
    iterations: str | None,
    device: str | None,
    gpus_per_node: int,
    output: str,
    as_json: bool,
    quiet: bool,
) -> None:
    """Fit a cluster to its own measurements: logs of nccl-tests, products of matrices, and a few iterations.

    \b
    astra calibrate cluster --machine dgx_h100 --nccl-tests one_node.log --nccl-tests two_nodes.log -o cluster.toml
    astra cluster.toml --workload 'plugin:llm?model=llama3-8b&tensor_parallel=8'

    Collectives within a node give parameters of NCCL, those of several nodes bandwidth and latency of the fabric, products a
    device, and iterations a factor of computing. Half of the sizes, half of the shapes and each iteration in turn are held
    out, and give the errors.
    """
    from astra_sim import InputError

    if not logs and gemm is None and iterations is None:
        raise InputError("nothing to fit is given; expected --nccl-tests, --gemm or --iterations")
    with Progress(enabled=not quiet) as progress:
        result = _Calibration(machine, device, gpus_per_node, output, progress)
        result.collectives(logs)
        if gemm is not None:
            result.products(gemm)
        if iterations is not None:
            result.iterations(iterations)
        result.write()
    if as_json:
        say_json(result.document())
    elif not quiet:
        result.show(Screen())


class _Calibration:
    """The experiment that is fitted part by part, the files that it names, and what is not known of it."""

    def __init__(self, machine: str, device: str | None, gpus_per_node: int, output: str, progress: Progress) -> None:
        self._machine, self._device, self._gpus = machine, device, gpus_per_node
        self._output, self._progress = Path(output), progress
        self.files: list[str] = []
        self.fabric: FabricFit | None = None
        self.factor: FactorFit | None = None
        self.measured: Sequence[Iteration] = ()
        self.unknown: list[str] = []
        self._nodes = 1
        self._network: dict[str, Any] = {"plugin": "analytical", "model": "nccl"}
        self._fits: dict[str, Any] = {}

    def collectives(self, logs: Sequence[str]) -> None:
        """Fit NCCL within a node, and the fabric between nodes."""
        from astra_sim.collective_tables import read_collectives
        from astra_sim.files import read_text
        from astra_sim.schedule import Collective

        from astra_sim_compute_gpu.cluster_fit import LARGE_BYTES, collective_time, fit_fabric, nodes_of

        rows = [row for log in logs for row in read_collectives(read_text(log), log) if row.bytes]
        nodes = [nodes_of(row, self._gpus) for row in rows]
        within = [row for row, count in zip(rows, nodes, strict=True) if count == 1]
        between = [row for row, count in zip(rows, nodes, strict=True) if count > 1]
        self._nodes = max(nodes, default=1)
        if within:
            path = self._beside("nccl")
            self._progress.stage("fitting NCCL within a node", simulates=False)
            self._fits["nccl"] = self._of_table(within, path)
            self._network["parameters"] = str(path.resolve())
            missing = sorted(each.value for each in set(Collective) - {row.operation for row in within})
            if missing:
                self.unknown.append(f"{', '.join(missing)} within a node: not measured; NCCL's parameters are those of the device")
        else:
            self.unknown.append("collectives within a node: no log of one node; NCCL's parameters are those of the device")
        if between:
            self._progress.stage("fitting the fabric between nodes", simulates=False)
            time = collective_time(self._machine, self._network, self._gpus)
            usual_gb_s = self._node(2).dimensions[-1].link_bandwidth
            self.fabric = fit_fabric(between, time, usual_gb_s)
            if self.fabric.nic_gb_s == usual_gb_s:
                self.unknown.append("bandwidth between nodes: collectives do not show that it is another than the machine's, which is kept")
            self._network |= {"fabric_latency": self.fabric.fabric_latency, "nic_efficiency": 1.0}
            if max(row.bytes for row in between) < LARGE_BYTES:
                self.unknown.append(f"bandwidth between nodes: no size from {LARGE_BYTES >> 20} MiB on; it follows from latencies at most")
            if len({row.ranks for row in between}) == 1:
                self.unknown.append(f"more nodes than {self._nodes}: only {between[0].ranks} ranks were measured")
        else:
            self.unknown.append("bandwidth and latency between nodes: no log of several nodes; they are those of the machine")

    def _of_table(self, rows: Sequence[MeasuredCollective], path: Path) -> Any:
        """The fit of `astra calibrate collective` to some rows."""
        with tempfile.TemporaryDirectory() as folder:
            table = Path(folder) / "within_a_node.csv"
            lines = [f"{row.operation.value},{row.ranks},{row.bytes},{row.microseconds!r}\n" for row in rows]
            table.write_text("operation,ranks,bytes,microseconds\n" + "".join(lines))
            arguments = [str(table), "--title", self._machine, "--output", str(path), "--nvlink", f"{self._link_bandwidth():g}"]
            device = self._node().device
            return self._run("collective", *arguments, *(["--based-on", device] if device else []))

    def products(self, table: str) -> None:
        """Fit the device to products of matrices."""
        path = self._beside("device")
        self._progress.stage("fitting products", simulates=False)
        self._fits["gemm"] = self._run("gemm", table, "--device", self._device_name(), "--output", str(path))
        self._device = str(path.resolve())

    def iterations(self, table: str) -> None:
        """Fit the factor of computing to iterations."""
        import astra_sim
        from astra_sim.files import csv_table, finite_number, read_text

        from astra_sim_compute_gpu.cluster_fit import Iteration, fit_factor

        rows = []
        for where, row in csv_table(read_text(table), table, ("experiment", "seconds")):
            rows.append(Iteration(str(Path(table).parent / row["experiment"]), finite_number(row["seconds"], f"{where}: seconds", above=0)))
        if not rows:
            raise astra_sim.InputError(f"{table}: it has no rows; expected measured iterations")
        self.measured = rows
        if len(rows) < _LEAST_ITERATIONS:
            self.unknown.append("the error of iterations: one alone is fitted exactly; expected two or more")
        self._progress.stage("fitting iterations", simulates=False)
        self.factor = fit_factor(rows, self._seconds_of)

    def _seconds_of(self, path: str, factor: float) -> float:
        """The iteration of an experiment with what has been fitted."""
        import astra_sim

        experiment = astra_sim.load_experiment(path)
        platform = experiment.sections.get("platform")
        if isinstance(platform, Mapping) and platform.get("plugin") == self._machine and self.fabric is not None:
            experiment.sections["platform"] = {**platform, "nic_gb_s": self.fabric.nic_gb_s}
        if "fabric_latency" in self._network or "parameters" in self._network:
            experiment.sections["network"] = dict(self._network)
        compute = experiment.sections.get("compute")
        if isinstance(compute, Mapping) and self._device is not None:
            experiment.sections["compute"] = {**compute, "device": self._device}
        figures = astra_sim.simulate(experiment, compute_scale=factor).to_dict()
        return float(figures.get("iteration_s") or figures["finish_ns"] / 1e9)

    def write(self) -> None:
        """Write the experiment."""
        from astra_sim.toml_text import write_toml

        platform: dict[str, Any] = {"plugin": self._machine, "nodes": self._nodes}
        if self.fabric is not None:
            platform["nic_gb_s"] = self.fabric.nic_gb_s
        table: dict[str, Any] = {
            "name": self._output.stem,
            "platform": platform,
            "network": self._network,
            "compute": {"plugin": "gpu", **({} if self._device is None else {"device": self._device})},
        }
        if self.factor is not None:
            table["run"] = {"compute_scale": self.factor.compute_scale}
        write_toml(table, str(self._output), "A cluster, fitted by astra calibrate cluster: an experiment without a workload")
        self.files.insert(0, str(self._output))

    def document(self) -> dict[str, Any]:
        """The fits, ready for JSON."""
        import attrs

        fabric, factor = (None if each is None else attrs.asdict(each) for each in (self.fabric, self.factor))
        return {"files": self.files, "fits": self._fits, "fabric": fabric, "iterations": factor, "not_identified": self.unknown}

    def show(self, screen: Screen) -> None:
        """Print what was fitted, with its error on what was held out."""
        rows = [[name, f"{100 * error:.1f}", "-" if held is None else f"{100 * held:.1f}"] for name, error, held in self._errors()]
        if rows:
            columns = (Column("fit", "text"), Column("error (%)"), Column("held out (%)"))
            screen.table(Table(columns, rows, "Mean errors, of what was fitted and of what was held out"))
        if self.fabric is not None:
            screen.text(f"between nodes: {self.fabric.nic_gb_s:g} GB/s a GPU and direction, latency {self._latency()}")
        if self.factor is not None:
            screen.text(f"computing takes {self.factor.compute_scale:g} times as long")
        for each in self.unknown:
            screen.text(f"not identified: {each}", "  ")
        screen.text(f"written: {', '.join(self.files)}")

    def _errors(self) -> list[tuple[str, float, float | None]]:
        """The name, the error and the held-out error of each fit."""
        nccl, gemm = (self._fits.get(name, {}).get("fits", ()) for name in ("nccl", "gemm"))
        rows: list[tuple[str, float, float | None]] = []
        rows += [(f"{each['name']} within a node", each["used"]["mean"], each["held_out"]["mean"]) for each in nccl]
        if self.fabric is not None:
            rows.append((f"collectives of up to {self._nodes} nodes", self.fabric.error, self.fabric.held_out))
        rows += [(each["name"], each["fitted"]["mean"], each["held_out"]["mean"]) for each in gemm]
        if self.factor is not None:
            held = None if self.factor.held_out is None else _mean(self.factor.held_out)
            rows.append((f"{len(self.measured)} iterations", _mean(self.factor.errors), held))
        return rows

    def _latency(self) -> str:
        assert self.fabric is not None
        name = self.fabric.fabric_latency
        return name if name.isalpha() else f"{name} us"

    def _run(self, name: str, *arguments: str) -> Any:
        """The JSON of another command of `astra calibrate`. Raises InputError as it does."""
        import contextlib
        import io
        import json

        from astra_sim.commands import shared_plugins

        command = shared_plugins().get("command", f"calibrate {name}").load_factory()
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            command.main(args=[*arguments, "--json"], standalone_mode=False)
        document = json.loads(printed.getvalue())
        self.files += document["files"]
        return document

    def _device_name(self) -> str:
        """The device to start from: the machine's, unless one is named. Raises InputError if the machine names none."""
        from astra_sim import InputError

        name = self._device or self._node().device
        if not name:
            raise InputError(f"platform {self._machine!r} names no device; expected --device")
        return name

    def _link_bandwidth(self) -> float:
        """The bandwidth of a GPU within a node of the machine, in one direction (GB/s)."""
        node = self._node().dimensions[0]
        return node.link_bandwidth * node.topology.links_per_message()

    def _node(self, nodes: int = 1) -> Platform:
        """Nodes of the machine. Raises InputError if there is no machine of this name."""
        from astra_sim import Experiment, InputError
        from astra_sim.commands import build_platform, shared_plugins

        experiment = Experiment()
        try:
            experiment.use("platform", {"plugin": self._machine, "nodes": nodes}, shared_plugins())
            return build_platform(experiment, shared_plugins())
        except InputError as error:
            raise InputError(f"--machine is {self._machine!r}: {error}; expected a platform of nodes, such as dgx_h100") from None

    def _beside(self, part: str) -> Path:
        """The path of a file of a part of the cluster."""
        return self._output.with_name(f"{self._output.stem}_{part}.toml")


def _mean(errors: Sequence[float]) -> float:
    return sum(map(abs, errors)) / len(errors)
