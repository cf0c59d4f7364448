"""The same work on more ranks: further ranks do the same as similar ranks in the trace.

Ranks are similar if they share a program: peers at the same distance, process groups of the same shape. Ambiguities are reported:
if ranks differ (stages of a pipeline), only copies of all of them side by side are possible, and the user names the groups that join them.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import attrs
from astra_sim import InputError

from astra_sim_chakra.doctor.findings import spans
from astra_sim_chakra.doctor.trace_set import EVERYBODY
from astra_sim_chakra.ranks import RankTraces
from astra_sim_chakra.schema import CollectiveType, NodeType
from astra_sim_chakra.trace import Node


@attrs.frozen
class GroupRule:
    """The continuation of a process group: its members are `first + stride * n` for n below `size`, and it grows or is copied."""

    members: tuple[int, ...]
    grows: bool


@attrs.define(eq=False)
class Scaled:
    """The nodes of further ranks. `notes` describe how groups, peers and sizes continue."""

    npus: int
    groups: dict[str, list[int]] = attrs.field(factory=dict)
    notes: list[str] = attrs.field(factory=list)
    _names: dict[tuple[int, ...], str] = attrs.field(factory=dict)

    def name_of(self, members: Sequence[int]) -> str:
        """The name of a process group of the scaled traces."""
        key = tuple(members)
        if key not in self._names:
            self._names[key] = str(len(self.groups) + 1)
            self.groups[self._names[key]] = list(key)
        return self._names[key]


class Scaling:
    """Makes the nodes of more ranks out of those of few."""

    def __init__(
        self,
        traces: RankTraces,
        npus: int,
        groups: Mapping[str, tuple[int, ...]],
        *,
        copies: bool = False,
        grow: Sequence[str] = (),
        keep_shards: bool = False,
    ) -> None:
        """`copies`: copies of all ranks side by side, which the groups `grow` join. `keep_shards`: all-gathers keep the bytes of a rank.

        Raises InputError, with the reason, if the traces do not determine the work of further ranks.
        """
        self._traces = traces
        self._old, self._copies, self._grow, self._keep_shards = traces.ranks, copies, frozenset(grow), keep_shards
        self._groups = groups
        self.result = Scaled(npus)
        self._check(npus)
        self._rules = {name: self._rule(name) for name in sorted({name for names in traces.groups_of for name in names} - {*EVERYBODY})}
        for name in grow:
            if name not in self._rules:
                raise InputError(f"--grow {name}: no collective of the traces runs in this process group; they have {self._known()}")
        self._tell()

    def nodes(self, rank: int) -> list[Node]:
        """The nodes of one of the scaled ranks. Raises InputError if a peer has no clear counterpart."""
        source = rank % self._old
        return [self._node(node, rank) for node in self._traces.trace(source).nodes()]

    # -- Scalable traces -----------------------------------------------------------------------------------------------

    def _check(self, npus: int) -> None:
        """Raise InputError if traces cannot be continued on `npus` ranks."""
        old, traces = self._old, self._traces
        if npus < old:
            raise InputError(f"--npus {npus}: there are {old} ranks already; expected more")
        if npus % old:
            raise InputError(f"--npus {npus} is no multiple of the {old} ranks that there are")
        if self._grow and not self._copies:
            raise InputError("--grow names the groups that join copies; expected --copies, too")
        if len(traces.programs) > 1 and not self._copies:
            kinds = "; ".join(spans(traces.members(program)) for program in range(min(len(traces.programs), 8)))
            more = "" if len(traces.programs) <= 8 else f"; and {len(traces.programs) - 8} more"
            raise InputError(
                f"{traces.prefix}: the ranks are not alike, they run {len(traces.programs)} programs ({kinds}{more}), so the traces do not "
                "tell the work of further ranks; --copies makes copies of all of them, joined by the process groups that --grow names"
            )

    def _rule(self, name: str) -> GroupRule:
        """The continuation of a process group: it grows with the ranks, or there are more like it. Raises InputError."""
        members = self._groups.get(name)
        if members is None:
            raise InputError(
                f"{self._traces.prefix}: the process group {name!r} has collectives, but its ranks are unknown; expected --groups FILE"
            )
        if len(members) == self._old:
            return GroupRule(members, grows=not self._copies or name in self._grow)
        if self._copies:
            return GroupRule(members, name in self._grow)
        strides = {after - before for before, after in itertools.pairwise(members)}
        if len(strides) > 1:
            raise InputError(
                f"{self._traces.prefix}: the ranks of process group {name!r} are {', '.join(map(str, members))}, with no regular distance; "
                "how it continues on further ranks is ambiguous (--copies copies it)"
            )
        stride = strides.pop() if strides else 0
        return GroupRule(members, grows=stride > 1 and stride * len(members) == self._old)

    def _known(self) -> str:
        return ", ".join(map(repr, self._rules)) or "none"

    def _tell(self) -> None:
        """Note the groups that grow, and the assumptions."""
        notes = self.result.notes
        growing = [name for name, rule in self._rules.items() if rule.grows]
        staying = [name for name, rule in self._rules.items() if not rule.grows]
        factor = self.result.npus // self._old
        if self._copies:
            notes.append(f"{factor} copies of {self._old} ranks; messages stay within a copy")
        if growing:
            notes.append(f"{len(growing)} process groups grow {factor} times ({', '.join(growing[:8])}{'...' if len(growing) > 8 else ''})")
        if staying:
            notes.append(f"{len(staying)} process groups keep their size, and there are {factor} times as many of them")
        everybody = any(
            program.type[row] == NodeType.COMM_COLL_NODE
            and (program.comm.group[row] < 0 or program.comm.groups[program.comm.group[row]] in EVERYBODY)
            for program in self._traces.programs
            for row in range(len(program))
        )
        if everybody:
            notes.append("collectives without a process group join all ranks; over some dimensions (involved_dim), the last of them grows")
        elif not growing and not any(program.has_peers for program in self._traces.programs):
            notes.append("no collective joins the copies: each of them works by itself")
        if everybody or growing:
            notes.append(f"compute stays as on {self._old} ranks, also what a rank does on a share that shrinks, such as FSDP's optimizer")

    # -- Nodes ---------------------------------------------------------------------------------------------------------

    def _node(self, node: Node, rank: int) -> Node:
        """A node as a further rank has it: its peers, its group, and the shard of an all-gather whose group grows."""
        changes: dict[str, object] = {}
        for peer in ("comm_src", "comm_dst"):
            if getattr(node, peer) is not None:
                changes[peer] = self._peer(node, peer, rank)
        grows = node.type == NodeType.COMM_COLL_NODE
        if node.pg_name is not None and node.pg_name not in EVERYBODY:
            rule = self._rules[node.pg_name]
            grows = grows and rule.grows
            changes["pg_name"] = self.result.name_of(self._members(rule, rank))
        elif node.involved_dim is not None:
            grows = grows and bool(node.involved_dim) and node.involved_dim[-1]
        if grows and not self._keep_shards and node.comm_type == CollectiveType.ALL_GATHER and node.comm_size:
            changes["comm_size"] = -(-node.comm_size * self._old // self.result.npus)
        return attrs.evolve(node, **changes) if changes else node  # type: ignore[arg-type]

    def _members(self, rule: GroupRule, rank: int) -> list[int]:
        first = rank // self._old * self._old
        if not rule.grows:
            return [first + member for member in rule.members]
        return sorted(member + copy * self._old for copy in range(self.result.npus // self._old) for member in rule.members)

    def _peer(self, node: Node, field: str, rank: int) -> int:
        """The peer of a message: in the same copy, or at the same distance around the ring of all ranks."""
        peer: int = getattr(node, field)
        if self._copies:
            return rank // self._old * self._old + peer
        distance = (peer - rank % self._old) % self._old
        if 2 * distance == self._old:
            raise InputError(
                f"{self._traces.path(rank % self._old)}: node {node.id}: {field} is {peer}, half way round {self._old} ranks; "
                f"whether it stays at distance {distance} or half way round is ambiguous (--copies keeps messages within copies)"
            )
        return (rank + (distance if 2 * distance < self._old else distance - self._old)) % self.result.npus
