"""The programs by name, and how they end."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
from astra_sim import AstraError
from astra_sim.errors import STATUS_INTERRUPTED, printable
from astra_sim.files import interrupt_on_sigterm
from astra_sim.providers import load

from astra_sim_compat import early_warnings
from astra_sim_compat.arguments import UsageError


@attrs.frozen
class CompatProgram:
    """A program: its original, its function, and its exit status if its options are wrong.

    The function is given the name of the program and its arguments.
    """

    summary: str
    main: str
    usage_status: int


_WRONG_OPTIONS = 255
"""Programs of ASTRA-sim exit with -1 if options are wrong."""

_NS3_PROFILES = ("default", "optimized", "debug")
"""Builds of ns-3, of which each has its program."""

GENERATOR = "gen_astrasim_workload_input.py"

PROGRAMS: Mapping[str, CompatProgram] = {
    "AstraSim_Analytical_Congestion_Unaware": CompatProgram(
        "ASTRA-sim 2.x, analytical network without contention", "astra_sim_compat.astra2:congestion_unaware", _WRONG_OPTIONS
    ),
    "AstraSim_Analytical_Congestion_Aware": CompatProgram(
        "ASTRA-sim 2.x, analytical network with contention", "astra_sim_compat.astra2:congestion_aware", _WRONG_OPTIONS
    ),
    "AnalyticalAstra": CompatProgram(
        "ASTRA-sim 1.0, analytical network; with options of 2.x that without contention",
        "astra_sim_compat.astra1:analytical",
        _WRONG_OPTIONS,
    ),
    "AstraCongestion": CompatProgram(
        "ASTRA-sim 1.0 of 2023, network with contention; with options of 2.x that of 2.x",
        "astra_sim_compat.astra1:congestion",
        2,
    ),
    "gem5.opt": CompatProgram("ASTRA-sim 1.0 in gem5, network Garnet", "astra_sim_compat.astra1:garnet", 2),
    "AstraSim_HTSim": CompatProgram("ASTRA-sim 2.x, HTSim back end", "astra_sim_compat.htsim:htsim", _WRONG_OPTIONS),
    **{
        f"ns3.42-AstraSimNetwork-{profile}": CompatProgram("ASTRA-sim 2.x, ns-3 back end", "astra_sim_compat.ns3:ns3", 1)
        for profile in _NS3_PROFILES
    },
    "chakra_converter": CompatProgram("converter of Chakra", "astra_sim_compat.chakra_tools:converter", 2),
    "chakra_trace_link": CompatProgram("linker of traces of Chakra", "astra_sim_compat.chakra_tools:trace_link", 2),
    "chakra_jsonizer": CompatProgram("converter to JSON of Chakra", "astra_sim_compat.chakra_tools:jsonizer", 2),
    GENERATOR: CompatProgram("workload generator of ASTRA-sim 1.0", "astra_sim_compat.generator:generate", 1),
}


def run(name: str, arguments: Sequence[str]) -> int:
    """Run a program, and return its exit status: 0, that of wrong options, or 1 if the input is wrong or the run fails."""
    program = PROGRAMS[name]
    early_warnings.keep()
    interrupt_on_sigterm()
    try:
        main: Callable[[str, Sequence[str]], Any] = load(program.main, name)
        main(name, arguments)
        sys.stdout.flush()
    except SystemExit as stop:  # --help
        return int(stop.code or 0)
    except UsageError as error:
        _tell(f"{name}: error: {error}")
        return program.usage_status
    except AstraError as error:
        _tell(f"{name}: error: {error}")
        return 1
    except KeyboardInterrupt:
        _tell(f"{name}: interrupted")
        return STATUS_INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that Python does not try again when it ends
        return 1
    except MemoryError:
        _tell(f"{name}: error: the run needs more memory than there is")
        return 1
    except OSError as error:
        _tell(f"{name}: error: {error.filename or 'standard output'}: {error.strerror or error}")
        return 1
    except Exception as error:
        if os.environ.get("ASTRA_TRACEBACK"):
            raise
        _tell(f"{name}: failed: {type(error).__name__}: {error} (ASTRA_TRACEBACK=1 shows where)")
        return 1
    finally:
        with contextlib.suppress(OSError):
            for text in early_warnings.take():  # of a program without a log; callers take a line on standard error for a failure
                print(printable(f"{name}: warning: {text}"), flush=True)
    return 0


def _tell(text: str) -> None:
    with contextlib.suppress(OSError):
        print(printable(text), file=sys.stderr, flush=True)
