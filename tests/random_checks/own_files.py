"""Commands, on files of which one is to be written, too, or with a signal at any instant, or with closed output streams.

- An input stays as it is.
- What is written is written whole, or what was there before stays; no temporary file is left.
- There is no traceback.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

IN_TESTS = 4
IN_NIGHTLY = 150

_RING = "plugin:ring?size=4&links=2&link_bandwidth_gib_per_s=50&link_latency_ns=500"
_INPUTS = {
    "e.toml": 'workload = "w.toml"\nplatform = "p.toml"\n',
    "w.toml": 'plugin = "collective"\nbytes = 1048576\n',
    "p.toml": 'plugin = "ring"\nsize = 4\nlinks = 2\nlink_bandwidth_gib_per_s = 50\nlink_latency_ns = 500\n',
    "s.toml": '[base]\nexperiment = "e.toml"\n[axes]\n"system.splits" = [1, 2]\n',
    "b.toml": '[[expect]]\nexperiment = "e.toml"\ncheck = "finish_ns < 1e9"\n',
    "layers.csv": "name,m,n,k\none,8,8,8\n",
    "w.txt": "DATA\n1\nlayer -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 1024 10\n",
    "device.toml": 'based_on = "h100"\n',
}
_COMMANDS: dict[str, tuple[list[str], str]] = {
    "run": (["e.toml", "--timeline"], ".json"),
    "run of parts": (["--workload", "w.txt", "--platform", "p.toml", "--timeline"], ".gz"),
    "run into a folder": (["e.toml", "--output"], ""),
    "compare": (["compare", "e.toml", "--set", "system.splits=1", "--set", "system.splits=2", "--output"], ""),
    "explain": (["explain", "e.toml", "--output"], ""),
    "assert": (["assert", "b.toml", "--junit"], ".xml"),
    "convert": (["convert", "w.txt"], ".toml"),
    "sweep": (["sweep", "s.toml", "--jobs", "1", "--overwrite", "--output"], ".csv"),
    "generate": (["generate", "--layers", "layers.csv", "--parallel", "DATA", "--npus", "4", "--output"], ".toml"),
    "device": (["device", "device.toml", "--output"], ".toml"),
}
_OLD = b"old"


def check(seed: int, folder: Path) -> list[str]:
    """Run a random command with a random fault."""
    random = Random(seed)
    for name, text in _INPUTS.items():
        (folder / name).write_text(text)
    name = random.choice(sorted(_COMMANDS))
    command, ending = _COMMANDS[name]
    fault = random.choice(["input", "signal", "unread"])
    output = f"new{ending}"
    if fault == "input":
        output = random.choice(sorted(_read(command)))
        if random.random() < 0.3:
            (folder / "other.csv").hardlink_to(folder / output)
            output = "other.csv"
        output = random.choice([output, f"./{output}", str(folder / output)])
    elif random.random() < 0.5:
        (folder / output).mkdir() if not ending else (folder / output).write_bytes(_OLD)
    before = _contents(folder)
    run = _run(random, folder, [*command, output], fault)
    return [f"{name}, {fault}, {output}: {line}" for line in _violations(before, folder, output, fault, run)]


def _read(words: list[str]) -> set[str]:
    """The files that a command reads: those that it names, and those that they name."""
    named = {name for name in _INPUTS if name in words}
    while more := {name for name in _INPUTS if any(f'"{name}"' in _INPUTS[other] for other in named)} - named:
        named |= more
    return named


def _run(random: Random, folder: Path, arguments: list[str], fault: str) -> str:
    """What a command says on standard error."""
    out = subprocess.DEVNULL
    if fault == "unread":
        reading, out = os.pipe()
        os.close(reading)
    command = [sys.executable, "-m", "astra_sim", *arguments]
    with subprocess.Popen(command, cwd=folder, stdout=out, stderr=subprocess.PIPE, text=True) as process:
        if out > 2:
            os.close(out)
        if fault == "signal":
            try:
                process.wait(random.uniform(0.05, 1.5))
            except subprocess.TimeoutExpired:
                process.send_signal(random.choice([signal.SIGINT, signal.SIGTERM]))
        _, result = process.communicate(timeout=100)
    return result


def _violations(before: dict[str, bytes], folder: Path, output: str, fault: str, said: str) -> list[str]:
    after = _contents(folder)
    wrong = [f"{name} was changed" for name in before if (name != output or fault == "input") and after.get(name) != before[name]]
    wrong += [f"{name} is left" for name in after if ".astra-" in name]
    if "Traceback" in said or "Exception ignored" in said:
        wrong.append(f"a traceback: {said[-300:]}")
    new = {name: content for name, content in after.items() if name not in before or content != before[name]}
    if fault == "unread" and not new:
        wrong.append(f"nothing was written; it said {said!r}")
    wrong += [f"{name} is empty" for name, content in new.items() if not content and not name.endswith((".sqlite", "-wal", "-shm"))]
    return wrong


def _contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
