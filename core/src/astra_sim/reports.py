"""The interface of reports: files about the results of one run or several.

A report plugin (hook `astra_reports`) is a function of the results and a `ReportFolder`. The files of all reports of a command take
their names together, when all of them are complete.

Examples:

A report (hook `astra_reports`) writes files about results, here a line for each layer:

    >>> from astra_sim import simulate
    >>> from astra_sim.files import FileSet
    >>> from astra_sim.reports import DimensionFigures, LayerFigures, PassFigures, ReportFile, ReportFolder, Result, Series
    >>> def write_layers(results: list[Result], folder: ReportFolder) -> None:
    ...     for result in results:
    ...         for layer in result.layers:
    ...             figures: PassFigures = layer.weight_gradient
    ...             folder.write("layers.csv", [f"{layer.name},{figures.total_comm_ns},{figures.exposed_comm_ns}\\n"])
    >>> platform = "plugin:ring?size=4&links=2&link_bandwidth_gb_per_s=25&link_latency_ns=500"
    >>> result = simulate(workload="plugin:collective?bytes=1MiB", platform=platform, explain=True, timelines=True)
    >>> series: Series = "limited"
    >>> with FileSet() as files:
    ...     write_layers([result], ReportFolder("report", files, series, "report layers"))
    ...     write_layers([result], ReportFile("one-file.csv", files, "report layers"))
    >>> from pathlib import Path
    >>> Path("one-file.csv").read_text() == Path("report", "layers.csv").read_text()
    True
    >>> layer, dimension = result.layers[0], result.dimensions[0]
    >>> isinstance(layer, LayerFigures), isinstance(dimension, DimensionFigures), dimension.topology, dimension.size
    (True, True, 'ring', 4)

What the NPUs did, and why the run took as long as it did:

    >>> from astra_sim.reports import Interval, PathInterval, Timeline
    >>> timeline: Timeline = result.timelines()[0]
    >>> first: Interval = next(iter(timeline))
    >>> first.kind, first.name, first.begin_ns, first.end_ns
    ('all_reduce', 'all_reduce', 0, 34522)
    >>> *_, last = result.critical_path()
    >>> isinstance(last, PathInterval), last.kind, last.npu, last.end_ns
    (True, 'bandwidth', 0, 34522)
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

from astra_sim._lazy import lazy_names
from astra_sim.errors import PluginError
from astra_sim.files import FileSet

if TYPE_CHECKING:
    from astra_sim.report.details import Interval, PathInterval, Timeline
    from astra_sim.report.result import DimensionFigures, LayerFigures, PassFigures, Result

__all__ = [
    "DimensionFigures",
    "Interval",
    "LayerFigures",
    "PassFigures",
    "PathInterval",
    "ReportFile",
    "ReportFolder",
    "Result",
    "Series",
    "Timeline",
]

__getattr__ = lazy_names(
    __name__,
    {
        "report.details": ("Interval", "PathInterval", "Timeline"),
        "report.result": ("DimensionFigures", "LayerFigures", "PassFigures", "Result"),
    },
)

Series = Literal["limited", "all", "none"]
"""The amount of a time series that is written: a small file, in wider steps if needed; all; or nothing."""


def file_name(name: str) -> str:
    """The name under which a report's file is written: characters with a meaning in paths or shells become `_`."""
    return re.sub(r"[^\w.=-]+", "_", name)


class ReportFolder:
    """The folder into which reports write. `series` is how much of the time series is requested.

    `written` holds the files so far, by path, with the author of each: whose turn it is to write (`author`).
    """

    def __init__(self, directory: str | Path, files: FileSet, series: Series, author: str) -> None:
        self.series: Series = series
        self.author = author
        self.written: dict[Path, str] = {}
        self._directory = Path(directory)
        self._files = files

    def path(self, name: str) -> Path:
        """The path of the file with this name. A report that can write several formats chooses by its ending."""
        return self._directory / file_name(name)

    @contextlib.contextmanager
    def open(self, name: str, mode: Literal["w", "wb"] = "w") -> Iterator[IO[Any]]:
        """A file to write: "w" for text in UTF-8, whose line ends stay as they are, "wb" for bytes.

        Raises RunError if it cannot be written, PluginError if a file of this name is written already.
        """
        with self._files.open(self._claimed(name), mode, errors="replace") as file:
            yield file

    def write(self, name: str, text: str | Iterable[str]) -> None:
        """A whole file of text, in one piece or many; else as `open` does it, and cheaper for small files."""
        self._files.write(self._claimed(name), [text] if isinstance(text, str) else text, errors="replace")

    def _claimed(self, name: str) -> Path:
        """The path of a file, which is written now. Raises PluginError if it is written already."""
        path = self.path(name)
        if path in self.written:
            raise PluginError(f"{self.author} writes {path.name}, which {self.written[path]} has written; expected another name")
        self.written[path] = self.author
        return path


class ReportFile(ReportFolder):
    """The one file that a user has named for a report: every name represents it."""

    def __init__(self, file: str | Path, files: FileSet, author: str) -> None:
        super().__init__(Path(file).parent, files, "all", author)
        self._file = Path(file)

    def path(self, name: str) -> Path:
        """The file that the user has named."""
        return self._file
