"""The command: what it prints."""

from __future__ import annotations

import json

import click
from astra_sim.commands import Experiment, build_platform, shared_plugins


@click.command()
@click.option("--platform", required=True, metavar="S", help="Platform: plugin:NAME[?key=value&...] or a file.")
def links(platform: str) -> None:
    """Say how fast the links of a platform are."""
    experiment, plugins = Experiment(), shared_plugins()
    experiment.use("platform", platform, plugins)
    rows = [
        {"topology": each.topology.name, "npus": each.size, "gb_per_s": each.link_bandwidth, "latency_ns": each.link_latency_ns}
        for each in build_platform(experiment, plugins).dimensions
    ]
    click.echo(json.dumps(rows))
