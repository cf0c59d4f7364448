"""The two studies of ASTRA-sim's tutorial at ISCA 2022: ResNet-50, data parallel, on three-dimensional tori.

    python tutorial_2022.py                     print both tables, and write workload and plots to results/
    python tutorial_2022.py --output DIR        write them there

1. Scaling: 8 to 128 NPUs, one image for each. Computing stays the same; how much communication is exposed depends on the torus.
2. Faster compute: 2 x 4 x 4 NPUs whose arrays are 1 to 8 times as fast. What computing no longer hides becomes exposed.

The layers come from `astra generate`, computing times from a systolic array of 256 x 256 at 1 GHz, weight stationary (SCALE-Sim's
configuration google.cfg). Torus and system are those of ASTRA-sim 1.0's example 2 x 4 x 4. The plots need matplotlib.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import astra_sim
from astra_sim.commands import console
from rich.table import Table

COMPUTE = "plugin:systolic?array_rows=256&array_cols=256&dataflow=ws&clock_ghz=1"
SYSTEM = Path(__file__).parent / "systems" / "ring.toml"
TORI = ((2, 2, 2), (2, 2, 4), (2, 4, 4), (4, 4, 4), (4, 4, 8))
SPEEDS = (1, 2, 4, 8)
PASSES = 2


class Point(NamedTuple):
    """One run: times in microseconds."""

    label: str
    total: float
    compute: float
    exposed: float


def torus(sizes: tuple[int, ...]) -> dict[str, object]:
    """A torus: two links to each ring, of 32, 16 and 16 * 2^30 bytes/s and 10, 100 and 100 ns."""
    links = zip(sizes, (32, 16, 16), (10, 100, 100), strict=True)
    return {
        "dimensions": [
            {"topology": "ring", "size": size, "links": 2, "link_bandwidth_gib_per_s": bandwidth, "link_latency_ns": latency}
            for size, bandwidth, latency in links
        ]
    }


def generate(path: Path) -> None:
    """Write the workload of one NPU. It is the same for any number of them: each has one image, and the whole of the weights."""
    arguments = ["generate", "--model", "resnet50", "--parallel", "DATA", "--npus", "1", "--batch-per-npu", "1", "--compute", COMPUTE]
    subprocess.run([sys.executable, "-m", "astra_sim", *arguments, "--output", str(path)], check=True)


def run(workload: Path, sizes: tuple[int, ...], label: str, speed: float = 1) -> Point:
    """Train two iterations."""
    result = astra_sim.simulate(
        workload=str(workload),
        system=str(SYSTEM),
        platform=torus(sizes),
        network="plugin:analytical",
        compute=COMPUTE,
        compute_scale=1 / speed,
        passes=PASSES,
    )
    return Point(label, result.finish_ns / 1e3, result.compute_ns / 1e3, result.exposed_comm_ns / 1e3)


def show(title: str, points: list[Point]) -> None:
    """Print a table."""
    table = Table(title=title, title_justify="left")
    for column in ("", "total (us)", "compute (us)", "exposed communication (us)", "exposed / total"):
        table.add_column(column, justify="right")
    for point in points:
        times = (f"{time:.3f}" for time in point[1:])
        table.add_row(point.label, *times, f"{point.exposed / point.total:.1%}")
    console().print(table)


def plot(title: str, points: list[Point], path: Path) -> None:
    """Draw computing and exposed communication as one bar for each run. Needs matplotlib."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    labels = [point.label for point in points]
    compute, exposed = [point.compute / 1e3 for point in points], [point.exposed / 1e3 for point in points]
    figure, axes = plt.subplots(figsize=(7, 4))
    axes.bar(labels, compute, label="compute")
    axes.bar(labels, exposed, bottom=compute, label="exposed communication")
    axes.set_ylabel("time of two iterations (ms)")
    axes.set_title(title, loc="left")
    axes.set_ylim(top=1.25 * max(point.total for point in points) / 1e3)
    axes.legend(frameon=False, loc="upper left", ncols=2)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main() -> None:
    """Run both studies."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("results"), help="folder for workload and plots")
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    workload = folder / "resnet50.toml"
    generate(workload)
    studies = {
        "scaling": (
            "ResNet-50 on 3-D tori, by number of NPUs",
            [run(workload, sizes, f"{sizes[0] * sizes[1] * sizes[2]}\n{'x'.join(map(str, sizes))}") for sizes in TORI],
        ),
        "faster_compute": (
            "ResNet-50 on 2 x 4 x 4 NPUs, by speed of compute",
            [run(workload, (2, 4, 4), f"{speed}x", speed) for speed in SPEEDS],
        ),
    }
    for title, points in studies.values():
        show(title, [point._replace(label=point.label.replace("\n", " = ")) for point in points])
    try:
        for name, (title, points) in studies.items():
            plot(title, points, folder / f"{name}.png")
            print(f"plotted {folder / name}.png")
    except ImportError as error:
        print(f"no plots: {error}; they need matplotlib (pip install 'astra-sim-compute-systolic[plot]', or pip install matplotlib)")


if __name__ == "__main__":
    main()
