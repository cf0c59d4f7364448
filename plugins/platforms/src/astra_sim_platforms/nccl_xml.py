"""Reading NCCL's topology XML (NCCL_TOPO_DUMP_FILE, NCCL_TOPO_FILE): the elements of a node, with their lines."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from xml.parsers import expat

import attrs
from astra_sim import InputError
from astra_sim.errors import warn_of_unknown

_INSIDE = {
    "system": ("cpu",),
    "cpu": ("pci", "nic"),
    "pci": ("pci", "gpu", "nic", "nvlink"),
    "gpu": ("nvlink", "c2c"),
    "nic": ("net",),
}
"""Elements, and those in them that describe connections. Others are skipped, with all that is in them."""
_PASSED_OVER = {"pci": ("pcilink",)}
ATTRIBUTES = {
    "system": "version".split(),
    "cpu": "host_hash numaid affinity arch vendor familyid modelid".split(),
    "pci": "busid class vendor device subsystem_vendor subsystem_device link_speed link_width keep".split(),
    "gpu": "dev sm rank gdr mlopart keep".split(),
    "nvlink": "target count tclass".split(),
    "c2c": "bw count".split(),
    "nic": "keep".split(),
    "net": "name dev latency speed port guid maxconn gdr coll net gin rma rail plane keep".split(),
}
"""Attributes that NCCL 2.30 and versions before it write or read. Those that no reader here asks for have no effect."""


@attrs.define
class Element:
    """An element of the file: its place, its attributes, and its children."""

    name: str
    where: str
    attributes: dict[str, str]
    inside: list[Element] = attrs.field(factory=list)

    def of(self, *names: str) -> Iterator[Element]:
        """The elements in it of these names."""
        return (each for each in self.inside if each.name in names)

    def text(self, name: str) -> str:
        """An attribute. Raises InputError if it is missing."""
        if name not in self.attributes:
            raise InputError(f"{self.where}: <{self.name}> has no {name}; expected it, as NCCL writes it")
        return self.attributes[name]

    def whole(self, name: str, least: int = 0) -> int:
        """An attribute that is a whole number. Raises InputError."""
        text = self.text(name)
        if not re.fullmatch(r"\d{1,9}", text) or int(text) < least:
            raise InputError(f"{self.where}: {name} of <{self.name}> is {text!r:.80}; expected a whole number of at least {least}")
        return int(text)


def recognises(text: str) -> bool:
    """Whether the root of an XML text is `system`."""
    return re.match(r"\s*(<\?xml[^>]*>\s*)?(<!--.*?-->\s*)*<system[\s>/]", text, re.DOTALL) is not None


def read_system(text: str, path: str) -> Element:
    """The root of a file. Raises InputError with the line."""
    reader = _XmlReader(path)
    try:
        reader.parser.Parse(text.encode(), True)
    except expat.ExpatError as error:
        raise InputError(f"{path}:{error.lineno}: not XML: {expat.ErrorString(error.code)}") from None
    return reader.root


class _XmlReader:
    def __init__(self, path: str) -> None:
        self._path = path
        self._open: list[Element | None] = []
        self._warned: set[tuple[str, str]] = set()
        self.root = Element("system", path, {})
        self.parser = expat.ParserCreate("utf-8")
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.StartDoctypeDeclHandler = self._doctype

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        """An element begins: it is kept if it is known, and skipped with all that is in it if it is not."""
        element = Element(name, f"{self._path}:{self.parser.CurrentLineNumber}", attributes)
        if not self._open:
            self._warn(element, attributes, ATTRIBUTES["system"])
            if name != "system":
                raise InputError(f"{element.where}: the root is <{name}>; expected <system>")
            self.root = element
            self._open.append(element)
            return
        parent = self._open[-1]
        if parent is not None and name in _INSIDE.get(parent.name, ()):
            self._warn(element, attributes, ATTRIBUTES[name])
            parent.inside.append(element)
            self._open.append(element)
        else:
            if parent is not None:
                known = (*_INSIDE.get(parent.name, ()), *_PASSED_OVER.get(parent.name, ()))
                self._warn(parent, [f"<{name}>"], [f"<{each}>" for each in known], element.where)
            self._open.append(None)

    def _warn(self, element: Element, keys: Iterable[str], known: Collection[str], where: str = "") -> None:
        """Warn of unknown content of an element, once for each kind."""
        unknown = [key for key in keys if key not in known and (element.name, key) not in self._warned]
        self._warned.update((element.name, key) for key in unknown)
        warn_of_unknown(f"{where or element.where}: <{element.name}>", unknown, known)

    def _end(self, _: str) -> None:
        self._open.pop()

    def _doctype(self, *_: object) -> None:
        raise InputError(f"{self._path}:{self.parser.CurrentLineNumber}: a DOCTYPE; expected none, as NCCL writes none")
