"""Collectives against measured tables, every second size held out: fits devices of the model `nccl`, and compares (docs/nccl.md)."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
from astra_sim.collective_tables import MeasuredCollective, operation_of
from astra_sim.fitting import ErrorOf, error_of
from astra_sim.platform import GroupShape
from astra_sim.schedule import Collective
from astra_sim.toml_text import to_toml
from astra_sim_network_analytical.nccl import Prices
from astra_sim_network_analytical.nccl_fit import LARGE_BYTES, fit_collective, is_fitted
from astra_sim_network_analytical.nccl_parameters import Parameters, read_device, table_of

DATA = Path(__file__).parent / "data" / "collectives.jsonl"
DEVICES = Path(__file__).parents[1] / "plugins/network_analytical/src/astra_sim_network_analytical/nccl"


@attrs.frozen
class Table:
    """A named table: the lines of one GPU and version of NCCL, for one device of the package."""

    device: str
    gpu: str
    nccl: str
    nvls: bool = True
    channels: int | None = None

    @property
    def title(self) -> str:
        """The device's title."""
        return f"{self.gpu}, NCCL {self.nccl}"


TABLES = (
    Table("a100", "A100-SXM4-80GB", "2.27.3", nvls=False, channels=24),
    Table("h100", "H100-SXM5-80GB", "2.29.2", channels=16),
    Table("h200", "H200", "2.29.2", channels=16),
    Table("b200", "B200-SXM", "2.29.2"),
    Table("b300", "B300-SXM", "2.29.2"),
    Table("gb200", "GB200", "2.29.2"),
    Table("gb300", "GB300", "2.29.2"),
)


@attrs.frozen
class Comparison:
    """The error of a device for a collective on so many ranks: over fitted sizes, held-out ones, and of these from 1 MiB on."""

    device: str
    operation: Collective
    ranks: int
    fitted: ErrorOf
    held_out: ErrorOf
    held_out_large: ErrorOf


def lines() -> list[dict[str, Any]]:
    """All lines of the data."""
    return [json.loads(line) for line in DATA.read_text().splitlines()]


def rows_of(table: Table) -> list[MeasuredCollective]:
    """The measurements of a table."""
    found = (line for line in lines() if (line["gpu"], line.get("nccl")) == (table.gpu, table.nccl))
    return [MeasuredCollective(operation_of(each["op"], "data"), each["ranks"], each["bytes"], float(each["value"])) for each in found]


def fit_device(table: Table) -> dict[str, Any]:
    """The table of a device file, fitted to the fitting half of a named table."""
    rows, fits, sources = rows_of(table), [], {}
    for operation in Collective:
        part = [row for row in rows if row.operation is operation]
        found = fit_collective(operation, part, table.nvls)
        fits += found.fits
        sources[operation.value] = f"{found.fitted.rows} rows fitted, {found.held_out.rows} held out: error {found.held_out}"
    source = next(line["source"] for line in lines() if (line["gpu"], line.get("nccl")) == (table.gpu, table.nccl))
    sources["table"] = f"{source['repo']}, {source['path']}, commit {source['commit']}; the sample in validation/data/collectives.jsonl"
    if table.channels is not None:
        sources["channels"] = "as NCCL logs them on such machines; not part of the table"
    return table_of(table.title, fits, sources, table.channels)


def compare(table: Table, parameters: Parameters) -> Iterator[Comparison]:
    """Parameters against a named table."""
    prices, rows = Prices(parameters), rows_of(table)
    for operation in Collective:
        for ranks in sorted({row.ranks for row in rows if row.operation is operation}):
            part = [row for row in rows if (row.operation, row.ranks) == (operation, ranks)]
            shape = GroupShape((ranks, 1), ranks)

            def error(chosen: Sequence[MeasuredCollective], operation: Collective = operation, shape: GroupShape = shape) -> ErrorOf:
                return error_of((row.bytes, abs(prices.us(operation, row.bytes, shape) / row.microseconds - 1)) for row in chosen)

            held_out = [row for row in part if not is_fitted(row)]
            large = [row for row in held_out if row.bytes >= LARGE_BYTES]
            yield Comparison(table.device, operation, ranks, error([row for row in part if is_fitted(row)]), error(held_out), error(large))


def comparisons() -> list[Comparison]:
    """The devices of the package against their tables."""
    return [each for table in TABLES for each in compare(table, read_device(table.device))]


def markdown(found: Sequence[Comparison]) -> str:
    """A table of comparisons for a page."""
    text = ["| device | collective | ranks | fitted (rows) | held out (rows) | held out from 1 MiB (rows) |"]
    text.append("|---|---|---:|---:|---:|---:|")
    for each in found:
        errors = (f"{part.mean:.1%} ({part.rows})" if part.rows else "" for part in (each.fitted, each.held_out, each.held_out_large))
        text.append(f"| {each.device} | {each.operation} | {each.ranks} | {' | '.join(errors)} |")
    return "\n".join(text)


def main() -> None:
    """Print the comparison; with --fit write the device files first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fit", action="store_true", help="fit the device files of the package first")
    if parser.parse_args().fit:
        for table in TABLES:
            comment = "Parameters of NCCL in a node, fitted by validation/collectives.py --fit (docs/nccl.md)"
            (DEVICES / f"{table.device}.toml").write_text(to_toml(fit_device(table), comment))
    print(markdown(comparisons()))


if __name__ == "__main__":
    main()
