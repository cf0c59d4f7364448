"""Objects that ranks send to each other, such as the shapes of stages of a pipeline: ranks are recorded one after another, by files.

A rank that needs an object which is not there ends, and runs again when the rank that sends it has run.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import os
import pickle
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch._subclasses.fake_tensor import unset_fake_temporarily

from .replacing import replace


class WaitsForRank(BaseException):
    """An object of another rank is not there yet."""

    def __init__(self, rank: int) -> None:
        super().__init__(f"waits for rank {rank}")
        self.rank = rank


class _Objects:
    """The n-th call from one rank to another meets the n-th receive."""

    def __init__(self, folder: str, rank: int) -> None:
        self._folder, self._rank = Path(folder), rank
        self._calls: Counter[tuple[int, int]] = Counter()

    def _path(self, source: int, destination: int) -> Path:
        self._calls[source, destination] += 1
        return self._folder / f"{source}_{destination}_{self._calls[source, destination]}"

    def send(self, objects: list[Any], dst: int | None = None, group: Any = None, *_: Any, group_dst: int | None = None, **__: Any) -> None:
        """In place of `send_object_list`."""
        path = self._path(self._rank, _rank_of(dst, group, group_dst))
        with unset_fake_temporarily():
            path.with_suffix(".part").write_bytes(pickle.dumps(objects))
        os.replace(path.with_suffix(".part"), path)

    def receive(
        self, objects: list[Any], src: int | None = None, group: Any = None, *_: Any, group_src: int | None = None, **__: Any
    ) -> int:
        """In place of `recv_object_list`. Raises WaitsForRank."""
        source = _rank_of(src, group, group_src)
        path = self._path(source, self._rank)
        if not path.exists():
            raise WaitsForRank(source)
        with unset_fake_temporarily():
            objects[:] = pickle.loads(path.read_bytes())
        return source

    def all_gather(self, objects: list[Any], value: Any, *_: Any, **__: Any) -> None:
        """In place of `all_gather_object`: all ranks have the object of this one."""
        objects[:] = [value] * len(objects)

    def broadcast(
        self, objects: list[Any], src: int | None = None, group: Any = None, *_: Any, group_src: int | None = None, **__: Any
    ) -> None:
        """In place of `broadcast_object_list`. Raises WaitsForRank."""
        source = _rank_of(src, group, group_src)
        path = self._path(source, _ALL)
        if source == self._rank:
            with unset_fake_temporarily():
                path.write_bytes(pickle.dumps(objects))
        elif not path.exists():
            raise WaitsForRank(source)
        else:
            with unset_fake_temporarily():
                objects[:] = pickle.loads(path.read_bytes())


_ALL = -1
"""In place of a destination: all ranks of a group."""


def _rank_of(rank: int | None, group: Any, group_rank: int | None) -> int:
    """A rank of the world from that of the world or of the group."""
    if rank is not None:
        return int(rank)
    if group_rank is None:
        raise RuntimeError("objects are received from any rank, which is not captured; expected src")
    return int(dist.get_global_rank(group or dist.group.WORLD, group_rank))


def register(folder: str, rank: int, inferring: Any) -> None:
    """Let objects be sent by files in a folder, and stages of pipelines agree on shapes without a vote, whose result is data.

    `inferring`: a context in which stages infer shapes.
    """
    objects = _Objects(folder, rank)
    replace(dist.send_object_list, objects.send)
    replace(dist.recv_object_list, objects.receive)
    replace(dist.all_gather_object, objects.all_gather)
    replace(dist.broadcast_object_list, objects.broadcast)
    sys.meta_path.insert(0, _PipelineImport(inferring))


class _PipelineImport(importlib.abc.MetaPathFinder):
    """Changes the schedules of pipelines when a script imports them: few do, and it takes a second."""

    def __init__(self, inferring: Any) -> None:
        self._inferring = inferring

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        """The module as it would be found, with the change behind it."""
        if name != "torch.distributed.pipelining.schedules":
            return None
        sys.meta_path.remove(self)
        specification = importlib.util.find_spec(name)
        loader: Any = None if specification is None else specification.loader
        execute = loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            _vote_without_data(module, self._inferring)

        loader.exec_module = exec_module
        return specification


def _vote_without_data(schedules: Any, inferring: Any) -> None:
    """Let each rank decide by its own stages whether shapes are inferred: scripts give all stages their shapes, or none."""
    from torch.distributed.pipelining import stage

    if not hasattr(stage, "InferenceMode"):
        return  # older releases do not vote

    def warm_up(stages: Any, has_backward: bool) -> None:
        votes = [stage.InferenceMode.needs_dynamic(each._user_meta, has_backward) for each in stages]
        for each in stages:
            each._inference_mode = stage.InferenceMode.DYNAMIC if any(votes) else stage.InferenceMode.STATIC

    infer = stage.PipelineStage._forward_metadata_inference

    def inferred(*args: Any, **keywords: Any) -> Any:
        with inferring():
            return infer(*args, **keywords)

    stage.PipelineStage._forward_metadata_inference = inferred  # type: ignore[method-assign]
    for kind in list(vars(schedules).values()):
        if isinstance(kind, type) and "_warmup_p2p" in vars(kind):
            kind._warmup_p2p = _warm_up(kind._warmup_p2p, warm_up, stage.PipelineStage)  # type: ignore[attr-defined]


def _warm_up(before: Any, warm_up: Any, kind: type) -> Any:
    """A warm-up of stages of one kind, and as before of others."""

    def call(schedule: Any, stages: Any, has_backward: bool, p2p_done: bool) -> None:
        if all(isinstance(each, kind) for each in stages):
            warm_up(stages, has_backward)
        else:
            before(schedule, stages, has_backward, p2p_done)

    return call
