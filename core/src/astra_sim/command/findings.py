"""Findings of the physics audit on standard error."""

from __future__ import annotations

import click

from astra_sim.errors import printable
from astra_sim.report.result import Result


def say_findings(result: Result, label: str = "") -> None:
    """A line on standard error for each finding of a run; `label` tells several runs apart."""
    of = f" of {printable(label)}" if label else ""
    for finding in result.audit:
        click.echo(f"astra: audit{of}: {finding.message}", err=True)
