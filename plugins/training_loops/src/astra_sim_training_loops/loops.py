"""The training loops of ASTRA-sim 1.0.

Every loop ends a pass with a step to the next, and a run with a wait for the weight gradients of layer 0, which are issued last. The
time until the first of them has ended counts as exposed communication of that layer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from astra_sim import InputError
from astra_sim.graph import Pass
from astra_sim.layers import LayeredProgram
from astra_sim.schedule import Collective
from astra_sim.units import PS_PER_NS

if TYPE_CHECKING:
    from astra_sim_training_loops.loop_options import DlrmOptions, RecomputingTransformerOptions, TransformerOptions

FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT = Pass.FORWARD, Pass.INPUT_GRADIENT, Pass.WEIGHT_GRADIENT

Scope = tuple[int, ...]
"""Dimensions that take part in a collective."""


def data(program: LayeredProgram) -> None:
    """Weight gradients are all-reduced, overlapping with the rest of the backward pass."""
    everywhere = program.all_dimensions()
    for _ in program.iterations():
        _forward(program, None)
        for layer in _backwards(program):
            program.compute(layer, WEIGHT_GRADIENT)
            program.communicate(layer, WEIGHT_GRADIENT, everywhere)
            _step(program)
            if layer > 0:
                program.compute(layer, INPUT_GRADIENT)
                _step(program)
    _finish(program)


def data_reorder(program: LayeredProgram) -> None:
    """As `data`, but the gradients of a layer's inputs come before those of its weights.

    The loop that exercise 4 of ASTRA-sim's tutorials of 2022 adds (`DATA_REORDER`).
    """
    everywhere = program.all_dimensions()
    for _ in program.iterations():
        _forward(program, None)
        for layer in _backwards(program):
            if layer > 0 or len(program.layers) == 1:
                program.compute(layer, INPUT_GRADIENT)
                _step(program)
            program.compute(layer, WEIGHT_GRADIENT)
            program.communicate(layer, WEIGHT_GRADIENT, everywhere)
            _step(program)
    _finish(program)


def model(program: LayeredProgram) -> None:
    """Activations and their gradients are exchanged, weights stay if they are."""
    _model_and_data(program, lambda layer: program.all_dimensions(), lambda layer: (), weights=False)


def hybrid_data_model(program: LayeredProgram) -> None:
    """Model parallel in dimension 0, data parallel in the others."""
    everywhere = program.all_dimensions()
    _model_and_data(program, lambda layer: everywhere[:1], lambda layer: everywhere[1:])


def hybrid_model_data(program: LayeredProgram) -> None:
    """Data parallel in dimension 0, model parallel in the others."""
    everywhere = program.all_dimensions()
    _model_and_data(program, lambda layer: everywhere[1:], lambda layer: everywhere[:1])


def hybrid_customized(program: LayeredProgram) -> None:
    """Every layer names the loop whose parallelisation it follows."""
    everywhere = program.all_dimensions()
    scopes: dict[str, tuple[Scope, Scope]] = {
        "data": ((), everywhere),
        "micro": ((), everywhere),
        "model": (everywhere, ()),
        "distributed_inference": (everywhere, ()),
        "hybrid_data_model": (everywhere[:1], everywhere[1:]),
        "hybrid_model_data": (everywhere[1:], everywhere[:1]),
    }
    for layer in program.layers:
        if layer.loop not in scopes:
            raise InputError(f"layer {layer.name}: loop is {layer.loop!r}; known here: {', '.join(scopes)}")
    chosen = [scopes[layer.loop or ""] for layer in program.layers]
    _model_and_data(program, lambda layer: chosen[layer][0], lambda layer: chosen[layer][1])


def hybrid_transformer(program: LayeredProgram, options: TransformerOptions) -> None:
    """Model parallel in groups of neighbouring NPUs, data parallel between the groups."""
    _transformer(program, options, lambda layer: None)


def hybrid_transformer_fwd_in_bckwd(program: LayeredProgram, options: RecomputingTransformerOptions) -> None:
    """Before the backward pass of some layers, the forward pass is repeated from the last checkpoint on."""
    count = len(program.layers)
    for name, layers in (("checkpoints", options.checkpoints), ("checkpoint_initiates", options.checkpoint_initiates)):
        for layer in layers:
            if layer >= count:
                raise InputError(f"{name} has layer {layer}; the workload has layers 0 to {count - 1}")

    def recompute_from(layer: int) -> tuple[int, int] | None:
        """The layers (first, one past last) whose forward pass is repeated before the backward pass of `layer`."""
        if layer not in options.checkpoint_initiates:
            return None
        below = [checkpoint for checkpoint in options.checkpoints if checkpoint <= layer]
        if not below:
            raise InputError(f"checkpoint_initiates has layer {layer}, but no checkpoint is at or before it")
        above = [initiate for initiate in options.checkpoint_initiates if initiate > max(below)]
        if not above or min(above) != layer:
            stop = f"stop at layer {min(above)}" if above and min(above) < layer else f"run past layer {layer}"
            raise InputError(f"the forward pass repeated from checkpoint {max(below)} for layer {layer} would {stop}")
        return max(below), layer

    _transformer(program, options, recompute_from)


def _transformer(program: LayeredProgram, options: TransformerOptions, recompute_from: Callable[[int], tuple[int, int] | None]) -> None:
    """Append the iterations; the backward pass repeats forward passes from a checkpoint if `recompute_from` names it."""
    group, experts = options.model_parallel_npus, options.model_parallel_npus * options.expert_parallel_npus
    if group > 1:
        program.dimensions, inside = program.platform.split_for_group(group)
    else:
        inside = 0
    program.whole_gathers = options.whole_gathers
    last = inside
    if experts > group:
        program.dimensions, last = program.platform.split_for_group(experts, program.dimensions)
    everywhere = program.all_dimensions()
    within, between = everywhere[:inside], everywhere[inside:]
    groups = {"expert": everywhere[inside:last], "expert_data": everywhere[last:]}
    for _ in program.iterations():
        for layer in range(len(program.layers)):
            _forward_layer(program, layer, within, groups=groups)
        layer = len(program.layers) - 1
        while layer >= 0:
            again = recompute_from(layer)
            if again is not None:
                _step(program)
                for earlier in range(*again):
                    _forward_layer(program, earlier, within, groups=groups)
                layer = again[1]
            program.compute(layer, INPUT_GRADIENT)
            program.communicate(layer, INPUT_GRADIENT, within, blocking=True, groups=groups)
            _step(program)
            program.compute(layer, WEIGHT_GRADIENT)
            program.communicate(layer, WEIGHT_GRADIENT, between, groups=groups)
            _step(program)
            layer -= 1
    _finish(program)


def hybrid_dlrm(program: LayeredProgram, options: DlrmOptions) -> None:
    """Layer 0 is the embedding, exchanged all-to-all beside the bottom MLP; the MLPs are data parallel."""
    _dlrm(program, options, wait_in_backward=True)


def hybrid_dlrm_enhanced(program: LayeredProgram, options: DlrmOptions) -> None:
    """As `hybrid_dlrm`, but the backward pass does not wait for the exchange of the embedding's gradients."""
    _dlrm(program, options, wait_in_backward=False)


def _dlrm(program: LayeredProgram, options: DlrmOptions, wait_in_backward: bool) -> None:
    """The loop of DLRM: the first layer, the embedding, exchanges among all NPUs, and the last bottom layer waits for it."""
    last = options.last_bottom_layer
    if last >= len(program.layers):
        raise InputError(f"last_bottom_layer is {last}; the workload has layers 0 to {len(program.layers) - 1}")
    everywhere = program.all_dimensions()
    for _ in program.iterations():
        for layer in range(len(program.layers)):
            program.wait(layer, WEIGHT_GRADIENT)
            program.compute(layer, FORWARD)
            if program.collective(layer, FORWARD) is Collective.ALL_TO_ALL:
                program.communicate(layer, FORWARD, everywhere if layer == 0 else (), urgent=True)
            elif layer == last:
                program.wait(0, FORWARD)
            _step(program)
        for layer in _backwards(program):
            program.compute(layer, WEIGHT_GRADIENT)
            program.communicate(layer, WEIGHT_GRADIENT, everywhere)
            if wait_in_backward:
                program.wait(layer, INPUT_GRADIENT)
            _step(program)
            if layer > 0:
                program.compute(layer, INPUT_GRADIENT)
                if layer == last + 1:
                    program.communicate(0, INPUT_GRADIENT, everywhere, urgent=True)
                _step(program)
    _finish(program)


def micro(program: LayeredProgram) -> None:
    """The weight-gradient collective of layer 0, once per pass, all at time 0."""
    for _ in program.iterations():
        program.communicate(0, WEIGHT_GRADIENT, program.all_dimensions())
    _finish(program)


def distributed_inference(program: LayeredProgram) -> None:
    """Forward passes only, model parallel."""
    everywhere = program.all_dimensions()
    for _ in program.iterations():
        _forward(program, lambda layer: everywhere, weights=False)


def _model_and_data(
    program: LayeredProgram, activations: Callable[[int], Scope], gradients: Callable[[int], Scope], weights: bool = True
) -> None:
    """Activations are exchanged in one scope, weight gradients (if `weights`) in another, which may differ from layer to layer."""
    for _ in program.iterations():
        _forward(program, activations, weights)
        for layer in _backwards(program):
            program.compute(layer, INPUT_GRADIENT)
            if layer > 0:
                program.communicate(layer, INPUT_GRADIENT, activations(layer))
            _step(program)
            program.compute(layer, WEIGHT_GRADIENT)
            if weights:
                program.communicate(layer, WEIGHT_GRADIENT, gradients(layer))
            program.wait(layer, INPUT_GRADIENT)
            _step(program)
    if weights:
        _finish(program)


def _forward(program: LayeredProgram, scope: Callable[[int], Scope] | None, weights: bool = True) -> None:
    """A forward pass; activations are exchanged if there is a scope for it. It waits for `weights` that were exchanged."""
    for layer in range(len(program.layers)):
        _forward_layer(program, layer, None if scope is None else scope(layer), weights)


def _forward_layer(
    program: LayeredProgram, layer: int, scope: Scope | None, weights: bool = True, groups: Mapping[str, Scope] | None = None
) -> None:
    if weights:
        program.wait(layer, WEIGHT_GRADIENT)
    program.compute(layer, FORWARD)
    if scope is not None:
        program.communicate(layer, FORWARD, scope, blocking=True, groups=groups)
    _step(program)


def _backwards(program: LayeredProgram) -> Sequence[int]:
    return range(len(program.layers) - 1, -1, -1)


def _step(program: LayeredProgram) -> None:
    """Go from one step of the loop to the next, which takes a tick of ASTRA-sim's clock."""
    program.idle(PS_PER_NS)


def _finish(program: LayeredProgram) -> None:
    program.wait(0, WEIGHT_GRADIENT, until_first=True)
