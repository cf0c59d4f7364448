"""The text workload of ASTRA-sim 1.0, turned into a layered workload.

    POLICY [arguments]
    number of layers
    name dependency  fwd-time fwd-comm fwd-bytes  ig-time ig-comm ig-bytes  wg-time wg-comm wg-bytes  update-time [policy]

Words count, not lines: any white space separates them.

Texts of SimAI (aliyun/SimAI, written by AICB) are policies of transformers with more arguments: `ep: N pp: N vpp: N ga: N all_gpus: N`, and
`pp_comm N` at the end. Their collectives may end with `_EP` or `_DP_EP`, for the group that joins, and have 0 bytes, which is none; bytes
of an all-gather are those of its result.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from astra_sim import InputError
from astra_sim.errors import suggestion, warn

_POLICIES = {
    name: name.lower()
    for name in (
        "DATA",
        "DATA_REORDER",
        "MODEL",
        "HYBRID_DATA_MODEL",
        "HYBRID_MODEL_DATA",
        "HYBRID_DLRM",
        "HYBRID_DLRM_ENHANCED",
        "HYBRID_TRANSFORMER",
        "HYBRID_TRANSFORMER_FWD_IN_BCKWD",
        "HYBRID_CUSTOMIZED",
        "MICRO",
        "DISTRIBUTED_INFERENCE",
    )
}
_COLLECTIVES = {
    "NONE": None,
    "ALLREDUCE": "all_reduce",
    "ALLGATHER": "all_gather",
    "REDUCESCATTER": "reduce_scatter",
    "ALLTOALL": "all_to_all",
}
_GROUPS = {"": None, "_EP": "expert", "_DP_EP": "expert_data"}
_SIMAI_COLLECTIVES = {"NONE": (None, None)} | {
    f"{name}{end}": (collective, group) for name, collective in _COLLECTIVES.items() if collective for end, group in _GROUPS.items()
}
_SIMAI = ("ep", "pp", "vpp", "ga", "all_gpus", "pp_comm")
"""Arguments of SimAI, with or without a colon. Layers are those of one pipeline stage, for all its micro-batches (`ga`)."""

_PASSES = ("forward", "input_gradient", "weight_gradient")


class _Word(NamedTuple):
    text: str
    line: int


class _Words:
    """The words of a file, one after another, each with its line."""

    def __init__(self, text: str, path: str) -> None:
        self._words = [_Word(word, number) for number, line in enumerate(text.split("\n"), 1) for word in line.split()]
        self._next = 0
        self._path = path

    def next(self, what: str) -> _Word:
        if self._next == len(self._words):
            line = self._words[-1].line if self._words else 1
            raise InputError(f"{self._path}:{line}: the file ends before {what}")
        self._next += 1
        return self._words[self._next - 1]

    def peek(self) -> _Word | None:
        return self._words[self._next] if self._next < len(self._words) else None

    def error(self, word: _Word, message: str) -> InputError:
        return InputError(f"{self._path}:{word.line}: {message}")

    def number(self, what: str) -> int:
        word = self.next(what)
        if not word.text.isdecimal() or not word.text.isascii() or len(word.text) > 18:
            raise self.error(word, f"{what} is {word.text!r}; expected a whole number of at least 0")
        return int(word.text)

    def expect(self, text: str) -> None:
        word = self.next(text)
        if word.text != text:
            raise self.error(word, f"{word.text!r} is out of place; expected {text!r}")

    def simai(self) -> dict[str, int]:
        """Arguments of SimAI that come next, in any order."""
        result = {}
        while (word := self.peek()) is not None and (name := word.text.removesuffix(":")) in _SIMAI:
            self.next(name)
            result[name] = self.number(name)
        return result

    def numbers(self, label: str) -> list[int]:
        """`label count number ... number`."""
        self.expect(label)
        return [self.number(f"a layer of {label}") for _ in range(self.number(f"the number of {label}"))]


def recognises(text: str) -> bool:
    """Whether the first word is a policy, or looks like one: capitals, and a number of layers on the second line."""
    lines = text.split("\n", 2)
    first = lines[0].split()
    if not first:
        return False
    second = lines[1].split() if len(lines) > 1 else []
    return first[0] in _POLICIES or (first[0].isupper() and len(second) == 1 and second[0].isdecimal())


def read(text: str, path: str) -> dict[str, dict[str, Any]]:
    """The section `workload`. Raises InputError with the line."""
    words = _Words(text, path)
    policy = words.next("the parallelisation policy")
    if policy.text not in _POLICIES:
        raise words.error(policy, f"unknown policy {policy.text!r}; {suggestion(policy.text, _POLICIES)}")
    options: dict[str, Any] = {}
    simai: dict[str, int] = {}
    if policy.text.startswith("HYBRID_TRANSFORMER"):
        words.expect("model_parallel_NPU_group:")
        options["model_parallel_npus"] = words.number("the size of a model-parallel group")
        simai |= words.simai()
    if policy.text == "HYBRID_TRANSFORMER_FWD_IN_BCKWD":
        options["checkpoints"] = words.numbers("checkpoints:")
        options["checkpoint_initiates"] = words.numbers("checkpoint_initiates:")
        simai |= words.simai()
    if policy.text.startswith("HYBRID_DLRM"):
        argument = words.peek()
        if argument is None or argument.line != policy.line:
            raise words.error(policy, f"{policy.text} needs the number of the last layer of the bottom MLP on its line")
        options["last_bottom_layer"] = words.number("the last layer of the bottom MLP")
    if simai:
        options |= {"expert_parallel_npus": simai.get("ep", 1), "whole_gathers": True}
    if simai.get("pp", 1) > 1:
        warn(f"{path}:{policy.line}: pp is {simai['pp']}; its layers are those of one pipeline stage, and the pipeline is not simulated")
    count_word = words.peek()
    count = words.number("the number of layers")
    if count < 1 and count_word is not None:
        raise words.error(count_word, "the number of layers is 0; expected at least 1")
    layers = [_layer(words, number, policy.text == "HYBRID_CUSTOMIZED", bool(simai)) for number in range(1, count + 1)]
    extra = words.peek()
    if extra is not None:
        raise words.error(extra, f"{extra.text!r} is out of place; expected the end of the file after {count} layers")
    return {
        "workload": {
            "plugin": "layers",
            "loop": _POLICIES[policy.text],
            "loop_options": options,
            "layers": layers,
            "single_precision": True,
        }
    }


def _layer(words: _Words, number: int, customized: bool, simai: bool) -> dict[str, Any]:
    """The layer on a line of a workload file, with its three passes."""
    collectives = _SIMAI_COLLECTIVES if simai else {name: (collective, None) for name, collective in _COLLECTIVES.items()}
    name = words.next(f"the name of layer {number}")
    layer: dict[str, Any] = {"name": name.text}
    words.next(f"the dependency of layer {name.text}")
    for training_pass in _PASSES:
        what = f"of layer {name.text}, {training_pass}"
        entry: dict[str, Any] = {"compute_ns": words.number(f"the compute time {what}")}
        kind = words.next(f"the collective {what}")
        if kind.text not in collectives:
            raise words.error(kind, f"the collective {what} is {kind.text!r}; {suggestion(kind.text, collectives)}")
        size, (collective, group) = words.number(f"the bytes {what}"), collectives[kind.text]
        if collective is not None and (size or not simai):
            entry |= {"collective": collective, "collective_bytes": size} | ({"collective_group": group} if group else {})
        layer[training_pass] = entry
    update = words.peek()
    layer["update_ns"] = words.number(f"the update time of layer {name.text}")
    following = words.peek()
    if customized or (update and following and following.line == update.line and following.text in _POLICIES):
        # The workload generator writes the policy behind every layer; it counts only if layers differ.
        policy = words.next(f"the policy of layer {name.text}")
        if policy.text not in _POLICIES:
            raise words.error(policy, f"the policy of layer {name.text} is {policy.text!r}; {suggestion(policy.text, _POLICIES)}")
        if customized:
            layer["loop"] = _POLICIES[policy.text]
    return layer
