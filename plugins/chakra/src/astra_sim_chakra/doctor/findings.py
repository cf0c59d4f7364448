"""The kinds of findings in traces, and the effect of each on a run."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Sequence
from typing import Any

import attrs

NODES_LISTED = 20
"""Ids of nodes that a finding lists; `count` is the number of all."""


class Severity(enum.StrEnum):
    """The severity of a finding: an error stops a run, a warning makes its figures wrong or another simulator fail, a note is neither."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@attrs.frozen
class Kind:
    """A kind of finding."""

    severity: Severity
    breaks: str


_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE
KINDS: dict[str, Kind] = {
    "unreadable": Kind(_E, "A run stops when it reads the file."),
    "refused": Kind(_E, "A run stops when it reads the file, for a reason that has no finding of its own."),
    "damaged_node": Kind(_E, "A run stops when it reads the node."),
    "bad_value": Kind(_E, "A run stops when it reads the node: the value cannot be meant."),
    "missing_rank": Kind(_E, "A run stops: each rank needs its file, and messages of others to this one would never arrive."),
    "no_nodes": Kind(_E, "A run stops: a rank does at least one thing."),
    "duplicate_id": Kind(_E, "A run stops, since nodes that wait for this id may mean either. ASTRA-sim 2.x drops the first one silently."),
    "missing_dependency": Kind(_E, "A run stops: the node would wait for ever."),
    "missing_control_dependency": Kind(_N, "Nothing: MLCommons' converter for PyTorch leaves such ids behind, and a run drops them."),
    "cycle": Kind(_E, "A run stops: none of these nodes could ever begin. ASTRA-sim 2.x leaves them out and reports success."),
    "control_cycle": Kind(_E, "A run stops unless workload.dependencies=data is set, which follows data dependencies alone."),
    "invalid_node": Kind(_E, "A run stops. In ASTRA-sim 2.x nodes that wait for it never begin."),
    "missing_field": Kind(_E, "A run stops: the node's action is unknown (system.replay_only=true takes its duration instead)."),
    "unsupported_collective": Kind(_E, "A run stops, as in ASTRA-sim 2.x (system.replay_only=true takes its duration instead)."),
    "broadcast": Kind(_W, "A run takes the recorded duration on each rank by itself: nothing is sent, and no rank waits for the others."),
    "empty_collective": Kind(
        _E, "A run stops: 0 bytes cannot be cut. With system astra2 only an all-gather stops it; in ASTRA-sim 2.x that never ends."
    ),
    "zero_size": Kind(
        _W, "Nothing is moved, which takes latency alone. In ASTRA-sim 2.x a node that waits for a memory access of 0 bytes hangs."
    ),
    "zero_time": Kind(_W, "Compute without a duration and without num_ops counts as 1 ns, as in ASTRA-sim 2.x."),
    "no_work": Kind(_N, "A compute model such as roofline cannot time the nodes; their recorded durations hold otherwise."),
    "message_to_itself": Kind(_E, "A run stops: a rank does not send to itself."),
    "peer_out_of_range": Kind(_E, "A run stops: there is no such rank."),
    "unmatched_send": Kind(_E, "A run reports the unmatched message as an error. ASTRA-sim 2.x ends silently."),
    "unmatched_receive": Kind(_E, "A run cannot finish: the receive waits for a message that is never sent."),
    "collective_mismatch": Kind(_E, "A run stops: the n-th collective that a rank issues in a group is the n-th of all its members."),
    "not_compared": Kind(_N, "Whether these collectives agree between ranks was not checked."),
    "not_a_member": Kind(_E, "A run stops: only members of a group take part in its collectives."),
    "unknown_group": Kind(_E, "A run stops: it does not know who takes part."),
    "groups_not_given": Kind(_N, "A run needs the ranks of these process groups: --groups FILE. Here those that use a name are its group."),
    "deadlock": Kind(_E, "A run cannot finish: each of these operations waits for the next one, on another rank."),
    "order_by_time": Kind(
        _W, "A run issues nodes as they become ready. If ranks come to different orders it stops: n-th collectives must be the same."
    ),
    "held_up": Kind(
        _W,
        "In ASTRA-sim 2.x, and with system astra2, a rank has one communication under way: where the first of these begins first, "
        "the run cannot finish (system.one_at_a_time=false lets both go on).",
    ),
    "not_rehearsed": Kind(_N, "Whether an operation of a rank holds up another one that it needs itself was not looked for."),
    "unit_slip": Kind(_W, "Compute takes a thousand times as long as it should, and communication seems to be nothing beside it."),
    "none_as_all_reduce": Kind(_W, "A run does an all-reduce if the text that the trace was converted from has NONE."),
}


@attrs.frozen
class TraceFinding:
    """An error in a trace: its kind, a description, its ranks, and its nodes (the first of them by id; `count` in all)."""

    kind: str
    text: str
    nodes: tuple[int, ...] = ()
    count: int = 1
    ranks: tuple[int, ...] = ()

    @property
    def severity(self) -> Severity:
        """The severity."""
        return KINDS[self.kind].severity

    @property
    def breaks(self) -> str:
        """The effect on a run."""
        return KINDS[self.kind].breaks

    def table(self) -> dict[str, Any]:
        """The output of `--json`."""
        own = {"kind": self.kind, "severity": str(self.severity), "text": self.text, "breaks": self.breaks}
        return {**own, "ranks": list(self.ranks), "nodes": list(self.nodes), "count": self.count}


def about(kind: str, text: str, nodes: Sequence[tuple[int, str]]) -> TraceFinding:
    """A finding about some nodes, given as ids and labels: `text` follows the label of the first one."""
    first = nodes[0][1] if len(nodes) == 1 else f"{len(nodes)} nodes, the first of them {nodes[0][1]}"
    return TraceFinding(kind, f"{first}: {text}", tuple(id_ for id_, _ in nodes[:NODES_LISTED]), len(nodes))


def merged(findings: Iterable[TraceFinding]) -> list[TraceFinding]:
    """Findings that are the same on several ranks but for ids of nodes as one, which has those of the first rank; worst kinds first."""
    alike: dict[tuple[str, str, int], tuple[TraceFinding, set[int]]] = {}
    for finding in findings:
        key = (finding.kind, _ID.sub("node '", finding.text), finding.count)
        alike.setdefault(key, (finding, set()))[1].update(finding.ranks)
    result = [attrs.evolve(finding, ranks=tuple(sorted(ranks))) for finding, ranks in alike.values()]
    order = {name: number for number, name in enumerate(KINDS)}
    severities = list(Severity)
    return sorted(result, key=lambda each: (severities.index(each.severity), order[each.kind], each.ranks))


_ID = re.compile(r"node \d+ '")


def spans(ranks: Sequence[int]) -> str:
    """Ranks in words: `rank 3`, `ranks 0-3, 8`."""
    pieces: list[list[int]] = []
    for rank in ranks:
        if pieces and pieces[-1][1] == rank - 1:
            pieces[-1][1] = rank
        else:
            pieces.append([rank, rank])
    words = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in pieces)
    return f"rank{'s' if len(ranks) > 1 else ''} {words}"
