"""Collectives against measured tables: fits devices of the model `nccl`, and compares (validation/COLLECTIVES.md).

In a node every second size is held out: the published errors are of parameters of the others alone, in data/nccl_half. The
device files of the package are of all sizes; those of Blackwell have the measured times beside, with those of other Blackwell devices for
large sizes that a table lacks. Between nodes nothing is fitted.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import statistics
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
from astra_sim.collective_tables import MeasuredCollective, operation_of
from astra_sim.fitting import ErrorOf, error_of
from astra_sim.platform import GroupShape
from astra_sim.schedule import Collective
from astra_sim.toml_text import to_toml
from astra_sim_network_analytical.nccl import NcclPrices
from astra_sim_network_analytical.nccl_fabrics import on_fabric
from astra_sim_network_analytical.nccl_fit import LARGE_BYTES, Calibration, NcclNode, calibrated, fits_of, is_fitted, levelled_times
from astra_sim_network_analytical.nccl_parameters import NcclFit, NcclParameters, parameters_of, read_device, read_parameters, table_of

DATA = Path(__file__).parent / "data" / "collectives.jsonl"
NODES = Path(__file__).parent / "data" / "collectives_nodes.jsonl"
HALVES = Path(__file__).parent / "data" / "nccl_half"
DEVICES = Path(__file__).parents[1] / "plugins/network_analytical/src/astra_sim_network_analytical/nccl"


_BLACKWELL_CHANNELS, _BLACKWELL_NVLINK = 32, 900

BLACKWELL = ("b200", "b300", "gb200", "gb300")
"""Devices whose multiprocessors and links within a node are the same, and where NCCL changes its algorithm in steps."""


@attrs.frozen
class Table:
    """A named table: the lines of one GPU and version of NCCL, for one device of the package."""

    device: str
    gpu: str
    nccl: str
    nvlink_gb_per_s: float
    nvls: bool = True
    channels: int | None = None
    amd: bool = False
    racks: bool = False

    @property
    def between_nodes(self) -> dict[str, Any]:
        """What differs between nodes: NCCL reckons with twice the time to post a step where processors are of AMD. Racks of GB200 send at
        most so much: by the rows of 2 and 8 GiB on 1440 ranks.
        """
        own: dict[str, Any] = {"post_us": {"ll": 2.0, "ll128": 2.0, "simple": 6.0, "nvls": 0.0}} if self.amd else {}
        return own | ({"nvls_gb_per_s": 434.0} if self.racks else {})

    @property
    def nvls_channels(self) -> int | None:
        """Channels of NVLS between nodes of Blackwell (NCCL, src/transport/nvls.cc); none: those of Hopper."""
        return _BLACKWELL_CHANNELS if self.nvlink_gb_per_s == _BLACKWELL_NVLINK else None

    @property
    def name(self) -> str:
        """The name of its files."""
        return f"{self.device}-{self.nccl}"

    @property
    def title(self) -> str:
        """The device's title."""
        return f"{self.gpu}, NCCL {self.nccl}"


TABLES = (
    Table("a100", "A100-SXM4-80GB", "2.27.3", 300, nvls=False, channels=24, amd=True),
    Table("h100", "H100-SXM5-80GB", "2.29.2", 450, channels=16),
    Table("h200", "H200", "2.29.2", 450, channels=16),
    Table("b200", "B200-SXM", "2.29.2", 900),
    Table("b300", "B300-SXM", "2.29.2", 900),
    Table("gb200", "GB200", "2.29.2", 900, racks=True),
    Table("gb300", "GB300", "2.29.2", 900),
    Table("h100", "H100-SXM5-80GB", "2.27.3", 450),
    Table("h200", "H200", "2.26.2", 450),
    Table("b200", "B200-SXM", "2.27.3", 900),
    Table("b200", "B200-SXM", "2.27.5", 900),
    Table("b200", "B200-SXM", "2.28.9", 900),
    Table("b300", "B300-SXM", "2.27", 900),
    Table("gb200", "GB200", "2.23", 900, racks=True),
    Table("gb300", "GB300", "2.27", 900),
)
"""Those with all four collectives: of each device first the newest version, whose errors the page has line by line."""


@attrs.frozen
class Machine:
    """A machine of several nodes: its system in the data, the device of a node, the share of a GPU in the NICs (10^9 bytes/s), and what
    connects nodes.
    """

    system: str
    device: str
    per_node: int
    nic_gb_per_s: float
    fabric: str = "infiniband"


MACHINES = (
    Machine("GB200 NVL72, 72 ranks", "gb200", 72, 50),
    Machine("2x GB200 NVL72, 144 ranks", "gb200", 72, 50),
    Machine("20x GB200 NVL72, 1440 ranks", "gb200", 72, 50),
    Machine("CoreWeave, mpijob example of 64+ GPUs", "h100", 8, 50),
    Machine("2x 8 H100, A3 Mega, GPUDirect-TCPXO 8x 200 Gb/s", "h100", 8, 25, "tcpxo"),
    Machine("a3-megagpu-8g, 16 GPUs, two nodes, GPUDirect-TCPXO", "h100", 8, 25, "tcpxo"),
    Machine("4x 8 B200, EFA v4 (P6-B200)", "b200", 8, 50, "efa"),
)


@attrs.frozen
class Comparison:
    """The error of a device for a collective on a number of ranks: of parameters of half of the sizes over these, over the others, and over
    the others from 1 MiB on; and of the times of alike devices, over sizes from 1 MiB on that both have.
    """

    table: Table
    operation: Collective
    ranks: int
    fitted: ErrorOf
    held_out: ErrorOf
    held_out_large: ErrorOf
    others: ErrorOf

    @property
    def device(self) -> str:
        """The device file, DEVICE-VERSION."""
        return self.table.name


@functools.cache
def lines(path: Path = DATA) -> list[dict[str, Any]]:
    """All lines of a file of the data."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def rows_of(table: Table) -> list[MeasuredCollective]:
    """The measurements of a table."""
    result = (line for line in lines() if (line["gpu"], line.get("nccl")) == (table.gpu, table.nccl))
    return [MeasuredCollective(operation_of(each["op"], "data"), each["ranks"], each["bytes"], float(each["value"])) for each in result]


def calibrate(table: Table) -> Calibration:
    """Parameters of a named table, by the procedure of the page."""
    node = NcclNode(table.nvls, table.nvlink_gb_per_s)
    return calibrated(rows_of(table), lambda rows: fits_of(rows, node))


def times_of_alike(table: Table, operation: Collective, ranks: int) -> dict[int, float]:
    """The median time (us) of each size from 1 MiB on of other devices of Blackwell with the same version of NCCL; none elsewhere."""
    found: dict[int, list[float]] = {}
    for other in TABLES if table.device in BLACKWELL else ():
        if other.device in BLACKWELL and other.device != table.device and other.nccl == table.nccl:
            for row in rows_of(other):
                if (row.operation, row.ranks) == (operation, ranks) and row.bytes >= LARGE_BYTES:
                    found.setdefault(row.bytes, []).append(row.microseconds)
    return {size: statistics.median(times) for size, times in found.items()}


def with_times(table: Table, fit: NcclFit) -> NcclFit:
    """A fit with the measured times of its table, and of devices alike for large sizes that the table lacks."""
    operation = Collective(fit.operation)
    own = {row.bytes: row.microseconds for row in rows_of(table) if (row.operation, row.ranks) == (operation, fit.ranks)}
    times = times_of_alike(table, operation, fit.ranks) | own
    sizes = tuple(sorted(times))
    levelled = (float(f"{time:.4g}") for time in levelled_times([times[size] for size in sizes]))
    return attrs.evolve(fit, bytes=tuple(map(float, sizes)), microseconds=tuple(levelled))


_ORDER = [each.value for each in Collective]


def fits_of_alike(table: Table, own: Iterable[NcclFit]) -> list[NcclFit]:
    """Those for numbers of ranks that a table lacks: of the other device of Blackwell with the same version of NCCL whose rows of them
    reach the largest size.
    """
    known = {(fit.operation, fit.ranks) for fit in own}
    found: dict[tuple[str, int], tuple[int, NcclFit]] = {}
    for other in TABLES if table.device in BLACKWELL else ():
        if other.device in BLACKWELL and other.device != table.device and other.nccl == table.nccl:
            largest: dict[tuple[str, int], int] = {}
            for row in rows_of(other):
                key = row.operation.value, row.ranks
                largest[key] = max(row.bytes, largest.get(key, 0))
            for fit in parameters_of(tomllib.loads((DEVICES / f"{other.name}.toml").read_text()), other.name).fits:
                key = fit.operation, fit.ranks
                if key in largest and key not in known and (key not in found or largest[key] > found[key][0]):
                    found[key] = largest[key], attrs.evolve(fit, bytes=(), microseconds=(), beyond=None)
    return [fit for _, fit in found.values()]


def with_all_times(table: Table, whole: dict[str, Any]) -> dict[str, Any]:
    """The device file of a named table with the measured times, where it is of Blackwell."""
    if table.device not in BLACKWELL:
        return whole
    between = [each for each in compare(table) if each.others.rows]
    own = parameters_of(whole, table.name).fits
    fits = [with_times(table, fit) for fit in sorted((*own, *fits_of_alike(table, own)), key=lambda fit: _ORDER.index(fit.operation))]
    table_of_fit = functools.partial(attrs.asdict, filter=lambda field, value: value not in (None, (), 0.0))
    rows = [{key: list(value) if isinstance(value, tuple) else value for key, value in table_of_fit(fit).items()} for fit in fits]
    source = "those of the table"
    if between:
        off, count = mean([each.others for each in between]), sum(each.others.rows for each in between)
        source += (
            "; from 1 MiB on, where it has none, the median of other devices of Blackwell with the same NCCL, which differs from the"
            f" table by {off:.1%} where both have one ({count} rows)"
        )
    return {**whole, "sources": {**whole["sources"], "times": source}, "fits": rows}


def files_of(table: Table) -> tuple[dict[str, Any], dict[str, Any]]:
    """The device file of a named table, made of all its rows; and that of half of the sizes, whose error is published."""
    result = calibrate(table)
    source = next(line["source"] for line in lines() if (line["gpu"], line.get("nccl")) == (table.gpu, table.nccl))
    origin = f"{source['repo']}, {source['path']}, commit {source['commit']}; the sample in validation/data/collectives.jsonl"
    sources = {operation.value: result.source(operation) for operation in Collective} | {"table": origin}
    if table.channels is not None:
        sources["channels"] = "as NCCL logs them on such machines; not part of the table"
    own = table.between_nodes, table.nvlink_gb_per_s, table.nvls_channels
    half = table_of(f"{table.title}, half of the sizes", result.half, {"table": origin}, table.channels, *own)
    return with_all_times(table, table_of(table.title, result.fits, sources, table.channels, *own)), half


def half_of(table: Table) -> NcclParameters:
    """The parameters of half of the sizes of a named table."""
    return read_parameters(str(HALVES / f"{table.name}.toml"))


def compare(table: Table) -> Iterator[Comparison]:
    """The parameters of half of the sizes of a named table, and the times of devices alike, against it."""
    half, rows = NcclPrices(half_of(table)), rows_of(table)
    for operation in Collective:
        for ranks in sorted({row.ranks for row in rows if row.operation is operation}):
            part = [row for row in rows if (row.operation, row.ranks) == (operation, ranks)]
            held_out = [row for row in part if not is_fitted(row)]
            yield Comparison(
                table,
                operation,
                ranks,
                fitted=error(half, filter(is_fitted, part)),
                held_out=error(half, held_out),
                held_out_large=error(half, (row for row in held_out if row.bytes >= LARGE_BYTES)),
                others=error_of_alike(table, operation, ranks, part),
            )


def error_of_alike(table: Table, operation: Collective, ranks: int, part: Iterable[MeasuredCollective]) -> ErrorOf:
    """The error of the times of devices alike, over the rows of a table that both have."""
    times = times_of_alike(table, operation, ranks)
    return error_of(
        ((row.operation, row.ranks, row.bytes), abs(times[row.bytes] / row.microseconds - 1)) for row in part if row.bytes in times
    )


def error(prices: NcclPrices, rows: Iterable[MeasuredCollective]) -> ErrorOf:
    """The error of prices over measurements in a node."""

    def off(row: MeasuredCollective) -> float:
        return abs(prices.us(row.operation, row.bytes, GroupShape((row.ranks, 1), row.ranks)) / row.microseconds - 1)

    return error_of(((row.operation, row.ranks, row.bytes), off(row)) for row in rows)


def comparisons() -> list[Comparison]:
    """The named tables against themselves."""
    return [each for table in TABLES for each in compare(table)]


def markdown(found: Sequence[Comparison]) -> str:
    """A table of comparisons for a page: the newest version of each device, line by line."""
    newest = {table.device: table for table in reversed(TABLES)}
    text = [
        "| device | collective | ranks | fitted (rows) | held out (rows) | held out from 1 MiB (rows) | by others of Blackwell (rows) |"
    ]
    text.append("|---|---|---:|---:|---:|---:|---:|")
    for each in found:
        if newest[each.table.device] is each.table:
            parts = (each.fitted, each.held_out, each.held_out_large, each.others)
            errors = (f"{part.mean:.1%} ({part.rows})" if part.rows else "" for part in parts)
            text.append(f"| {each.table.device} | {each.operation} | {each.ranks} | {' | '.join(errors)} |")
    return "\n".join(text)


def summary(found: Sequence[Comparison]) -> str:
    """A table of the errors of all named tables for a page, over all their collectives."""
    text = [
        "| device and NCCL | rows | fitted | held out | held out from 1 MiB | by others of Blackwell |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for table in TABLES:
        own = [each for each in found if each.table is table]
        columns = [[getattr(each, name) for each in own] for name in ("fitted", "held_out", "held_out_large", "others")]
        rows = sum(each.fitted.rows + each.held_out.rows for each in own)
        text.append(f"| {table.name} | {rows} | {' | '.join(map(mean_words, columns))} |")
    return "\n".join(text)


def mean_words(errors: Sequence[ErrorOf]) -> str:
    """The mean in words; nothing without rows."""
    return f"{mean(errors):.1%}" if any(each.rows for each in errors) else ""


def mean(errors: Sequence[ErrorOf]) -> float:
    """The mean over all rows of several errors."""
    return sum(each.mean * each.rows for each in errors) / sum(each.rows for each in errors)


def between_nodes() -> str:
    """A table for a page: machines of several nodes against the model, nothing fitted."""
    text = ["| machine | NIC share (GB/s) | below 1 MiB (rows) | below 1 GiB (rows) | from 1 GiB (rows) |", "|---|---:|---:|---:|---:|"]
    for machine in MACHINES:
        errors = list(node_errors(machine))
        columns = []
        for least, limit in pairwise((0, LARGE_BYTES, 1 << 30, math.inf)):
            part = [error for size, error in errors if least <= size < limit]
            off, bias = (sum(part) / len(part) if part else 0.0 for part in ([abs(error) for error in part], part))
            columns.append(f"{off:.1%}, bias {bias:+.1%} ({len(part)})" if part else "")
        text.append(f"| {machine.system} | {machine.nic_gb_per_s:g} | {' | '.join(columns)} |")
    return "\n".join(text)


def node_errors(machine: Machine) -> Iterator[tuple[int, float]]:
    """Sizes measured on a machine of several nodes, and model / measured - 1."""
    parameters, latency_us = on_fabric(read_device(machine.device), machine.fabric)
    prices = NcclPrices(parameters, (0, machine.nic_gb_per_s), latencies=(parameters.between_nodes.latency_us, latency_us))
    for line in lines(NODES):
        if line["system"] == machine.system:
            ranks, size = line["ranks"], line["bytes"]
            shape = GroupShape((ranks, ranks // machine.per_node, 1), machine.per_node)
            yield size, prices.us(operation_of(line["op"], "data"), size, shape) / line["value"] - 1


def main() -> None:
    """Print the comparisons; with --fit write the device files first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fit", action="store_true", help="fit the device files of the package first, and those of half of the sizes")
    parser.add_argument("--times", action="store_true", help="write the measured times into the device files, without a fit")
    options = parser.parse_args()
    comment = "Parameters of NCCL in a node, fitted by validation/collectives.py --fit (validation/COLLECTIVES.md)"
    if options.fit:
        for table in TABLES:
            whole, half = files_of(table)
            (DEVICES / f"{table.name}.toml").write_text(to_toml(whole, comment))
            (HALVES / f"{table.name}.toml").write_text(to_toml(half, comment))
    if options.times:
        for table in TABLES:
            file = DEVICES / f"{table.name}.toml"
            file.write_text(to_toml(with_all_times(table, tomllib.loads(file.read_text())), comment))
    result = comparisons()
    print(markdown(result), summary(result), between_nodes(), sep="\n\n")


if __name__ == "__main__":
    main()
