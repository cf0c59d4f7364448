"""Plugins that are chosen for a process (`-p`): single files with hooks, and installed plugins that are switched off."""

from __future__ import annotations

import importlib.util
import os
import sys
import types

import attrs

from astra_sim._boundary import call, describe_exception
from astra_sim.errors import InputError, PluginError
from astra_sim.value_objects import ValueObject

OFF = "no:"
"""The prefix of an argument of `-p` that disables a plugin."""


@attrs.frozen(eq=False, repr=False)
class PluginChoice(ValueObject):
    """A plugin file, by its name without folders, with its path and its text; or the name of a plugin that is switched off, without."""

    name: str
    path: str = ""
    source: bytes | None = attrs.field(default=None, repr=False)

    @classmethod
    def of(cls, word: str | os.PathLike[str]) -> PluginChoice:
        """The selection of an argument of `-p`: `no:NAME`, or the path of a Python file. Raises InputError."""
        text = os.fspath(word)
        if not isinstance(text, str) or not text:
            raise InputError(f"-p {text!r}: expected the path of a Python file, or no:NAME")
        if text.startswith(OFF):
            return cls(text.removeprefix(OFF))
        path = os.path.abspath(text)
        name = os.path.basename(path)
        stem, ending = os.path.splitext(name)
        if ending != ".py" or not stem.isidentifier():
            raise InputError(f"-p {text}: expected no:NAME, or a Python file whose name is an identifier, such as my_plugin.py")
        try:
            with open(path, "rb") as file:
                return cls(name, path, file.read())
        except OSError as error:
            raise InputError(f"-p {text}: {error.strerror or error}") from None

    @property
    def word(self) -> str:
        """The same selection, independent of the current folder."""
        return self.path or OFF + self.name

    @property
    def digest(self) -> str:
        """A digest of the text."""
        import hashlib

        return hashlib.blake2b(self.source or b"", digest_size=8).hexdigest()

    def module(self) -> types.ModuleType:
        """Run the file as a module of its name. Raises PluginError, InputError if another module has the name."""
        name = self.name.removesuffix(".py")
        own = sys.modules.get(name)
        if own is None or getattr(own, "__astra_plugin__", None) is None:
            spec = None if own is not None else call(f"plugin file {self.path}", importlib.util.find_spec, name)
            if own is not None or (spec is not None and os.path.abspath(spec.origin or "") != self.path):
                raise InputError(f"plugin file {self.path}: there is a Python module {name!r} already; expected another name of the file")
        module = types.ModuleType(name)
        module.__file__ = self.path
        module.__dict__["__astra_plugin__"] = self.digest
        sys.modules[name] = module
        try:
            exec(compile(self.source or b"", self.path, "exec", dont_inherit=True), module.__dict__)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            del sys.modules[name]
            raise PluginError(f"plugin file {self.path} failed: {describe_exception(error)}") from error
        return module
