"""All that is wrong with the traces of all ranks."""

from __future__ import annotations

import attrs

from astra_sim_chakra.doctor.cross_rank_checks import Matched, collectives_of, deadlock, match, whole
from astra_sim_chakra.doctor.findings import Severity, TraceFinding, merged
from astra_sim_chakra.doctor.order_in_time import held_up, open_orders
from astra_sim_chakra.doctor.rank_checks import Examined, examine
from astra_sim_chakra.doctor.trace_set import TraceSet


@attrs.frozen(eq=False)
class Checked:
    """Traces that were looked at, one by one and against each other."""

    trace_set: TraceSet
    examined: dict[int, Examined]
    matched: Matched
    findings: list[TraceFinding]

    @property
    def nodes(self) -> int:
        """The number of nodes of all traces."""
        return sum(len(each.trace.nodes) for each in self.examined.values())

    @property
    def counts(self) -> dict[str, int]:
        """The number of findings of each severity."""
        return {str(severity): sum(finding.severity == severity for finding in self.findings) for severity in Severity}


def check(trace_set: TraceSet) -> Checked:
    """Look for all that `findings.KINDS` names."""
    examined: dict[int, Examined] = {}
    examineds: dict[int, Examined] = {}  # by the nodes, which equal files share
    for rank, trace in trace_set.traces.items():
        shared = examineds.get(id(trace.nodes))
        if shared is None:
            shared = examineds[id(trace.nodes)] = examine(trace)
        examined[rank] = shared
    matched = match(trace_set, examined)
    findings = [attrs.evolve(finding, ranks=(rank,)) for rank, each in examined.items() for finding in each.findings]
    findings += trace_set.missing
    findings += matched.findings
    circles = {"cycle", "control_cycle"} & {finding.kind for finding in findings}
    if len(examined) > 1 and not circles:
        combined = whole(examined, matched)
        blocked = deadlock(combined, examined)
        groups, _ = collectives_of(trace_set, examined)
        findings += [blocked] if blocked is not None else held_up(combined, matched, examined)
        findings += open_orders(groups, examined)
    return Checked(trace_set, examined, matched, merged(findings))
