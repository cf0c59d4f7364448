"""The files that the tests spoil, and exit statuses."""

from __future__ import annotations

import importlib
import json

from astra_sim import (
    AstraError,
    InputError,
)

from errors.inputs import FILES, Astra


def test_the_files_that_the_tests_spoil_work(astra: Astra) -> None:
    by_option, by_file = astra(*FILES, "--json"), astra("e.toml", "--json")
    assert by_option.status == by_file.status == 0
    assert by_option.err == by_file.err == ""
    assert json.loads(by_option.out)["finish_ns"] == json.loads(by_file.out)["finish_ns"] == 24896


def test_every_error_has_an_exit_status() -> None:
    errors = importlib.import_module("astra_sim.errors")
    for error in vars(errors).values():
        if isinstance(error, type) and issubclass(error, AstraError):
            assert error.exit_status == (2 if issubclass(error, InputError) else 1)
