"""Run a program by its name: what the installed programs do."""

from __future__ import annotations

import sys

from astra_sim_compat.programs import run

if __name__ == "__main__":
    sys.exit(run(sys.argv[1], sys.argv[2:]))
