"""The command `astra capture torch`: run a script as some ranks of a world on the CPU, and record one step of each."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import attrs
import click
from astra_sim import InputError
from astra_sim.commands import json_option, quiet_option, say_json
from astra_sim.errors import RunError, warn
from astra_sim.files import FileSet, read_text

from astra_sim_torch.capture_file import RankCapture, parse_capture
from astra_sim_torch.ranks import regular, targets
from astra_sim_torch.recording.batches import parse_batch, parse_stub

INSTALL = "pip install torch --index-url https://download.pytorch.org/whl/cpu"
_START = Path(__file__).with_name("recording") / "start.py"
_MOST_RANKS = 1 << 20
_GIVEN_UP = "Timeout ("
"""The begin of what `faulthandler` writes when a recording runs too long."""

_STARTS_S = 60
_WAITS = 4
"""The exit status of a recording that needs an object of another rank (`recording/run.py`)."""


@attrs.frozen(kw_only=True)
class CaptureSettings:
    """The recording of a script: see the options of the command."""

    world: int
    step: int = 2
    gpus_per_node: int = 8
    memory_gib: float = 80.0
    item: float | None = None
    data: str | None = None
    stub: tuple[str, ...] = ()
    python: str = sys.executable
    timeout_s: float = 600.0

    def check(self) -> None:
        """Raises InputError if `data` or a stub cannot be read."""
        try:
            if self.data is not None:
                parse_batch(self.data)
        except ValueError as problem:
            raise InputError(f"--data: {problem}") from None
        try:
            for each in self.stub:
                parse_stub(each)
        except ValueError as problem:
            raise InputError(f"--stub: {problem}") from None


@click.command()
@click.option("--world", type=click.IntRange(1, _MOST_RANKS), required=True, help="Ranks of the world that the script sees.")
@click.option("--ranks", default="auto", show_default=True, metavar="auto|all|R,...", help="Ranks to record: see below.")
@click.option("--step", type=click.IntRange(1), default=2, show_default=True, help="Step to keep; a step ends with optimizer.step().")
@click.option(
    "--gpus-per-node", type=click.IntRange(1), default=8, show_default=True, help="GPUs of a node: LOCAL_RANK and device_count()."
)
@click.option("--memory-gib", type=float, default=80.0, show_default=True, help="Memory of a GPU that torch.cuda names, in GiB.")
@click.option("--item", type=float, help="Value that .item() of a fake tensor returns.  [default: an error]")
@click.option("--data", metavar="fake|SHAPES", help="Synthetic data sets, or the batches that loaders yield: see below.")
@click.option("--stub", multiple=True, metavar="NAME[=FUNCTION]", help="Module, class or function to replace: see below.")
@click.option(
    "--timeout", "timeout_s", type=click.FloatRange(1), default=600.0, show_default=True, help="Seconds until a rank is given up."
)
@click.option("-o", "--output", default="capture", show_default=True, metavar="DIR", help="Folder for the capture, a file for each rank.")
@click.option("--python", default=sys.executable, metavar="PATH", help="Python that has torch, if it is not the one of astra.")
@json_option
@quiet_option
@click.argument("script", nargs=-1, required=True)
def capture(ranks: str, output: str, as_json: bool, quiet: bool, script: tuple[str, ...], **settings: object) -> None:
    """Record compute and communication of ranks of a PyTorch script.

    The script runs unchanged in a process of its own, on the CPU, without memory for tensors, GPUs or a network; it sees the world
    that is requested. Kernels, collectives and their dependencies are kept, for `--workload DIR` or `plugin:torch_capture?path=DIR`.

        astra capture torch --world 64 -o capture -- train.py --its arguments

    --ranks auto records rank 0 and, if it sends messages, the ranks that it sends to in the same groups, such as the stages of a
    pipeline: all others do the same as one of these. --ranks all records each.

    \b
    A script may need what is not here:
      --data fake                           synthetic text for `datasets`, tokenizers that are not on this machine, zeros
                                            for missing files of numpy.memmap and numpy.fromfile
      --data input_ids=8x1024:int64         all loaders yield such a batch, a dict; without names a tuple or one tensor
      --stub wandb                          a module, class or function that does nothing
      --stub flash_attn.flash_attn_func=stubs.attention
                                            your own function, of a module beside the script
    """
    captures = capture_ranks(list(script), _ranks(ranks, settings), CaptureSettings(**settings))  # type: ignore[arg-type]
    with FileSet() as files:
        files.make_folder(output)
        for rank, text in captures.items():
            files.write(os.path.join(output, f"rank_{rank}.jsonl"), [text])
    parsed = [parse_capture(text, f"rank {rank}") for rank, text in captures.items()]
    for note in dict.fromkeys(note for each in parsed for note in each.notes):
        warn(note)
    rows = [_summary(each) for each in parsed]
    if as_json:
        say_json({"files": files.names, "ranks": rows})
    for row in () if quiet or as_json else rows:
        click.echo("rank {rank}: {kernels} kernels, {flops:.4g} FLOPs, {collectives} collectives, {messages} messages".format(**row))


def _ranks(text: str, settings: dict[str, object]) -> list[int] | None:
    """The ranks that are asked for; None: as many as needed. Raises InputError."""
    world = int(str(settings["world"]))
    if text == "auto":
        return None
    if text == "all":
        return list(range(world))
    words = text.split(",")
    if not all(word.isdecimal() and int(word) < world for word in words):
        raise InputError(f"--ranks is {text!r}; expected auto, all, or ranks from 0 to {world - 1} with commas between")
    return sorted(set(map(int, words)))


def capture_ranks(script: list[str], ranks: list[int] | None, settings: CaptureSettings) -> dict[int, str]:
    """The capture of each rank, as the text of its file. `ranks`: None for rank 0 and those that differ from it.

    Raises InputError if the script, the Python or torch is not there, and RunError if the script fails.
    """
    settings.check()
    if not os.path.isfile(script[0]):
        raise InputError(f"{script[0]}: no such file; expected a Python script")
    _check_torch(settings.python)
    with tempfile.TemporaryDirectory(prefix="astra-torch-") as folder:
        recordings = _Recordings(script, settings, folder)
        if ranks is not None:
            return {rank: recordings.of(rank) for rank in ranks}
        first = recordings.of(0)
        return {0: first} | {rank: recordings.of(rank) for rank in _others(parse_capture(first, "rank 0"))}


class _Recordings:
    """The recordings of ranks of a script, each made once, in an order in which objects are there that ranks send to each other."""

    def __init__(self, script: list[str], settings: CaptureSettings, folder: str) -> None:
        self._script, self._settings, self._folder = script, settings, folder
        self._done: dict[int, str] = {}

    def of(self, rank: int) -> str:
        """The recording of a rank. Raises RunError."""
        pending, seen = [rank], set[tuple[int, int, int]]()
        while pending:
            current = pending[-1]
            if current in self._done:
                pending.pop()
                continue
            result = _capture_rank(self._script, current, self._settings, self._folder)
            if isinstance(result, str):
                self._done[current] = result
                continue
            wait = current, result, len(os.listdir(self._folder))
            if result in self._done or wait in seen:
                raise RunError(f"{self._script[0]}: rank {current} waits for an object of rank {result}, which does not send it")
            seen.add(wait)
            pending = [*(each for each in pending if each != result), result]
        return self._done[rank]


def _others(first: RankCapture) -> list[int]:
    """The ranks that differ from rank 0: those of the groups in which it sends and receives."""
    result: set[int] = set()
    for event in first.events:
        if event["kind"] in ("send", "receive"):
            targets(first, event["group"], event["peer"])
            ranks = first.groups[event["group"]]
            result |= set(ranks) if regular(ranks, first.world) is not None else set(range(first.world))
    return sorted(result - {0})


def _capture_rank(script: list[str], rank: int, settings: CaptureSettings, objects: str) -> str | int:
    """Run the script as one rank: its recording, or the rank for an object of which it waits. Raises RunError.

    `objects` is the folder of objects that ranks send to each other.
    """
    with tempfile.TemporaryDirectory(prefix="astra-torch-") as folder:
        output = os.path.join(folder, "capture.jsonl")
        options: dict[str, object] = {
            "--world": settings.world,
            "--rank": rank,
            "--gpus-per-node": settings.gpus_per_node,
            "--step": settings.step,
            "--memory-gib": settings.memory_gib,
            "--timeout": settings.timeout_s,
            "--output": output,
            "--objects": objects,
        } | {f"--{name}": value for name in ("item", "data") if (value := getattr(settings, name)) is not None}
        pairs = [*options.items(), *(("--stub", each) for each in settings.stub)]
        command = [settings.python, str(_START), *(str(word) for pair in pairs for word in pair), "--", *script]
        try:  # the process gives itself up, and says where it was
            limit = settings.timeout_s + _STARTS_S
            done = subprocess.run(command, stderr=subprocess.PIPE, text=True, errors="replace", check=False, timeout=limit)
        except subprocess.TimeoutExpired:
            raise RunError(_given_up(script[0], rank, settings, "")) from None
        if done.returncode == 1 and _GIVEN_UP in done.stderr:
            raise RunError(_given_up(script[0], rank, settings, done.stderr.rpartition(_GIVEN_UP)[2]))
        if done.returncode == _WAITS:
            return int(read_text(output, is_input=False))
        if done.returncode:
            raise RunError(_failure(script[0], rank, done.returncode, done.stderr))
        sys.stderr.write(done.stderr)
        return read_text(output, is_input=False)


def _given_up(script: str, rank: int, settings: CaptureSettings, stack: str) -> str:
    """The error of a script that runs too long, with the line at which it was. `stack`: of its threads, innermost lines first."""
    places = [line for file, line in re.findall(r'File "([^"]+)", line (\d+)', stack) if os.path.abspath(file) == os.path.abspath(script)]
    where = f"{script}:{places[0]}" if places else script
    loads = any(word in stack for word in _LOADING)
    remedy = (
        "it loads data from a network: --data fake makes data sets and tokenizers synthetic, --stub MODULE.NAME=MODULE.FUNCTION replaces "
        "what loads"
        if loads
        else "does it wait for another rank, or loop until numbers change, which tensors do not have? --stub MODULE.NAME "
        "replaces what waits"
    )
    return f"{where}: rank {rank} did not end within {settings.timeout_s:g} s; {remedy}; --timeout gives it longer"


_LOADING = ("huggingface_hub", "/datasets/", "urllib", "httpx", "requests/", "socket.py")
"""Packages whose functions load from a network."""


def _failure(script: str, rank: int, status: int, stderr: str) -> str:
    """The error of a script."""
    if status < 0:
        name = signal.Signals(-status).name
        return f"{script}: rank {rank} was ended by {name}: an operator without a version for the CPU may do so{_last(stderr)}"
    return f"rank {rank}: {stderr.strip().splitlines()[-1] if stderr.strip() else f'{script} ended with status {status}'}"


def _last(stderr: str) -> str:
    lines = [line for line in stderr.splitlines() if line.strip().startswith("File ")]
    return f"; {lines[0].strip()}" if lines else ""


def _summary(recorded: RankCapture) -> dict[str, int]:
    """The number of operations of a rank."""
    kinds = Counter(event["kind"] for event in recorded.events)
    flops = sum(event["flops"] for event in recorded.events if event["kind"] == "kernel")
    messages = kinds["send"] + kinds["receive"]
    return {"rank": recorded.rank, "kernels": kinds["kernel"], "flops": flops, "collectives": kinds["collective"], "messages": messages}


def _check_torch(python: str) -> None:
    if shutil.which(python) is None:
        raise InputError(f"--python: {python!r} is no program")
    probe = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
    if subprocess.run([python, "-c", probe], check=False, stderr=subprocess.DEVNULL).returncode:
        raise InputError(f"torch is not installed for {python}; install it ({INSTALL}), or name a Python that has it with --python")
