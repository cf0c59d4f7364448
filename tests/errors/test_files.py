"""Files that cannot be read."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from errors.inputs import EXPERIMENT, FILES, HUGE, KINDS, NETWORK, SYSTEM, WORKLOAD, Astra, Words, bounded, cases, network, refused, write


@pytest.mark.parametrize("kind", KINDS)
@cases(
    {
        "missing": ("nowhere.txt", "nowhere.txt", "No such file", "plugin:NAME"),
        "a folder": ("folder", "folder", "directory"),
        "below a file": ("w.txt/x", "w.txt/x", "Not a directory"),
        "empty": ("empty", "empty: ", "empty"),
        "blank": ("blank", "blank: ", "empty"),
        "binary": ("binary", "binary: ", "not a text file"),
        "with a zero byte": ("zero", "zero: ", "not a text file", "zero byte"),
        "in UTF-16": ("utf16", "utf16: ", "not a text file"),
        "in Latin-1": ("latin1", "latin1: ", "not a text file", "0xe4"),
        "in another language": ("prose", "prose: ", "format"),
        "a name too long": ("x" * 5000, "too long"),
    }
)
def test_a_file_that_cannot_be_read_is_named(astra: Astra, tmp_path: Path, kind: str, given: str, words: Words) -> None:
    (tmp_path / "folder").mkdir()
    contents = {
        "empty": b"",
        "blank": b" \n\t\n",
        "binary": b"\x89PNG\r\n\x1a\n\x00\xff",
        "zero": b"DATA\n1\n\0",
        "utf16": WORKLOAD.encode("utf-16"),
        "latin1": b"DATA\n1\n\xe4",
        "prose": b"Once upon a time\n",
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    refused(astra(*FILES, f"--{kind}", given, "--json"), *words)


@cases(
    {
        "missing": ("nowhere.toml", "nowhere.toml", "No such file"),
        "a folder": (".", "directory"),
        "JSON": ("n.json", "n.json", "no result of a run"),
        "a workload": ("w.txt", "w.txt", "line 1"),
    }
)
def test_an_experiment_that_cannot_be_read_is_named(astra: Astra, given: str, words: Words) -> None:
    refused(astra(given, "--json"), *words)


@pytest.mark.parametrize("kind", ["workload", "system", "network"])
def test_the_file_of_another_component_is_not_taken(astra: Astra, kind: str) -> None:
    names = {"workload": "w.txt", "system": "s.txt", "network": "n.json"}
    for other, name in names.items():
        if other != kind:
            refused(astra(*FILES, f"--{kind}", name), name, kind)


@pytest.mark.parametrize("kind", ["workload", "system", "network", "experiment"])
@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_byte_order_mark_and_line_ends_make_no_difference(astra: Astra, tmp_path: Path, kind: str, ends: str, mark: str) -> None:
    texts = {"workload": WORKLOAD, "system": SYSTEM, "network": json.dumps(NETWORK, indent=1), "experiment": EXPERIMENT}
    write(tmp_path, **{kind: mark + texts[kind].replace("\n", ends)})
    done = astra("e.toml", "--json")
    assert (done.status, done.err) == (0, "")
    assert json.loads(done.out)["finish_ns"] == 24896


@cases(
    {
        "cut off": (network()[:100], "n.json:1", "JSON"),
        "cut off at the end": (network()[:-1], "n.json:1", "JSON"),
        "cut off in a later line": (json.dumps(NETWORK, indent=1)[:58], "n.json:3", "JSON"),
        "with more behind": (network() + "x", "n.json:1", "JSON"),
        "nested too deeply": ('{"a":' * 100_000, "n.json", "nested"),
        "with a number of 5000 digits": (network().replace("[500]", f"[{HUGE}]"), "n.json"),
        "an empty object": ("{}", "n.json", "dimensions-count"),
        "a list": ("[]", "n.json", "format"),
        "a key twice": (network()[:-1] + ', "units-count": [8]}', "n.json", "units-count"),
    }
)
def test_broken_json_is_refused(astra: Astra, tmp_path: Path, given: str, words: Words) -> None:
    write(tmp_path, network=given)
    refused(astra(*FILES, "--json"), *words)


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="no /dev/zero here")
def test_a_file_without_end_is_refused(tmp_path: Path) -> None:
    write(tmp_path)
    refused(bounded(tmp_path, *FILES, "--workload", "/dev/zero"), "/dev/zero")
