"""Hooks."""

from __future__ import annotations

from astra_sim import Provider, hookimpl


@hookimpl
def astra_reports() -> list[Provider]:
    return [Provider("timeline", "A timeline of the run, for Perfetto or Chrome", "astra_sim_report.timeline:write")]


@hookimpl
def astra_commands() -> list[Provider]:
    return [
        Provider("plot", "Draw a figure of runs for a paper: SVG, PDF or PNG.", "astra_sim_report.commands:plot"),
        Provider("report", "Write a page of HTML about runs.", "astra_sim_report.commands:report"),
        Provider(
            "timeline", "Write a timeline of a run that is over, for Perfetto or Chrome.", "astra_sim_report.timeline_command:timeline"
        ),
    ]
