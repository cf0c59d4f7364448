"""CONTRIBUTING.md names files and commands that exist."""

from __future__ import annotations

import re
import runpy

from support import ROOT

PAGE = (ROOT / "CONTRIBUTING.md").read_text()
PATHS = sorted(set(re.findall(r"`((?:core|plugins|tests|docs|devtools|benchmarks|validation|bundle|examples|\.ci)/[^` ]*|dev\.py)`", PAGE)))
ROOMS = re.findall(r"`([\w./]+(?:/|\.py|\.h))`", PAGE)
MOST_WORDS = 700
LINKS = sorted(set(re.findall(r"\]\(((?!https:)[^)]+)\)", PAGE)))


def test_paths_of_the_page_exist() -> None:
    assert len({*PATHS, *ROOMS}) > 50
    assert [path for path in PATHS + LINKS if not (ROOT / path.partition("#")[0]).exists()] == []


def test_the_page_is_short() -> None:
    assert len(PAGE.replace("|", " ").split()) <= MOST_WORDS


def test_rooms_of_the_maps_exist() -> None:
    maps = re.findall(r"^\| .*`((?:core|plugins)/[^`]*)` \| open \|\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    assert [base for base, _ in maps] == ["core/src/astra_sim/", "plugins/"]
    for base, rows in maps:
        rooms = re.findall(r"`([\w./]+(?:/|\.py|\.h))`", rows)
        assert len(rooms) > 10
        assert [room for room in rooms if not (ROOT / base / room).exists() and not (ROOT / room).exists()] == []


def test_the_page_names_all_packages_and_rooms() -> None:
    folders = [*(ROOT / "plugins").iterdir(), *(path for path in (ROOT / "core" / "src" / "astra_sim").iterdir() if path.is_dir())]
    names = {f"{folder.name}/" for folder in folders if not folder.name.startswith(("_", "."))}
    assert not {name for name in names if name not in PAGE}


def test_commands_of_the_page_exist() -> None:
    commands = runpy.run_path(str(ROOT / "dev.py"))["COMMANDS"]
    assert set(re.findall(r"python3 dev\.py (\w+)", PAGE)) <= set(commands)
    assert all((ROOT / script).is_file() for script in re.findall(r"bash (\S+)", PAGE))
