"""Run a program by its name: what the installed programs do."""

from __future__ import annotations

import sys

from astra_sim.starting import end_quickly, started_quickly

if __name__ == "__main__":
    with started_quickly():
        from astra_sim_compat.programs import run

        status = run(sys.argv[1], sys.argv[2:])
    if not status:
        end_quickly()
    sys.exit(status)
