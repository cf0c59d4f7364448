"""The JSON file with the logical dimensions of ASTRA-sim's ns-3 back end: `{"logical-dims": ["8", "2"]}`."""

from __future__ import annotations

from typing import Any

from astra_sim import InputError
from astra_sim.errors import suggestion
from astra_sim.files import is_whole, parse_json

_KEY = "logical-dims"
_LIKE_IT = '"physical-dims"'


def recognises(text: str) -> bool:
    """Whether a text begins like a JSON object and names the key, or one like it."""
    return text.lstrip().startswith("{") and ('"logical-' in text or _LIKE_IT in text)


def read(text: str, path: str) -> dict[str, dict[str, Any]]:
    """The section `platform`: how collectives see the platform that another file describes. Raises InputError."""
    table = parse_json(text, path)
    for key in table:
        if key != _KEY:
            hint = f"expected {_KEY!r}: the links are those of the topology file" if f'"{key}"' == _LIKE_IT else suggestion(key, [_KEY])
            raise InputError(f"{path}: unknown key {key!r}; {hint}")
    sizes = table[_KEY]
    if not isinstance(sizes, list) or not sizes or not all(is_whole(str(size)) and int(size) > 0 for size in sizes):
        raise InputError(f'{path}: {_KEY} is {sizes!r}; expected a list of sizes, such as ["8", "2"]')
    return {"platform": {"logical_dims": [int(size) for size in sizes]}}
