"""The command `astra`, which is also `python -m astra_sim`."""

from __future__ import annotations

import gc
import os
import signal

from astra_sim.errors import STATUS_INTERRUPTED

_OBJECTS_BEFORE_A_SEARCH = 100_000
"""New objects after which Python looks for circles among them. Modules make many that stay; runs leave no circles behind."""


def main() -> None:
    """Run the command. An interrupt that comes while Python still imports it ends it with one line too, and so does SIGTERM."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number, handler in before.items():
        if handler in (signal.default_int_handler, signal.SIG_DFL):
            signal.signal(number, _leave)
    gc.set_threshold(_OBJECTS_BEFORE_A_SEARCH)
    from astra_sim._kept_code import keep

    kept = keep()
    from astra_sim.command.cli import main as run

    for number, handler in before.items():
        signal.signal(number, handler)
    try:
        run()
    except SystemExit as end:
        if not end.code:
            gc.freeze()  # Python ends without a search for garbage; an error leaves circles, with objects that say so if they stay
        raise
    finally:
        kept.save()


def _leave(*_: object) -> None:
    os.write(2, b"astra: interrupted\n")
    os._exit(STATUS_INTERRUPTED)


if __name__ == "__main__":
    main()
