"""Text of ASTRA-sim 1.0 as the traces that MLCommons' text converter makes of it: its nodes, ids, order and sizes.

They are not run by ASTRA-sim 1.0: nanoseconds are written as microseconds, NONE is an all-reduce, both sides of a hybrid parallelism
join all ranks, and time to use a result is left out. Ids go on from rank to rank. Rules: `text_converter.py` of Chakra 1.0.0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import attrs
from astra_sim import InputError
from astra_sim.errors import suggestion

from astra_sim_chakra.schema import MAX_64, CollectiveType, NodeType
from astra_sim_chakra.trace import Metadata, Node
from astra_sim_chakra.wire import Attribute

_COLLECTIVES = {
    "ALLREDUCE": CollectiveType.ALL_REDUCE,
    "ALLTOALL": CollectiveType.ALL_TO_ALL,
    "ALLGATHER": CollectiveType.ALL_GATHER,
    "REDUCESCATTER": CollectiveType.REDUCE_SCATTER,
}
"""All other words are an all-reduce there."""

_COLUMNS = 12
_PASSES = ("FWD", "BWD_IG", "BWD_WG")
_FORWARD, _INPUT, _WEIGHT = range(3)


class _TracePart(NamedTuple):
    """A pass of a layer: its time, and its collective."""

    time: int
    kind: str
    size: int


@attrs.define
class _TraceLayer:
    """A layer, and the ids of its latest nodes by pass: those that compute, and those that communicate (None: none yet)."""

    name: str
    parts: list[_TracePart]
    computed: list[int | None] = attrs.field(factory=lambda: [None] * 3)
    sent: list[int | None] = attrs.field(factory=lambda: [None] * 3)


class MlcommonsText:
    """A text of ASTRA-sim 1.0, read line by line as MLCommons' text converter does. Raises InputError if that ends with an error."""

    def __init__(self, text: str, path: str) -> None:
        self._path = path
        lines = text.split("\n")
        if lines[-1] == "":
            lines.pop()
        words = lines[0].split() if lines else []
        if not words or words[0] not in _LOOPS:
            parallelism, remedy = words[0] if words else "", "astra convert --platform takes all parallelisms of ASTRA-sim 1.0"
            raise self._error(
                1, f"MLCommons' converter does not have the parallelism {parallelism!r}; {suggestion(parallelism, _LOOPS)}; {remedy}"
            )
        self._loop, self._last_bottom = _LOOPS[words[0]], -1
        if words[0].startswith("HYBRID_DLRM"):
            self._last_bottom = self._whole(words[1] if len(words) > 1 else "", 1, "the last layer of the bottom MLP")
        self._count = self._whole(lines[1] if len(lines) > 1 else "", 2, "the number of layers")
        self._layers = [self._layer(line, number) for number, line in enumerate(lines[2:], 3)]
        if not self._layers:
            raise self._error(2, "no layer follows; expected at least one")
        self._next_id, self._nodes = 0, list[Node]()
        schema = Attribute("schema", "string_val", "1.0.2-chakra.1.0.0")
        self.metadata = Metadata("", (schema, Attribute("input_file", "string_val", text)))

    def ranks(self, npus: int, passes: int) -> Iterator[list[Node]]:
        """The nodes of rank after rank. Raises InputError if the converter ends with an error: a node waits for one that is not made."""
        for _ in range(npus):
            self._nodes = []
            for _ in range(passes):
                self._loop(self)
            for layer in self._layers:
                layer.computed, layer.sent = [None] * 3, [layer.sent[_FORWARD], None, None]
            yield self._nodes

    def _error(self, line: int, message: str) -> InputError:
        return InputError(f"{self._path}:{line}: {message}")

    def _whole(self, word: str, line: int, what: str) -> int:
        try:
            value = int(word)
        except ValueError:
            value = -1
        if not 0 <= value <= MAX_64:
            raise self._error(line, f"{what} is {word.strip()!r}; expected a whole number from 0 to {MAX_64}")
        return value

    def _layer(self, line: str, number: int) -> _TraceLayer:
        words = line.split()
        if len(words) < _COLUMNS:
            raise self._error(number, f"a line of {len(words)} words; expected a layer, of {_COLUMNS}, as MLCommons' converter does")
        parts = []
        for name, at in zip(_PASSES, (2, 5, 8), strict=True):
            where = f"of layer {words[0]}, {name}"
            time, size = self._whole(words[at], number, f"the time {where}"), self._whole(words[at + 2], number, f"the bytes {where}")
            parts.append(_TracePart(time, words[at + 1], size))
        return _TraceLayer(words[0], parts)

    def _add(self, name: str, kind: NodeType, waits: tuple[int | None, ...], part: _TracePart) -> int:
        id_ = self._next_id
        node = Node(id=id_, name=name, type=kind, data=tuple(wait for wait in waits if wait is not None))
        if kind == NodeType.COMP_NODE:
            node.duration_ns = 1000 * part.time
        else:
            node.comm_type, node.comm_size = _COLLECTIVES.get(part.kind, CollectiveType.ALL_REDUCE), part.size
        self._nodes.append(node)
        self._next_id += 1
        return id_

    def _compute(self, layer: _TraceLayer, which: int, *waits: int | None) -> int:
        id_ = self._add(f"COMP_NODE_{layer.name}_{_PASSES[which]}", NodeType.COMP_NODE, waits, layer.parts[which])
        layer.computed[which] = id_
        return id_

    def _send(self, layer: _TraceLayer, which: int, *waits: int | None, after_name: str = "") -> int:
        part = layer.parts[which]
        name = f"COMM_COLL_NODE_{layer.name}{after_name}_{part.kind}"
        layer.sent[which] = id_ = self._add(name, NodeType.COMM_COLL_NODE, waits, part)
        return id_

    def _node_of(self, id_: int | None, layer: _TraceLayer, what: str) -> int:
        if id_ is None:
            raise InputError(f"{self._path}: a node waits for {what} of layer {layer.name}, which MLCommons' converter has not made")
        return id_

    def _micro(self) -> None:
        for layer in self._layers:
            self._send(layer, _WEIGHT)

    def _data(self) -> None:
        before: int | None = None
        for layer in self._layers:
            before = self._compute(layer, _FORWARD, before, layer.sent[_WEIGHT])
        for layer in reversed(self._layers):
            before = self._compute(layer, _WEIGHT, before)
            self._send(layer, _WEIGHT, before)
            if layer is not self._layers[0]:
                before = self._compute(layer, _INPUT, before)

    def _model(self) -> None:
        before: int | None = None
        for layer in self._layers:
            before = self._send(layer, _FORWARD, self._compute(layer, _FORWARD, before, layer.computed[_WEIGHT]))
        self._backward((before,), False, "")

    def _hybrid(self, after_name: str = "") -> None:
        before: int | None = None
        for layer in self._layers:
            before = self._send(layer, _FORWARD, self._compute(layer, _FORWARD, layer.sent[_WEIGHT], before))
        self._backward((before,), True, after_name)

    def _hybrid_data_model(self) -> None:
        self._hybrid("_IG_COMM_")

    def _backward(self, waits: tuple[int | None, ...], has_weights: bool, after_name: str) -> None:
        """The backward pass in which activations are exchanged. The number of layers on the second line tells which layer sends nothing."""
        for place, layer in enumerate(reversed(self._layers)):
            if place:
                above = self._layers[-place]
                waits = above.computed[_WEIGHT], self._node_of(above.sent[_INPUT], above, "the collective of the input gradient")
            gradient = self._compute(layer, _INPUT, *waits)
            if place != self._count - 1:
                self._send(layer, _INPUT, gradient, after_name=after_name)
            weight = self._compute(layer, _WEIGHT, gradient)
            if has_weights:
                self._send(layer, _WEIGHT, weight)

    def _dlrm(self) -> None:
        """Issue the passes of a recommendation model: the exchange of embeddings meets the last layer of the bottom part."""
        layers, embedding = self._layers, self._layers[0]
        before: int | None = None
        for place, layer in enumerate(layers):
            updated = layer.computed[_WEIGHT] if layer.sent[_WEIGHT] is None else layer.sent[_WEIGHT]
            exchanged = self._node_of(embedding.sent[_FORWARD], embedding, "the ALLTOALL") if place == self._last_bottom else None
            before = self._compute(layer, _FORWARD, updated, before, exchanged)
            if layer.parts[_FORWARD].kind == "ALLTOALL":
                self._send(layer, _FORWARD, before)
        for place in range(len(layers) - 1, -1, -1):
            layer = layers[place]
            if layer is not layers[-1]:
                before = layers[place + 1].computed[_INPUT]
            exchanged = layer.sent[_INPUT] if layer is not layers[-1] else None
            weight = self._compute(layer, _WEIGHT, before, exchanged)
            if layer.parts[_WEIGHT].kind != "NONE":
                self._send(layer, _WEIGHT, weight)
            if place:
                gradient = self._compute(layer, _INPUT, weight)
                if place == self._last_bottom + 1:
                    self._send(embedding, _INPUT, gradient)


_LOOPS: dict[str, Callable[[MlcommonsText], None]] = {
    "MICRO": MlcommonsText._micro,
    "DATA": MlcommonsText._data,
    "MODEL": MlcommonsText._model,
    "HYBRID_DATA_MODEL": MlcommonsText._hybrid_data_model,
    "HYBRID_MODEL_DATA": MlcommonsText._hybrid,
    "HYBRID_DLRM": MlcommonsText._dlrm,
    "HYBRID_DLRM_ENHANCED": MlcommonsText._dlrm,
}
