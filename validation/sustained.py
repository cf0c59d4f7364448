"""The factor by which devices keep the rates of products in training: `sustained` of the files of devices (PROCEDURE.md).

    python -m validation.sustained

One fit on the fitting half of the dense stacks of Megatron-Bridge: gemm_share of each device, and the other numbers in common.
"""

from __future__ import annotations

from collections.abc import Mapping

from astra_sim_compute_gpu.device import read_device

from validation.iterations import FIT, MACHINES, Experiment, lines
from validation.runs import Numbers, Runs, numbers
from validation.stack_fits import Search

STACKS = ("bridge-h100", "bridge-gb200", "bridge-gb300")
REFERENCE = "h100"
_GEMM = "gemm_share of "
_COMMON = ("elementwise_share", "attention_rate", "collective_share")


class JointSearch(Search):
    """A search over the lines of several devices, each of which has a gemm_share of its own."""

    def _numbers_of(self, experiment: Experiment, point: Numbers) -> Numbers:
        profile = dict(point)
        own = {"gemm_share": profile[_GEMM + experiment.device]}
        return numbers({**own, **{name: value for name, value in profile.items() if not name.startswith(_GEMM)}})


def fit() -> Mapping[str, float]:
    """The numbers of the fit: gemm_share of each device and those in common, over the rates of the files of kernels."""
    fitting = [line for line in lines() if line["stack"] in STACKS and line["half"] == FIT]
    with Runs() as runs:
        devices = sorted({MACHINES[line["gpu"]].device for line in fitting})
        search = JointSearch(runs, fitting, (*(_GEMM + device for device in devices), *_COMMON))
        found = dict(search.profile())
        result = {name: value * read_device(name.removeprefix(_GEMM)).sustained for name, value in found.items() if name.startswith(_GEMM)}
        errors = [abs(time / measured - 1) for time, measured in zip(search.times(found), search.measured, strict=True)]
    return {**found, **result, "mean error": sum(errors) / len(errors), "lines": len(errors)}


def main() -> None:
    """Print the numbers of the fit, and `sustained` of each device."""
    found = fit()
    for name, value in found.items():
        print(f"{name:24s} {value:.4g}")
    reference = found[_GEMM + REFERENCE]
    for name, value in found.items():
        if name.startswith(_GEMM):
            print(f"sustained of {name.removeprefix(_GEMM):12s} {value / reference:.3f}")


if __name__ == "__main__":
    main()
