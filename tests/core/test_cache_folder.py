"""Files of the cache folder are for the user alone, and anything else in their place is ignored."""

from __future__ import annotations

import binascii
import marshal
import os
import random
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from astra_sim import _cache_folder
from astra_sim._cache_folder import CacheFile

if sys.platform == "win32":
    pytest.skip("Windows has no such modes", allow_module_level=True)

STRANGER = 12345
"""Another user than the one that runs tests."""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(_cache_folder.CACHE_VARIABLE, str(tmp_path / "above" / "cache"))
    return tmp_path / "above" / "cache"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def astra(cache: Path, umask: int = 0o022, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "ASTRA_CACHE_DIR"}
    environment |= {"ASTRA_CACHE_DIR": str(cache)} | variables
    if variables:
        del environment["ASTRA_CACHE_DIR"]
    command = [sys.executable, "-m", "astra_sim", "--help"]
    return subprocess.run(command, env=environment, umask=umask, capture_output=True, text=True, check=True, timeout=60)


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022, 0o077, 0o277])
def test_files_and_folders_are_for_the_user_alone_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    cache = tmp_path / "above" / "cache"
    first = astra(cache, umask)
    assert sorted(path.name.rpartition("-")[0] for path in cache.iterdir()) == ["entry-points"]
    assert {mode(path) for path in cache.iterdir()} == {0o600}
    assert (mode(cache), mode(cache.parent)) == (0o700, 0o700)
    assert astra(cache).stdout == first.stdout


@pytest.mark.parametrize("bits", [0o620, 0o602, 0o666])
def test_a_file_that_others_can_write_is_not_read(cache: Path, bits: int) -> None:
    file = CacheFile("words")
    file.write(b"mine")
    assert file.read() == b"mine"
    (path,) = cache.iterdir()
    path.chmod(bits)
    assert file.read() is None
    file.write(b"again")
    assert (file.read(), mode(path)) == (b"again", 0o600)


@pytest.mark.parametrize("bits", [0o770, 0o707, 0o777])
def test_a_folder_that_others_can_write_is_not_used(cache: Path, bits: int) -> None:
    file = CacheFile("words")
    file.write(b"mine")
    cache.chmod(bits)
    assert file.read() is None
    file.write(b"other")
    cache.chmod(0o700)
    assert file.read() == b"mine"
    cache.chmod(0o1777)  # as /tmp is
    assert file.read() == b"mine"


def test_the_folder_of_a_former_version_is_closed(tmp_path: Path) -> None:
    folder = tmp_path / "astra-sim"
    folder.mkdir()
    folder.chmod(0o777)
    astra(folder, XDG_CACHE_HOME=str(tmp_path))
    assert mode(folder) == 0o700
    assert len(list(folder.iterdir())) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only the administrator gives files away")
@pytest.mark.parametrize("folder", [False, True])
def test_what_belongs_to_somebody_else_is_not_read(cache: Path, folder: bool) -> None:
    file = CacheFile("words")
    file.write(b"mine")
    (path,) = cache.iterdir()
    os.chown(cache if folder else path, STRANGER, -1)
    assert file.read() is None


def place(path: Path, kind: str) -> None:
    """Put something else in the place of a file."""
    whole = path.read_bytes()
    path.unlink()
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "link":
            (path.parent.parent / "elsewhere").write_bytes(whole)
            path.symlink_to(path.parent.parent / "elsewhere")
        case "device":
            path.symlink_to("/dev/zero")
        case "loop":
            path.symlink_to(path)


@pytest.mark.parametrize("kind", ["pipe", "folder", "link", "device", "loop"])
def test_something_else_in_the_place_of_a_file_is_no_file(tmp_path: Path, kind: str) -> None:
    cache = tmp_path / "cache"
    first = astra(cache)
    for path in sorted(cache.iterdir()):
        place(path, kind)
    done = astra(cache)
    assert (done.stdout, done.stderr) == (first.stdout, "")


def checked(data: bytes) -> bytes:
    """Data with what tells them from others, so that they are not seen to be damaged."""
    return binascii.crc32(data).to_bytes(4, "little") + data


def test_damaged_files_are_as_if_there_were_none(tmp_path: Path) -> None:
    choose, cache = random.Random(4), tmp_path / "cache"
    first = astra(cache)
    wholes = {path: path.read_bytes() for path in cache.iterdir()}
    for _ in range(6):
        for path, whole in wholes.items():
            damaged = bytearray(whole)
            for _ in range(choose.randint(1, 4)):
                damaged[choose.randrange(len(damaged))] ^= choose.randint(1, 255)
            path.write_bytes(damaged[: choose.choice([len(damaged), choose.randrange(len(damaged))])])
            path.chmod(0o600)
        done = astra(cache)
        assert (done.stdout, done.stderr) == (first.stdout, "")


WRONG = [
    b"",
    b"\xff" * 9,
    b"astra: entry points 2\n\n\nword",
    marshal.dumps([1]),
    marshal.dumps({"a": 1}),
    marshal.dumps({1: ("a", b"b")}),
    marshal.dumps({"a": ("b", "c")}),
]


@pytest.mark.parametrize("data", WRONG, ids=map(str, range(len(WRONG))))
def test_whole_files_that_hold_something_else_are_as_if_there_were_none(tmp_path: Path, data: bytes) -> None:
    cache = tmp_path / "cache"
    first = astra(cache)
    for path in cache.iterdir():
        path.write_bytes(checked(data))
    done = astra(cache)
    assert (done.stdout, done.stderr) == (first.stdout, "")


def test_an_entry_point_with_a_word_too_few_is_read_again(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = astra(cache)
    (path,) = cache.glob("entry-points-*")
    whole = path.read_bytes()
    path.write_bytes(checked(whole[4:].rpartition(b"\t")[0]))
    done = astra(cache)
    assert (done.stdout, done.stderr) == (first.stdout, "")
    assert path.read_bytes() == whole
