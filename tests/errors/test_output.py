"""Output that cannot be written."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from errors.inputs import FILES, WORKLOAD, Astra, Words, cases, command, holds, no_answer, one_error, refused, write


@cases(
    {
        "below a file": ("w.txt/reports", "w.txt/reports", "Not a directory"),
        "where nothing can be made": ("/proc/nowhere/reports", "/proc/nowhere/reports"),
        "a name too long": ("x" * 5000, "too long"),
    }
)
def test_an_output_folder_that_cannot_be_made_fails_the_run(astra: Astra, given: str, words: Words) -> None:
    done = astra(*FILES, "--json", "--output", given)
    assert done.status == 1
    no_answer(done.out)
    one_error(done.err)
    holds(done.err, ["cannot write", *words])


def test_a_file_is_no_output_folder(astra: Astra) -> None:
    refused(astra(*FILES, "--output", "w.txt"), "cannot write", "w.txt")


def test_reports_that_fail_leave_no_result(astra: Astra, tmp_path: Path) -> None:
    done = astra(*FILES, "--output", "reports", "--run-name", "x" * 300, "--json")
    assert done.status == 1
    no_answer(done.out)
    one_error(done.err)
    assert not (tmp_path / "reports" / "result.json").exists()


@pytest.mark.parametrize("name", ["a/b", "../b", "a,b", 'a"b', "a\nb", "[/red]", "日本"], ids=ascii)
def test_any_name_of_a_run_and_a_layer_reaches_tables_and_reports_or_is_refused(astra: Astra, tmp_path: Path, name: str) -> None:
    layer_name = name.replace("\n", "")
    write(tmp_path, workload=WORKLOAD.replace("conv", layer_name))
    done = astra(*FILES, "--output", "reports", "--run-name", name)
    if done.status:
        refused(done)
        return
    assert done.err == ""
    assert layer_name in done.out
    with (tmp_path / "reports" / "EndToEnd.csv").open(encoding="utf-8", newline="") as text:
        rows = list(csv.reader(text))
    assert len({len(row) for row in rows}) == 1
    assert rows[1][:2] == [layer_name, name]
    assert [path.parent for path in tmp_path.rglob("*_dimension_utilization.csv")] == [tmp_path / "reports"]


def test_names_do_not_depend_on_the_language_of_the_terminal(tmp_path: Path) -> None:
    write(tmp_path, workload=WORKLOAD.replace("conv", "日本"))
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    done = command(tmp_path, *FILES, "--output", "reports", env=plain)
    assert (done.status, done.err) == (0, "")
    assert "日本" in (tmp_path / "reports" / "EndToEnd.csv").read_text(encoding="utf-8")


def test_a_name_that_is_no_text_is_one_error_or_none(tmp_path: Path) -> None:
    write(tmp_path)
    done = command(tmp_path, *FILES, "--json", "--output", "reports", "--run-name", os.fsdecode(b"a\xff"))
    assert done.status == 0 or not done.out
    if done.status:
        one_error(done.err)


@pytest.mark.parametrize(
    "arguments",
    [FILES, (*FILES, "--json"), ("plugins",), ("plugins", "--json"), ("plugins", "show", "ring"), ("plugins", "check"), ("--help",)],
    ids=" ".join,
)
def test_a_reader_that_has_gone_is_no_error(tmp_path: Path, arguments: Sequence[str]) -> None:
    write(tmp_path)
    read, written = os.pipe()
    os.close(read)
    try:
        done = command(tmp_path, *arguments, stdout=written)
    finally:
        os.close(written)
    assert done.err == ""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
@pytest.mark.parametrize("arguments", [FILES, (*FILES, "--json"), ("plugins",), ("--version",), ("run", "--help")], ids=" ".join)
def test_an_output_that_is_full_is_one_error(tmp_path: Path, arguments: Sequence[str]) -> None:
    write(tmp_path)
    with open("/dev/full", "w") as full:
        done = command(tmp_path, *arguments, stdout=full.fileno())
    assert done.status == 1
    one_error(done.err)
    holds(done.err, ["No space left"])
