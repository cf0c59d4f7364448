"""What is written as TOML can be read by people and by astra."""

from __future__ import annotations

import subprocess
import sys

import pytest
import tomli
from astra_sim import InputError
from astra_sim.toml_text import to_toml

WORKLOAD = {
    "name": 'a "b"',
    "loop_options": {"checkpoints": [0, 9], "empty": {}},
    "layers": [
        {"name": "conv", "forward": {"compute_ns": 5.0, "gemm": {"m": 1, "n": 2}, "collective": "all_reduce"}},
        {"name": "fc", "an odd key": True},
    ],
}
TEXT = """\
# Two layers.
#
# And no more.

name = "a \\"b\\""
loop_options = { checkpoints = [0, 9], empty = {} }

[[layers]]
name = "conv"
forward = { compute_ns = 5.0, gemm = { m = 1, n = 2 }, collective = "all_reduce" }

[[layers]]
name = "fc"
"an odd key" = true
"""


def test_a_pass_of_a_layer_is_a_line() -> None:
    assert to_toml(WORKLOAD, "Two layers.\n\nAnd no more.") == TEXT
    assert tomli.loads(TEXT) == WORKLOAD
    assert to_toml({}) == ""


def test_what_toml_has_no_word_for_is_named() -> None:
    with pytest.raises(InputError, match=r"forward: None cannot be written as TOML"):
        to_toml({"layers": [{"name": "a", "forward": {"compute_ns": None}}]})


def test_the_command_starts_without_the_libraries_of_plugins() -> None:
    script = (
        "import sys; from astra_sim.command.cli import main; sys.argv = ['astra', '--help']\n"
        "try: main()\n"
        "finally: print({'numpy', 'google.protobuf', 'tomli_w', 'yaml'} & set(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr == "set()\n"
