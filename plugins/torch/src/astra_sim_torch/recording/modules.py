"""Which module of the model runs, in which phase, by the names that its modules have in it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.autograd.graph import register_multi_grad_hook
from torch.utils._pytree import tree_leaves
from torch.utils.module_tracker import ModuleTracker

from .events import TorchEvents


class _Tracker(ModuleTracker):
    """The tracker of torch, which in a backward pass must not keep what activation checkpoints recompute.

    Its hooks refer to the nodes of the graph that they belong to, so that a graph of which no backward pass is made would stay. They do not
    work in `torch.autograd.grad`: without `follows_backward` there are none.
    """

    follows_backward = True

    def _fw_pre_hook(self, mod: Any, input: Any) -> None:
        if not self.is_bw and self.follows_backward:
            super()._fw_pre_hook(mod, input)
            return
        name = self._get_mod_name(mod)
        self._get_append_fn(name, False)()
        self._watch(input, self._get_pop_fn(name, True))

    def _fw_post_hook(self, mod: Any, input: Any, output: Any) -> None:
        if not self.is_bw and self.follows_backward:
            super()._fw_post_hook(mod, input, output)
            return
        name = self._get_mod_name(mod)
        self._get_pop_fn(name, False)()
        self._watch(output, self._get_append_fn(name, True))

    def _watch(self, values: Any, function: Any) -> None:
        tensors = [each for each in tree_leaves(values) if isinstance(each, torch.Tensor) and each.requires_grad]
        if tensors and self.follows_backward:
            register_multi_grad_hook(tensors, lambda _: function(), mode="any")


class Modules:
    """The module whose operators are launched now, and the phase: forward, backward or optimizer."""

    def __init__(self, events: TorchEvents) -> None:
        self._events = events
        self._tracker: Any = _Tracker()
        self._in_optimizer = 0
        self._has_run = False
        self._lines: dict[str, str] = {}
        self._recomputing = 0
        self.on_module: Callable[[torch.nn.Module, Any, str, bool], None] = lambda module, inputs, path, is_outermost: None
        self.on_optimizer: Callable[[torch.optim.Optimizer], None] = lambda optimizer: None
        events.describe = self.describe

    def __enter__(self) -> Modules:
        self._tracker.__enter__()
        torch.nn.modules.module.register_module_forward_pre_hook(self._on_forward)
        torch.nn.modules.module.register_module_forward_hook(self._after_forward, always_call=True)
        return self

    def _on_forward(self, module: torch.nn.Module, inputs: Any) -> None:
        self._has_run = True
        self._recomputing += self.phase == "backward"
        self.on_module(module, inputs, _path(self._tracker._get_mod_name(module)), len(self._tracker.parents) <= 2)

    def _after_forward(self, *_: Any) -> None:
        self._recomputing -= self.phase == "backward"

    @property
    def recomputes(self) -> bool:
        """Whether a module runs forward within a backward pass, as activation checkpoints do."""
        return self._recomputing > 0 and self.phase == "backward"

    def __exit__(self, *problem: object) -> None:
        self._tracker.__exit__(*problem)

    @contextlib.contextmanager
    def without_backward(self) -> Iterator[None]:
        """Run modules whose backward pass is not followed."""
        self._tracker.follows_backward = False
        try:
            yield
        finally:
            self._tracker.follows_backward = True

    @property
    def phase(self) -> str:
        """The current activity."""
        if torch._C._current_graph_task_id() != -1:
            return "backward"
        return "optimizer" if self._in_optimizer else "forward"

    @property
    def phase_of_memory(self) -> str:
        """The same, and `setup` before the first module runs."""
        return self.phase if self._has_run else "setup"

    @property
    def current(self) -> str:
        """The path of the innermost module, from the one that the script calls on; "" outside of modules."""
        parents: list[str] = [name for name in self._tracker.parents if name != "Global"]
        if not parents or self.phase == "optimizer":
            return ""
        innermost = max(parents, key=lambda name: (name.count("."), name))  # by name, too: sets have another order in each process
        return _path(innermost)

    def describe(self) -> dict[str, str]:
        """Phase, module and line, as events have them."""
        return {"phase": self.phase, "module": self.current, "line": self.line()}

    def line(self) -> str:
        """The line of the script; in a backward pass the one that its module last ran at."""
        if self.phase != "backward":
            line = self._events.line()
            self._lines[self.current] = line
            return line
        return self._lines.get(self.current, "")

    def watch_optimizers(self, end_step: Any) -> None:
        """Know when an optimizer steps, and call `end_step` when it has; one that consists of others steps once."""
        from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

        def begin(optimizer: torch.optim.Optimizer, *_: Any) -> None:
            self.on_optimizer(optimizer)
            self._in_optimizer += 1

        def end(optimizer: torch.optim.Optimizer, *_: Any) -> None:
            self.on_optimizer(optimizer)
            self._in_optimizer -= 1
            if not self._in_optimizer:
                end_step()

        register_optimizer_step_pre_hook(begin)
        register_optimizer_step_post_hook(end)


def _path(name: str) -> str:
    """The path of a module in the one that the script calls, which has its own name."""
    return name.partition(".")[2] or name
