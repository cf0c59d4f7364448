"""Run a random check many times: `python3 dev.py random NAME [N] [FIRST]`, or all of them as often as nightly does: `all`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from random_checks import load, names, violations


def run(name: str, count: int, first: int) -> bool:
    """Run one check from seed `first` on, and print the seeds with violations. Returns whether all hold."""
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed, lines in violations(load(name), range(first, first + count), Path(folder)):
            wrong += bool(lines)
            for line in lines:
                print(f"{name}, seed {seed}: {line}", flush=True)
    print(f"{name}: {count} cases; {wrong} in which something does not hold", flush=True)
    return wrong == 0


def main(arguments: Sequence[str]) -> int:
    """Run checks. Returns 1 if a property does not hold, 2 if there is no such check."""
    name, *numbers = arguments
    if name == "all" and not numbers:
        outcomes = [run(each, load(each).IN_NIGHTLY, 1_000_000) for each in names()]  # every check runs, also after one that fails
        return int(not all(outcomes))
    if name not in names() or len(numbers) > 2 or not all(number.isdecimal() for number in numbers):
        print(f"dev.py: random takes a check ({', '.join(names())}), how many cases and the first seed; or 'all'", file=sys.stderr)
        return 2
    count, first = (int(number) for number in (*numbers, *("100", "0")[len(numbers) :]))
    return int(not run(name, count, first))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
