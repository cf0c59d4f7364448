"""Damage to files and values: bytes, words of a text, values of a table."""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import zlib
from random import Random
from typing import Any

HUGE = ["4294967296", "1099511627776", "2305843009213693952", "18446744073709551616", "1" + "0" * 30, "1e308", "9" * 5000]
WORDS = [*HUGE, "-1", "0", "1", "2", "0.5", "1e999", "-1e-320", "nan", "inf", "true", "null", "x", "", "[]", "{}", "$x^$", "é"]
WORDS += ["²", "٣", "=1+1", "0x10", "1_0", "../..", "\\", '"', "<", "&a;", "a" * 140_000]
VALUES: list[Any] = [None, True, False, -1, 0, 1, 0.5, 1e308, 2**32, 2**40, 2**61, 2**64, 10**30, "", "x", "$x^$", "é\n=1", "1", [], [[]]]
VALUES += [[1, "x"], {}, {"x": 1}, [{}], ["x"], float("nan"), float("inf"), -(2**70), "a" * 100_000]
_GZIP = b"\x1f\x8b"
_WORD = re.compile(r"[^\s\"'<>=:,;\[\]{}()&?|]+")


def damaged(random: Random, data: bytes, name: str) -> bytes:
    """The bytes of a file with one damage, or two."""
    for _ in range(random.choice([1, 1, 1, 2])):
        data = _damaged(random, data, name)
    return data


def _damaged(random: Random, data: bytes, name: str) -> bytes:
    if data.startswith(_GZIP) and random.random() < 0.6:
        with contextlib.suppress(OSError, EOFError, ValueError, zlib.error):
            return gzip.compress(_damaged(random, gzip.decompress(data), name.removesuffix(".gz")))
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return _bytes(random, data)
    kind = random.random()
    if kind < 0.5 and name.endswith(".json"):
        try:
            table = json.loads(text)
        except (ValueError, RecursionError):
            pass
        else:
            return json.dumps(changed(random, table)).encode()
    return _words(random, text) if kind < 0.85 else _bytes(random, data)


def changed(random: Random, table: Any) -> Any:
    """A table as of JSON with one value changed, taken away or there twice; keys stay as they are."""
    places = list(_places(table))
    if not places:
        return random.choice(VALUES)
    holder, key = random.choice(places)
    kind = random.random()
    if kind < 0.1:
        del holder[key]
    elif kind < 0.2 and isinstance(holder, list):
        holder.append(holder[key])
    elif kind < 0.35 and isinstance(holder[key], (int, float)):
        holder[key] = random.choice([-holder[key], holder[key] + 1, holder[key] * 1_000_003, str(holder[key])])
    else:
        holder[key] = random.choice(VALUES)
    return table


def _places(table: Any) -> Any:
    for key, value in list(table.items() if isinstance(table, dict) else enumerate(table) if isinstance(table, list) else ()):
        yield table, key
        yield from _places(value)


def _words(random: Random, text: str) -> bytes:
    lines = text.split("\n")
    place = random.randrange(len(lines))
    match random.randrange(8):
        case 0:
            del lines[place]
        case 1:
            lines.insert(place, lines[place])
        case 2:
            cells = re.split(r"([,\s])", lines[place])
            del cells[random.randrange(len(cells))]
            lines[place] = "".join(cells)
        case _:
            words = list(_WORD.finditer(text))
            numbers = [word for word in words if re.fullmatch(r"-?[0-9.]+", word[0])]
            if words:
                word = random.choice(numbers if numbers and random.random() < 0.6 else words)
                other = random.choice([*WORDS, random.choice(words)[0], f"-{word[0]}", f"{word[0]}{word[0]}"])
                return (text[: word.start()] + other + text[word.end() :]).encode()
    return "\n".join(lines).encode()


def _bytes(random: Random, data: bytes) -> bytes:
    place = random.randrange(len(data) + 1)
    after = min(len(data), place + random.choice([1, 1, 4, 100]))
    match random.randrange(5):
        case 0:
            return data[:place]
        case 1:
            return data[:place] + bytes([data[place] ^ 1 << random.randrange(8)]) + data[place + 1 :] if place < len(data) else data
        case 2:
            return data[:place] + data[after:]
        case 3:
            return data[:after] + data[place:]
        case _:
            return data[:place] + random.choice([b"\0", b"\xff", b"\xed\xa0\x80", b"\xff" * 9, random.randbytes(8)]) + data[after:]
