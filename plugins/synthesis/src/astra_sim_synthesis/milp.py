"""Plans in as few rounds as there can be, for small fabrics: a mixed-integer program over rounds, which HiGHS solves.

Time is cut into rounds of one piece over the fastest link, as in SCCL (Cai et al., 2021) and TECCL (Liu et al., 2024). A slower link
carries a piece for several rounds, and latencies count in whole rounds. Both are rounded down, so no plan of whole pieces can take fewer
rounds than the program: its starts, rounded down to rounds, would solve it, too. Variables say which piece starts over which edge in which
round. Rows: each rank receives each piece that it needs once; a rank sends what has arrived; a link carries one piece at a time. The number
of rounds rises from what the links of a rank allow until the program has a solution, or up to that of the matching, which is then the best.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import numpy as np
from astra_sim import InputError
from astra_sim.schedule import Collective, Request
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra

from astra_sim_synthesis.edges import RankGraph
from astra_sim_synthesis.matching import Matcher
from astra_sim_synthesis.timing import Transfer, schedule_in_time
from astra_sim_synthesis.tree_plans import piece_bytes

MOST_RANKS_OF_MILP = 8
_MOST_VARIABLES = 6_000
_MOST_NODES = 400
"""Of the branch-and-bound tree: a limit of time would make plans depend on the machine."""
_MOST_ROUNDS = 64


@attrs.frozen(eq=False)
class RoundPlan:
    """The messages of a plan in rounds, and the fewest that plans of whole pieces can have."""

    transfers: list[Transfer]
    rounds: int
    least: int

    def __str__(self) -> str:
        fewest = "the fewest" if self.rounds == self.least else f"at least {self.least}"
        return f"{self.rounds} rounds ({fewest} for whole pieces)"


def in_rounds(graph: RankGraph, request: Request, pieces: int, step_ns: float, bound_ns: float) -> RoundPlan | None:
    """The plan of an all-gather or an all-to-all with the fewest rounds, each rank's data (for each rank) in `pieces` pieces.

    `bound_ns` is a time that no plan can beat. None if the program would be too large or HiGHS finds nothing. Raises InputError if highspy
    is not installed.
    """
    grid = _RoundGrid.of(graph, request, pieces, step_ns)
    matched, most = None, _MOST_ROUNDS
    if request.collective is not Collective.ALL_TO_ALL:
        matcher = Matcher(graph, step_ns)
        matching = matcher.match(grid.piece_bytes, pieces)
        if matching.time_ns == float("inf"):
            return None
        matched = matcher.transfers(matching, request, pieces)
        most = int(matching.time_ns / grid.round_ns + 1e-6)
    least = rounds = max(grid.least(), int(bound_ns / grid.round_ns - 1e-6))
    while rounds < most:
        program = _RoundProgram(grid, rounds)
        if program.variables > _MOST_VARIABLES:
            break
        sent = program.solve()
        if sent:
            return RoundPlan(_transfers(grid, request, pieces, sent, step_ns), rounds, least)
        least += sent is not None and rounds == least
        rounds += 1
    return RoundPlan(matched, most, min(least, most)) if matched is not None else None


def _transfers(grid: _RoundGrid, request: Request, pieces: int, sent: Sequence[tuple[int, int, int]], step_ns: float) -> list[Transfer]:
    """The messages of a solution, as early as they can be: edges, pieces and rounds in which they start."""
    size = piece_bytes(request, pieces)
    transfers: list[Transfer] = []
    brought: dict[tuple[int, int], list[Transfer]] = {}
    for edge, piece, start in sorted(sent, key=lambda entry: entry[2]):
        of = grid.graph.edges[edge]
        owner, place = divmod(piece, grid.ranks * pieces)
        is_exchange = request.collective is Collective.ALL_TO_ALL
        name: Any = (owner, place) if is_exchange else piece
        needs = brought.get((of.source, piece), [])
        transfer = Transfer(of, (name,), size(place if is_exchange else piece), needs, priority=(start,))
        brought[of.target, piece] = [transfer]
        transfers.append(transfer)
    schedule_in_time(transfers, grid.graph.link_bandwidth.tolist(), step_ns)
    return transfers


@attrs.frozen(eq=False)
class _RoundGrid:
    """Edges in rounds: how long each link is busy with a piece, and how long a piece is on its way over each edge.

    `wanted[piece]` are its owner and the ranks that need it.
    """

    graph: RankGraph
    ranks: int
    piece_bytes: float
    round_ns: float
    busy: list[int]
    delay: list[int]
    wanted: dict[int, tuple[int, tuple[int, ...]]]

    @classmethod
    def of(cls, graph: RankGraph, request: Request, pieces: int, step_ns: float) -> _RoundGrid:
        n = graph.ranks
        is_exchange = request.collective is Collective.ALL_TO_ALL
        size = request.bytes / (pieces if request.collective is Collective.ALL_GATHER else n * pieces)
        used = {link for edge in graph.edges for link in edge.links}
        round_ns = size / max(float(graph.link_bandwidth[link]) for link in used)
        busy = [max(1, int(size / float(width) / round_ns + 1e-6)) for width in graph.link_bandwidth]
        delay = [
            max(busy[link] for link in edge.links) + int((edge.latency_ns + step_ns) / round_ns) for edge in graph.edges
        ]  # fmt: skip
        wanted: dict[int, tuple[int, tuple[int, ...]]]
        if is_exchange:
            total = n * pieces
            wanted = {a * total + b: (a, (b // pieces,)) for a in range(n) for b in range(total) if b // pieces != a}
        else:
            wanted = {piece: (piece // pieces, tuple(rank for rank in range(n) if rank != piece // pieces)) for piece in range(n * pieces)}
        return cls(graph, n, size, round_ns, busy, delay, wanted)

    def least(self) -> int:
        """The rounds in which the last links of each rank can bring what it needs."""
        need, last = [0] * self.ranks, [set[int]() for _ in range(self.ranks)]
        for _, targets in self.wanted.values():
            for target in targets:
                need[target] += 1
        soonest = min(delay - max(self.busy[link] for link in edge.links) for edge, delay in zip(self.graph.edges, self.delay, strict=True))
        for edge in self.graph.edges:
            last[edge.target].add(edge.links[-1])
        rounds = 1
        while any(sum((rounds - soonest) // self.busy[link] for link in last[rank]) < need[rank] for rank in range(self.ranks)):
            rounds += 1
        return rounds


class _RoundProgram:
    """The program for a number of rounds. A variable is 1 if a piece starts over an edge in a round."""

    def __init__(self, grid: _RoundGrid, rounds: int) -> None:
        self._grid = grid
        self._number: dict[tuple[int, int, int], int] = {}
        edges = grid.graph.edges
        self._into: list[list[int]] = [[] for _ in range(grid.ranks)]
        self._out_of: list[list[int]] = [[] for _ in range(grid.ranks)]
        for number, edge in enumerate(edges):
            self._into[edge.target].append(number)
            self._out_of[edge.source].append(number)
        ends = ([edge.source for edge in edges], [edge.target for edge in edges])
        apart = dijkstra(csr_matrix((grid.delay, ends), shape=(grid.ranks, grid.ranks)))
        for piece, (owner, targets) in grid.wanted.items():
            for number, edge in enumerate(edges):
                if edge.target == owner or (edge.source,) == targets:
                    continue
                left = 0 if edge.target in targets else min(apart[edge.target, target] for target in targets)
                first, last = apart[owner, edge.source], rounds - grid.delay[number] - left
                for start in range(int(min(first, rounds)), int(max(last, -1)) + 1):
                    self._number[number, piece, start] = len(self._number)
        self._rounds = rounds

    @property
    def variables(self) -> int:
        """How many there are."""
        return len(self._number)

    def solve(self) -> list[tuple[int, int, int]] | None:
        """The messages of a solution; none if it is certain that there is no solution, None if that is not settled."""
        highspy = _highspy()
        rows = list(self._rows())
        if any(not columns and low > 0 for columns, _, low, _ in rows):
            return []
        rows = [row for row in rows if row[0]]
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = self.variables, len(rows)
        model.col_cost_, model.col_lower_, model.col_upper_ = (np.full(self.variables, value) for value in (0.0, 0.0, 1.0))
        model.integrality_ = [highspy.HighsVarType.kInteger] * self.variables
        model.row_lower_, model.row_upper_ = (np.array([row[place] for row in rows], dtype=float) for place in (2, 3))
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_ = np.cumsum([0, *(len(row[0]) for row in rows)])
        model.a_matrix_.index_ = np.array([column for row in rows for column in row[0]])
        model.a_matrix_.value_ = np.array([value for row in rows for value in row[1]], dtype=float)
        solver = highspy.Highs.__base__()  # Highs itself writes a banner to standard output when it is made
        for name, value in (("output_flag", False), ("mip_max_nodes", _MOST_NODES), ("threads", 1)):
            solver.setOptionValue(name, value)
        solver.passModel(model)
        solver.run()
        status = solver.getModelStatus()
        if status == highspy.HighsModelStatus.kInfeasible:
            return []
        if status != highspy.HighsModelStatus.kOptimal:
            return None
        values = solver.getSolution().col_value
        return [key for key, column in self._number.items() if values[column] > 0.5]

    def _rows(self) -> Iterator[tuple[list[int], list[int], float, float]]:
        """Columns, values, and the smallest and the largest sum of each row."""
        yield from self._received()
        yield from self._held()
        yield from self._carried()

    def _starts(self, edges: Sequence[int], piece: int, until: int) -> list[int]:
        """The variables of a piece over some edges that start up to a round."""
        keys = ((edge, piece, start) for edge in edges for start in range(until + 1))
        return [self._number[key] for key in keys if key in self._number]

    def _received(self) -> Iterator[tuple[list[int], list[int], float, float]]:
        for piece, (owner, targets) in self._grid.wanted.items():
            for rank in range(self._grid.ranks):
                columns = self._starts(self._into[rank], piece, self._rounds)
                if rank != owner:
                    yield columns, [1] * len(columns), float(rank in targets), 1.0

    def _held(self) -> Iterator[tuple[list[int], list[int], float, float]]:
        """What a rank has sent over an edge up to a round has arrived before."""
        delay = self._grid.delay
        for piece, (owner, targets) in self._grid.wanted.items():
            for rank in set(range(self._grid.ranks)) - {owner}:
                # what one rank needs leaves another once; what all need is copied
                paths = [self._out_of[rank]] if len(targets) == 1 else [[edge] for edge in self._out_of[rank]]
                for path in paths:
                    for until in range(self._rounds):
                        sent = self._starts(path, piece, until)
                        if not any((edge, piece, until) in self._number for edge in path):
                            continue
                        came = [column for edge in self._into[rank] for column in self._starts([edge], piece, until - delay[edge])]
                        yield [*sent, *came], [*[1] * len(sent), *[-1] * len(came)], -np.inf, 0.0

    def _carried(self) -> Iterator[tuple[list[int], list[int], float, float]]:
        """A link carries one piece at a time."""
        over: dict[tuple[int, int], list[int]] = defaultdict(list)
        for (edge, _, start), column in self._number.items():
            for link in self._grid.graph.edges[edge].links:
                for during in range(start, start + self._grid.busy[link]):
                    over[link, during].append(column)
        for columns in over.values():
            if len(columns) > 1:
                yield columns, [1] * len(columns), -np.inf, 1.0


def _highspy() -> Any:
    try:
        import highspy
    except ModuleNotFoundError:
        raise InputError("--method milp needs highspy, which is not installed: pip install 'astra-sim-synthesis[milp]'") from None
    return highspy
