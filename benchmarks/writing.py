"""What files cost beside a run: python3 dev.py bench writing.

CPU time, of the system, too. The compared runs alternate, and the least of many rounds counts: others on the machine only add to it.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import astra_sim
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
VGG16 = ROOT / "examples" / "vgg16_dgx2_pod.toml"
RUNS, ROUNDS = 8, 40

# Compares a number of runs of VGG-16 and prints the peak memory in kB; with a second argument it writes files.
COMPARE = """
import resource, sys
from astra_sim_explain.compare import compare
count, folder = int(sys.argv[1]), sys.argv[2:]
values = [("--set", f"platform.dimensions.0.link_latency_ns={500 + number / 8}") for number in range(count)]
words = [word for pair in values for word in pair] + ["--quiet", *(("--output", *folder) if folder else ())]
compare([EXPERIMENT, *words], standalone_mode=False)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def in_turns(actions: Sequence[Callable[[], object]]) -> list[float]:
    """CPU milliseconds of each action: the least mean of RUNS calls, over ROUNDS rounds."""
    for action in actions:
        action()
    least = [float("inf")] * len(actions)
    for _ in range(ROUNDS):
        for place, action in enumerate(actions):
            begin = time.process_time()
            for _ in range(RUNS):
                action()
            least[place] = min(least[place], (time.process_time() - begin) / RUNS * 1e3)
    return least


def run() -> astra_sim.Result:
    """VGG-16 on the DGX-2 pod: a run of a few milliseconds."""
    return astra_sim.simulate(VGG16)


def written() -> None:
    """The same run, and all its files."""
    with tempfile.TemporaryDirectory(prefix="astra-bench-") as folder:
        astra_sim.write_reports(run(), folder)


CASES: dict[str, Callable[[], object]] = {"VGG-16 on the DGX-2 pod, all files": written}
"""What `dev.py bench writing --against REVISION` compares."""


def bare(folder: Path, texts: Sequence[bytes]) -> None:
    """Write files of a number of bytes as a set does, and nothing else: open, write, close, rename."""
    folder.mkdir()
    for number, text in enumerate(texts):
        descriptor = os.open(f"{folder}/.{number}.tmp", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        os.write(descriptor, text)
        os.close(descriptor)
    for number in range(len(texts)):
        os.replace(f"{folder}/.{number}.tmp", f"{folder}/{number}")


def peak_kb(count: int, *folder: str) -> int:
    """Peak memory of a process that compares a number of runs; the least of three."""
    script = COMPARE.replace("EXPERIMENT", repr(str(VGG16)))
    words = [sys.executable, "-c", script, str(count), *folder]
    return min(int(subprocess.run(words, check=True, capture_output=True, text=True).stdout) for _ in range(3))


def main() -> None:
    """Measure everything and print tables."""
    with tempfile.TemporaryDirectory(prefix="astra-bench-") as base:
        numbers = itertools.count()

        def folder() -> Path:
            return Path(base, str(next(numbers)))

        result = run()
        texts = [path.read_bytes() for path in astra_sim.write_reports(result, folder())]
        actions = {
            "simulate VGG-16 on the DGX-2 pod": run,
            "the same and result.json": lambda: astra_sim.write_reports(run(), folder(), ()),
            "the same and all files": lambda: astra_sim.write_reports(run(), folder()),
            f"the system's calls for {len(texts)} files of {sum(map(len, texts)) / 1e3:.0f} kB": lambda: bare(folder(), texts),
        }
        table = Table(title="CPU time in a process", title_justify="left")
        for name in ("what", "ms", "beside the run"):
            table.add_column(name, justify="left" if name == "what" else "right")
        times = in_turns(list(actions.values()))
        for what, each in zip(actions, times, strict=True):
            more = each - times[0] if what.startswith("the same") else each
            table.add_row(what, f"{each:.2f}", "" if each is times[0] else f"{more:.2f} ms, {more / times[0]:.0%}")
        console = Console(width=120)
        console.print(table)

        memory = Table(title="Memory of astra compare", title_justify="left")
        for name in ("runs", "without files", "with --output"):
            memory.add_column(name, justify="right")
        few, many = 300, 900
        peaks = {count: (peak_kb(count), peak_kb(count, str(folder()))) for count in (few, many)}
        for count, both in peaks.items():
            memory.add_row(str(count), *(f"{each / 1024:.1f} MB" for each in both))
        memory.add_row("one more", *(f"{(after - before) / (many - few):.1f} kB" for before, after in zip(*peaks.values(), strict=True)))
        console.print(memory)


if __name__ == "__main__":
    main()
