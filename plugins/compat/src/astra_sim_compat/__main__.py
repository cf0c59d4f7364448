"""Run a program by its name, as the installed programs do."""

from __future__ import annotations

import os
import sys

from astra_sim.starting import end_quickly, started_quickly


def main() -> None:
    """Run the program, in the server of `astra server` if there is one."""
    if "ASTRA_SERVER" in os.environ:
        from astra_sim.served import run_served

        run_served("astra_sim_compat.__main__")
    run_here()


def run_here() -> None:
    """Run the program."""
    with started_quickly():
        from astra_sim_compat.programs import run

        status = run(sys.argv[1], sys.argv[2:])
    if not status:
        end_quickly()
    sys.exit(status)


if __name__ == "__main__":
    main()
