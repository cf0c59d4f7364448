"""Findings of the physics audit on standard error."""

from __future__ import annotations

import sys

import click

from astra_sim.errors import printable
from astra_sim.report.layout import wrapped
from astra_sim.report.result import Result


def say_findings(result: Result, label: str = "") -> None:
    """A line on standard error for each finding of a run, broken at words on a terminal; `label` tells several runs apart."""
    of = f" of {printable(label)}" if label else ""
    width = None
    if result.audit and sys.stderr is not None and sys.stderr.isatty():
        import shutil

        width = shutil.get_terminal_size().columns
    for finding in result.audit:
        for line in wrapped(f"astra: audit{of}: {finding.message}", width, further="  "):
            click.echo(line, err=True)
