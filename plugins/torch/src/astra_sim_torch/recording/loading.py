"""Data of a script: loaders run as on the host, apart from the recording, and yield tensors without data; synthetic data on request."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
from collections import UserDict
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils import data
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_map
from torch.utils.data import dataloader

from .batches import FAKE, BatchTensor, parse_batch
from .events import TorchEvents
from .memory import TorchMemory
from .stubs import Nothing

_ROWS, _WORDS, _FEWEST_BATCHES = 4096, 64, 64
"""Rows of a synthetic data set and words of each; batches that a loader of a replaced data set has at least."""

_NUMBERS = 1 << 24
"""Elements of an array in place of a missing file."""


class _Loading:
    """Makes batches for the recording."""

    def __init__(self, mode: FakeTensorMode, memory: TorchMemory, batch: Sequence[BatchTensor]) -> None:
        self._mode, self._memory, self._batch = mode, memory, batch

    def without_data(self, value: Any) -> Any:
        """A batch of the host with tensors that have no data."""
        if isinstance(value, UserDict):  # such as a BatchEncoding
            value.data = self.without_data(value.data)
            return value
        return tree_map(self._faked, value)

    def _faked(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor):
            value = self._mode.from_tensor(value)
            self._memory.see([value], [])
        return value

    def described(self) -> Any:
        """A batch of the shapes that were asked for."""
        tensors = [torch.zeros(each.shape, dtype=getattr(torch, each.type), device="meta") for each in self._batch]
        with self._mode, contextlib.ExitStack():
            faked = [torch.empty_like(each, device="cpu") for each in tensors]
        self._memory.see(faked, [])
        if self._batch[0].name:
            return {each.name: tensor for each, tensor in zip(self._batch, faked, strict=True)}
        return tuple(faked) if len(faked) > 1 else faked[0]


def register(option: str | None, events: TorchEvents, memory: TorchMemory, mode: FakeTensorMode) -> None:
    """Let loaders run apart from the recording, in this process; `option` is that of `--data`, None for the script's own data."""
    loading = _Loading(mode, memory, parse_batch(option or FAKE))
    kind = dataloader._BaseDataLoaderIter
    begin, following = kind.__init__, kind.__next__

    @functools.wraps(begin)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        with _disable_current_modes():
            begin(self, *args, **kwargs)

    def __next__(self: Any) -> Any:  # noqa: N807
        with _disable_current_modes():
            batch = following(self)
        return loading.without_data(batch)

    kind.__init__, kind.__next__ = __init__, __next__  # type: ignore[method-assign]
    # No processes of workers: their time is not recorded, and tensors without data cannot be sent.
    none = {"num_workers": 0, "prefetch_factor": None, "persistent_workers": False, "multiprocessing_context": None}
    for name, value in none.items():
        setattr(data.DataLoader, name, property(functools.partial(_always, value), lambda self, other: None))
    if option == FAKE:
        _fake_numpy()
        if importlib.util.find_spec("datasets") is not None:
            _fake_datasets()
        if importlib.util.find_spec("transformers") is not None:
            _fake_tokenizers()
        events.notes.append(
            "data sets and tokenizers are synthetic (--data fake): shapes that depend on data are not those of the real ones"
        )
    elif option is not None:
        _yield_described(loading)
        events.notes.append(f"loaders yield batches of {option} (--data)")


def _always(value: Any, _: Any) -> Any:
    return value


def _yield_described(loading: _Loading) -> None:
    """Let every loader yield the described batch, whatever its data set is."""
    begin = data.DataLoader.__init__

    @functools.wraps(begin)
    def __init__(self: Any, dataset: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        if isinstance(dataset, Nothing):
            dataset = range(_FEWEST_BATCHES * max(1, kwargs.get("batch_size") or (args[0] if args else 1)))
        begin(self, dataset, *args, **kwargs)

    def __iter__(self: Any) -> Iterator[Any]:  # noqa: N807
        try:
            number = len(self)
        except TypeError:  # a data set without length
            number = 0
        return (loading.described() for _ in range(max(number, _FEWEST_BATCHES)))

    data.DataLoader.__init__, data.DataLoader.__iter__ = __init__, __iter__  # type: ignore[method-assign]


def _fake_numpy() -> None:
    """Let arrays of files that are not there be zeros."""
    import numpy as np

    def zeros_without(read: Any, usual: Any) -> Any:
        @functools.wraps(read)
        def call(file: Any, dtype: Any = usual, *args: Any, **kwargs: Any) -> Any:
            if isinstance(file, (str, os.PathLike)) and not os.path.exists(file):
                return np.zeros(kwargs.get("shape") or _NUMBERS, dtype)
            return read(file, dtype, *args, **kwargs)

        return call

    np.memmap = zeros_without(np.memmap, np.uint8)  # type: ignore[misc, assignment]
    np.fromfile = zeros_without(np.fromfile, np.float64)


def _fake_datasets() -> None:
    """Let `datasets` load synthetic text: splits for training, validation and test, with a column `text`."""
    import datasets

    def load(*args: Any, split: Any = None, streaming: bool = False, **_: Any) -> Any:
        def one() -> Any:
            rows = datasets.Dataset.from_dict({"text": [" ".join(["word"] * _WORDS)] * _ROWS})
            return rows.to_iterable_dataset() if streaming else rows

        if isinstance(split, (list, tuple)):
            return [one() for _ in split]
        if split is not None:
            return one()
        kind = datasets.IterableDatasetDict if streaming else datasets.DatasetDict
        return kind({name: one() for name in ("train", "validation", "test")})

    datasets.load_dataset = load
    datasets.load_from_disk = lambda *args, **kwargs: load()


def _fake_tokenizers() -> None:
    """Let tokenizers that are not on this machine have a vocabulary of one word."""
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers

    def one_word(name: Any) -> Any:
        tokenizer = Tokenizer(models.WordLevel({"word": 0, "<end>": 1}, unk_token="word"))
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        special = dict.fromkeys(("bos_token", "eos_token", "pad_token"), "<end>")
        return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="word", name_or_path=str(name), **special)

    def unless_here(load: Any) -> Any:
        @functools.wraps(load)
        def call(kind: Any, name: Any, *args: Any, **kwargs: Any) -> Any:
            return load(name, *args, **kwargs) if os.path.isdir(name) else one_word(name)

        return classmethod(call)

    for kind in (transformers.AutoTokenizer, transformers.PreTrainedTokenizerBase):
        kind.from_pretrained = unless_here(kind.from_pretrained)
