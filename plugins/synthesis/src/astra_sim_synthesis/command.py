"""The command `astra synthesize`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from astra_sim.commands import (
    Column,
    Progress,
    Screen,
    Table,
    component_options,
    json_option,
    quiet_option,
    say_json,
    shared_plugins,
    write_then_show,
)
from astra_sim.errors import InputError
from astra_sim.schedule import Collective
from astra_sim.units import parse_size

METHODS = ("fastest", "trees", "matching", "buckets", "exchanges", "circulant", "auto", "milp")
"""Ways to make a plan; `fastest` compares all but the last."""
_MOST_SIZES = 64


def parse_sizes(text: str) -> list[int]:
    """Bytes: sizes and ranges A..B, which grow fourfold and end with B, with commas between. Raises InputError."""
    sizes: list[int] = []
    for part in text.split(","):
        first, dots, last = part.partition("..")
        low, high = (parse_size(end, "--bytes") for end in (first, last if dots else first))
        if low > high:
            raise InputError(f"--bytes: {part.strip()} falls; expected SMALLEST..LARGEST")
        while low < high:
            sizes.append(low)
            low *= 4
        sizes.append(high)
    if len(sizes) > _MOST_SIZES:
        raise InputError(f"--bytes: {len(sizes)} sizes; at most {_MOST_SIZES} can be planned")
    return sorted({*sizes})


def path_of(output: str, size: int, several: bool) -> str:
    """The path of the plan for a size: with several sizes the bytes are before the ending."""
    path = Path(output)
    return str(path.with_name(f"{path.stem}.{size}{path.suffix}")) if several else output


@click.command()
@component_options(multiple=False, kinds=("platform", "network", "system"))
@click.option(
    "--collective",
    type=click.Choice([each.value for each in Collective]),
    default="all_reduce",
    show_default=True,
    help="The collective.",
)
@click.option(
    "--method",
    type=click.Choice(METHODS),
    default=METHODS[0],
    show_default=True,
    help="How plans are made; fastest compares all but milp, which is for 8 ranks and needs highspy.",
)
@click.option("--bytes", "sizes", metavar="A..B[,C...]", required=True, help="Sizes, which grow fourfold from A to B.")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Write the plan: FILE.json in the format of MSCCL++, else in that of MSCCL.",
)
@json_option
@quiet_option
def synthesize(
    assignments: tuple[str, ...],
    collective: str,
    method: str,
    sizes: str,
    output: str | None,
    as_json: bool,
    quiet: bool,
    **components: str | None,
) -> None:
    """Design a collective of all NPUs of a platform, for each size by itself.

    \b
    astra synthesize --collective all_reduce --bytes 64MiB --output plan.xml \\
        --platform 'plugin:torus?sizes=4,4&link_bandwidth_gb_per_s=50'

    The time is simulated, of one collective by itself; the lower bound follows from the links alone, so no schedule is faster. The plan is
    never slower than the system layer's own algorithm (auto), unless --method names another. The size of an all-gather is the bytes of each
    rank at the end, that of the others those at the start.
    """
    from astra_sim_synthesis.judge import Judge
    from astra_sim_synthesis.msccl_file import msccl_xml
    from astra_sim_synthesis.mscclpp_file import mscclpp_json
    from astra_sim_synthesis.synthesis import NETWORK, Plan, Synthesizer

    if components["platform"] is None:
        raise InputError("--platform is missing; expected plugin:NAME[?key=value&...] or a file")
    wanted, kind = parse_sizes(sizes), Collective(collective)
    network = components["network"] or NETWORK
    synthesizer = Synthesizer(Judge.of(components["platform"], network, components["system"], shared_plugins(), assignments), method)
    plans: list[Plan] = []
    with Progress(enabled=not quiet) as progress:
        for number, size in enumerate(wanted):
            progress.stage(f"{size} bytes", number / len(wanted), 1 / len(wanted))
            plans.append(synthesizer.plan(kind, size))
    files: list[str] = []
    rows = [_row(size, plan) for size, plan in zip(wanted, plans, strict=True)]

    def write() -> None:
        for size, plan in zip(wanted, plans, strict=True) if output is not None else ():
            path = path_of(output or "", size, len(wanted) > 1)
            name = f"{kind.value}_{plan.request.ranks}_{size}"
            text_of = mscclpp_json if path.endswith(".json") else msccl_xml
            Path(path).write_text(text_of(plan.designed, plan.request, name), encoding="utf-8")
            files.append(os.fspath(path))

    def show() -> None:
        if as_json:
            say_json({"collective": kind.value, "ranks": plans[0].request.ranks, "plans": rows, "files": files})
        elif not quiet:
            _print(kind, rows, plans, files)

    write_then_show(write, show)


def _row(size: int, plan: Any) -> dict[str, Any]:
    """The figures of a plan, as JSON has them."""
    return {
        "bytes": size,
        "time_ns": plan.time_ns,
        "bound_ns": plan.bound.time_ns,
        "gap": plan.gap,
        "auto_ns": plan.auto_ns,
        "method": plan.method,
        "bound": plan.bound.reason,
        "proof": plan.proof,
        "is_fallback": plan.is_fallback,
        "designed_ns": plan.designed_ns,
    }


def _print(kind: Collective, rows: Sequence[dict[str, Any]], plans: Sequence[Any], files: Sequence[str]) -> None:
    """Print a row for each size, and its proof."""
    screen = Screen(every=True)
    columns = [
        Column("bytes", "word"),
        Column("time\n(us)"),
        Column("bound\n(us)"),
        Column("gap\n(%)"),
        Column("auto\n(us)"),
        Column("method", "word"),
    ]
    cells = [
        [
            str(row["bytes"]),
            f"{row['time_ns'] / 1e3:.2f}",
            f"{row['bound_ns'] / 1e3:.2f}",
            "-" if row["gap"] is None else f"{100 * row['gap']:.1f}",
            f"{row['auto_ns'] / 1e3:.2f}",
            row["method"],
        ]
        for row in rows
    ]
    screen.table(Table(columns, cells, f"{kind.value} on {plans[0].request.ranks} ranks, network {plans[0].network}"))
    for plan in plans:
        screen.text(f"{plan.request.bytes} bytes a rank: proof: {plan.proof}")
        screen.text(f"{plan.request.bytes} bytes a rank: bound: {plan.bound.reason}")
        if plan.gap is None:
            screen.text("the time is below the bound: on this network messages share links and do not wait for each other")
    if any(plan.is_fallback for plan in plans) and files:
        screen.text("where auto is faster the file holds the best plan that was made, not auto's phases")
    for path in files:
        screen.text(f"wrote {path}")
