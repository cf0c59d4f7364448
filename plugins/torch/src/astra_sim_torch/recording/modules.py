"""Which module of the model runs, in which phase, by the names that its modules have in it."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.module_tracker import ModuleTracker

from .events import TorchEvents


class Modules:
    """The module whose operators are launched now, and the phase: forward, backward or optimizer."""

    def __init__(self, events: TorchEvents) -> None:
        self._events = events
        self._tracker: Any = ModuleTracker()
        self._in_optimizer = 0
        self._has_run = False
        self._lines: dict[str, str] = {}
        events.describe = self.describe

    def __enter__(self) -> Modules:
        self._tracker.__enter__()
        torch.nn.modules.module.register_module_forward_pre_hook(self._on_forward)
        return self

    def _on_forward(self, *_: Any) -> None:
        self._has_run = True

    def __exit__(self, *problem: object) -> None:
        self._tracker.__exit__(*problem)

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
        return innermost.partition(".")[2] or innermost

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
        """Know when an optimizer steps, and call `end_step` when it has."""
        from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

        def begin(*_: Any) -> None:
            self._in_optimizer += 1

        def end(*_: Any) -> None:
            self._in_optimizer -= 1
            end_step()

        register_optimizer_step_pre_hook(begin)
        register_optimizer_step_post_hook(end)
