"""The command `astra`, which is also `python -m astra_sim`."""

from __future__ import annotations

import os
import signal

from astra_sim.errors import STATUS_INTERRUPTED
from astra_sim.starting import end_quickly, started_quickly


def main() -> None:
    """Run the command, in the server if there is one."""
    if "ASTRA_SERVER" in os.environ:
        from astra_sim.served import run_served

        run_served("astra_sim.__main__")
    run_here()


def run_here() -> None:
    """Run the command. An interrupt that comes while Python still imports it ends it with one line too, and so does SIGTERM."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number, handler in before.items():
        if handler in (signal.default_int_handler, signal.SIG_DFL):
            signal.signal(number, _leave)
    with started_quickly():
        from astra_sim.command.cli import main as run

        for number, handler in before.items():
            signal.signal(number, handler)
        try:
            run()
        except SystemExit as end:
            if not end.code:
                end_quickly()
            raise


def _leave(*_: object) -> None:
    os.write(2, b"astra: interrupted\n")
    os._exit(STATUS_INTERRUPTED)


if __name__ == "__main__":
    main()
