"""The error bound of a run's makespan: a bound for each kind of part, and of their sum."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import attrs
from astra_sim.graph import Figure
from astra_sim.units import PS_PER_NS

_MOST_PARTS = 50
"""Parts that a result lists, those that matter most first."""


class Basis(enum.StrEnum):
    """The method that gave the time of a part."""

    EXACT = "exact"
    """Alone on the target, which keeps no state, and NPUs end it at once: the bound holds by proof."""
    SIMULATED = "simulated"
    """By itself on the target, whose clock and arbiters go on from part to part: the bound is an estimate."""
    SKEWED = "skewed"
    """Alone on the target, beginning on all NPUs at once, while in the run some come to it later: the bound is an estimate."""
    TOGETHER = "together"
    """Simulated with what is under way on the same links: the bound is an estimate, wider while the moments still change."""
    CONTINUED = "continued"
    """From three smaller sizes on the target: the bound is an estimate."""
    WHOLE = "whole"
    """The whole run was simulated on the target: nothing is off."""


PROVED = Basis.EXACT, Basis.WHOLE


@attrs.frozen
class Part:
    """A kind of part: its description, its number, the picoseconds of one with their bounds, and the basis of these."""

    name: str
    count: int
    ps: int
    least_ps: int
    most_ps: int
    basis: Basis

    @property
    def width_ps(self) -> int:
        """By how much all of its kind can be off."""
        return self.count * (self.most_ps - self.least_ps)

    def to_dict(self) -> dict[str, Any]:
        """The part, ready for JSON."""
        return {
            "name": self.name,
            "count": self.count,
            "ns": self.ps / PS_PER_NS,
            "lower_ns": self.least_ps / PS_PER_NS,
            "upper_ns": self.most_ps / PS_PER_NS,
            "basis": str(self.basis),
            "width_ns": self.width_ps / PS_PER_NS,
        }


@attrs.frozen
class NetworkError:
    """The bounds of the makespan (picoseconds), compared with the whole run on the `target`.

    `asked` is the requested share of the makespan. `simulated_bytes` are those sent in the parts simulated on the target,
    `run_bytes` those of the run. `floor_ps` is a proved lower bound, by conservation: of each part only the time that its busiest link
    needs for the bytes it carries; None if it was not worked out.
    """

    target: str
    asked: float
    makespan_ps: int
    lower_ps: int
    upper_ps: int
    parts: Sequence[Part]
    simulated_bytes: int = 0
    run_bytes: int = 0
    floor_ps: int | None = None

    @property
    def width(self) -> float:
        """The width of the bound as a share of the makespan."""
        return (self.upper_ps - self.lower_ps) / self.makespan_ps if self.makespan_ps else 0.0

    @property
    def proved(self) -> bool:
        """Whether the bound holds by proof; else it is an estimate."""
        return all(part.basis in PROVED for part in self.parts)

    def doubts(self) -> list[str]:
        """Why the answer is not as certain as was asked for, in words; nothing if it is."""
        result = []
        if self.width > self.asked:
            result.append(f"the makespan is known within {self.width:.2%} of {self.target!r}; expected {self.asked:.2%} (network.error)")
        if not self.proved:
            names = ", ".join(part.name for part in self._by_width() if part.basis not in PROVED)
            result.append(f"the bound of the makespan is an estimate, not proved, for {names}")
        return result

    def figures(self) -> dict[str, Any]:
        """The figures of a result."""
        of_all = "proved" if self.proved else "estimated"
        lower, upper = (time / self.makespan_ps - 1 if self.makespan_ps else 0.0 for time in (self.lower_ps, self.upper_ps))
        table = {
            "target": self.target,
            "asked": self.asked,
            "lower_ns": self.lower_ps / PS_PER_NS,
            "upper_ns": self.upper_ps / PS_PER_NS,
            "floor_ns": None if self.floor_ps is None else self.floor_ps / PS_PER_NS,
            "width": self.width,
            "proved": self.proved,
            "simulated_bytes": self.simulated_bytes,
            "run_bytes": self.run_bytes,
            "parts": [part.to_dict() for part in self._by_width()[:_MOST_PARTS]],
        }
        note = f"{lower:+.2%} to {upper:+.2%} of the whole run on {self.target}, {of_all}"
        return {"network_error": table, "network_error_width": Figure(self.width, "network error", "share", note)}

    def _by_width(self) -> list[Part]:
        return sorted(self.parts, key=lambda part: (-part.width_ps, -part.count * part.ps))
