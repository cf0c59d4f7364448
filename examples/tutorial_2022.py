"""The two studies of ASTRA-sim's tutorial at ISCA 2022: ResNet-50, data parallel, on three-dimensional tori.

    python tutorial_2022.py                     print both tables, and write workload and plots to results/
    python tutorial_2022.py --output DIR        write them there

1. Scaling: 8 to 128 NPUs, one image for each. Computing stays the same; how much communication is exposed depends on the torus.
2. Faster compute: 2 x 4 x 4 NPUs whose arrays are 1 to 8 times as fast. What computing no longer hides becomes exposed.

The layers come from `astra generate`, computing times from a systolic array of 256 x 256 at 1 GHz, weight stationary (SCALE-Sim's
configuration google.cfg). Torus and system are those of ASTRA-sim 1.0's example 2 x 4 x 4. `astra plot` draws the plots.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
from pathlib import Path

import astra_sim
from astra_sim.commands import Column, Screen, Table
from astra_sim.reports import Result

COMPUTE = "plugin:systolic?array_rows=256&array_cols=256&dataflow=ws&clock_ghz=1"
SYSTEM = Path(__file__).parent / "systems" / "ring.toml"
TORI = ((2, 2, 2), (2, 2, 4), (2, 4, 4), (4, 4, 4), (4, 4, 8))
SPEEDS = (1, 2, 4, 8)
PASSES = 2


def torus(sizes: tuple[int, ...]) -> dict[str, object]:
    """A torus: two links to each ring, of 32, 16 and 16 * 2^30 bytes/s and 10, 100 and 100 ns. A message uses both, as in ASTRA-sim 1.0."""
    links = zip(sizes, (32, 16, 16), (10, 100, 100), strict=True)
    return {
        "dimensions": [
            {
                "topology": "ring",
                "size": size,
                "links": 2,
                "both_ways": True,
                "link_bandwidth_gib_per_s": bandwidth,
                "link_latency_ns": latency,
            }
            for size, bandwidth, latency in links
        ]
    }


def generate(path: Path) -> None:
    """Write the workload of one NPU. It is the same for any number of them: each has one image, and the whole of the weights."""
    arguments = ["generate", "--model", "resnet50", "--parallel", "DATA", "--npus", "1", "--batch-per-npu", "1", "--compute", COMPUTE]
    subprocess.run([sys.executable, "-m", "astra_sim", *arguments, "--output", str(path)], check=True)


def run(workload: Path, sizes: tuple[int, ...], name: str, speed: float = 1) -> Result:
    """Train two iterations."""
    return astra_sim.simulate(
        workload=str(workload),
        system=str(SYSTEM),
        platform=torus(sizes),
        network="plugin:analytical",
        compute=COMPUTE,
        compute_scale=1 / speed,
        passes=PASSES,
        run_name=name,
    )


def show(title: str, results: list[Result]) -> None:
    """Print a table."""
    names = ("total (us)", "compute (us)", "exposed communication (us)", "exposed / total (%)")
    rows = []
    for result in results:
        times = (f"{ns / 1e3:.3f}" for ns in (result.finish_ns, result.compute_ns, result.exposed_comm_ns))
        rows.append([result.run_name, *times, f"{100 * result.exposed_comm_ns / result.finish_ns:.1f}"])
    Screen().table(Table([Column("run", "name"), *map(Column, names)], rows, title))


def plot(kind: str, title: str, results: list[Result], folder: Path) -> None:
    """Draw computing and exposed communication as one bar for each run, beside the results, which `astra report` takes, too."""
    astra_sim.write_reports(results, folder, reports=())
    picture = folder.with_suffix(".png")
    labels = [f"--label={result.run_name.replace(' = ', chr(92) + 'n')}" for result in results]
    arguments = ["plot", str(folder), kind, "--output", str(picture), "--title", title, *labels]
    subprocess.run([sys.executable, "-m", "astra_sim", *arguments], check=True)


def main() -> None:
    """Run both studies."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("results"), help="folder for workload, results and plots")
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    workload = folder / "resnet50.toml"
    generate(workload)
    scaling = [run(workload, sizes, f"{math.prod(sizes)} = {'x'.join(map(str, sizes))}") for sizes in TORI]
    faster = [run(workload, (2, 4, 4), f"{speed}x", speed) for speed in SPEEDS]
    for name, kind, title, results in (
        ("scaling", "npus", "ResNet-50 on 3-D tori, by number of NPUs", scaling),
        ("faster_compute", "compute-power", "ResNet-50 on 2 x 4 x 4 NPUs, by speed of compute", faster),
    ):
        show(title, results)
        plot(kind, title, results, folder / name)


if __name__ == "__main__":
    main()
