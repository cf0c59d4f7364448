"""The report `astra1`: which files it has."""

from __future__ import annotations

from collections.abc import Sequence

from astra_sim.reports import ReportFolder, Result

from astra_sim_reports_astra1.tables import backend_dim_info, backend_end_to_end, detailed, end_to_end, tutorial_result
from astra_sim_reports_astra1.utilisation import utilisation_files

TABLES = {
    "EndToEnd.csv": end_to_end,
    "detailed.csv": detailed,
    "backend_end_to_end.csv": backend_end_to_end,
    "backend_dim_info.csv": backend_dim_info,
    "tutorial_result.csv": tutorial_result,
}
"""The files that runs share, a row or more each."""


def write(results: Sequence[Result], folder: ReportFolder) -> None:
    """Write the tables of all runs, and how busy the dimensions of each are in time."""
    for name, table in TABLES.items():
        folder.write(name, table(results))
    for name, lines in utilisation_files(results, folder.series):
        folder.write(name, lines)
