"""Options of the command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim import (
    InputError,
)

from errors.inputs import ALL_REDUCE, FILES, HUGE, WORK, Astra, Constant, Words, answered_or_refused, cases, layer, layers, refused, write


@cases(
    {
        "nothing": ("", "section.key=value"),
        "no value": ("system.splits", "system.splits", "section.key=value"),
        "no dot": ("passes=3", "passes=3", "section.key=value"),
        "no key": ("system.=3", "system.=3", "section.key=value"),
        "an empty part of a key": ("system..splits=3", "''"),
        "an unknown section": ("nowhere.x=1", "'nowhere'", "system"),
        "a misspelt section": ("syste.splits=1", "'syste'", "'system'"),
        "an unknown key": ("system.splts=1", "s.txt", "'splts'", "'splits'"),
        "an unknown key of the run": ("run.pass=1", "run", "'pass'", "'passes'"),
        "a value of the wrong type": ("system.splits=many", "s.txt", "splits", "'many'", "whole number"),
        "no text for a number": ("system.splits=", "s.txt", "splits", "''", "whole number"),
        "a fraction for a whole number": ("system.splits=1.5", "s.txt", "splits", "'1.5'", "whole number"),
        "a number too small": ("system.splits=0", "s.txt", "splits", "0", "at least 1"),
        "a number of 5000 digits": (f"system.splits={HUGE}", "s.txt", "splits"),
        "not a number": ("run.comm_scale=nan", "run", "comm_scale", "nan"),
        "neither true nor false": ("run.symmetry=maybe", "run", "symmetry", "'maybe'", "true or false"),
        "a key of a value": ("system.splits.x=3", "'splits'", "4", "no keys"),
        "a position that is not there": ("platform.dimensions.1.size=5", "'1'", "0 to 0"),
        "a negative position": ("platform.dimensions.-1.size=5", "'-1'", "0 to 0"),
        "a word for a position": ("workload.layers.conv.name=x", "'conv'", "0 to 1"),
        "raised digits for a position": ("platform.dimensions.².size=5", "'²'", "0 to 0"),
        "a huge position": ("workload.layers.99999999999999999999.name=x", "0 to 1"),
        "a number for a table in a list": ("platform.dimensions.0=5", "n.json", "dimension 0", "'5'", "table"),
        "a number for a list": ("platform.dimensions=5", "n.json", "dimensions", "'5'", "list"),
        "a word for a list of tables": ("workload.layers=x", "w.txt", "layers", "'x'"),
        "no text for a list": ("workload.layers=", "w.txt", "layers", "at least one"),
        "a number for a table": ("workload.loop_options=3", "w.txt", "loop_options", "'3'", "table"),
        "two algorithms for one dimension": ("system.all_reduce=ring,ring", "s.txt", "all_reduce", "2 algorithms", "1 dimensions"),
        "no algorithm": ("system.all_reduce=", "s.txt", "all_reduce"),
    }
)
def test_a_bad_assignment_is_refused(astra: Astra, given: str, words: Words) -> None:
    refused(astra(*FILES, "--json", "--set", given), *words)


def test_an_assignment_that_reaches_into_an_object_is_refused(inputs: dict[str, Any]) -> None:
    inputs["memory"] = Constant(0)
    with pytest.raises(InputError, match="memory is an object"):
        astra_sim.simulate(**inputs, set=["memory.latency_ns=1"])


@cases(
    {
        "no name": ("plugin:", "'plugin:'", "plugin:NAME"),
        "no name but options": ("plugin:?bytes=8", "'plugin:?bytes=8'", "plugin:NAME"),
        "no value": ("plugin:collective?bytes", "'bytes'", "key=value"),
        "no key": ("plugin:collective?=8", "'=8'", "key=value"),
        "nothing between two": ("plugin:collective?bytes=8&&update_ns=1", "''", "key=value"),
        "a key twice": ("plugin:collective?bytes=8&bytes=16", "bytes", ("twice", "again", "more than once", "duplicate")),
        "another plugin": ("plugin:collective?bytes=8&plugin=layers", "plugin"),
        "a key of a value": ("plugin:collective?bytes=8&bytes.x=1", "'bytes'", "no keys"),
        "a required option missing": ("plugin:collective", "plugin:collective", "bytes", "missing"),
        "the wrong type": ("plugin:collective?bytes=many", "plugin:collective?bytes=many", "bytes", "'many'", "whole number"),
        "too small": ("plugin:collective?bytes=-1", "bytes", "-1", "at least 0"),
        "an unknown choice": ("plugin:collective?bytes=64&collective=all_in", "collective", "'all_in'", "all_reduce"),
        "a loop without layers": ("plugin:layers?loop=data", "plugin:layers?loop=data", "layers", "missing"),
    }
)
def test_a_bad_spec_is_refused(astra: Astra, given: str, words: Words) -> None:
    refused(astra(*FILES, "--json", "--workload", given), *words)


@cases(
    {
        "passes 0": (["--passes", "0"], "passes", "0", "at least 1"),
        "passes negative": (["--passes", "-1"], "passes", "-1", "at least 1"),
        "passes a word": (["--passes", "x"], "--passes", "'x'"),
        "passes a fraction": (["--passes", "1.5"], "--passes", "'1.5'"),
        "queues 0": (["--queues-per-dim", "0"], "queues-per-dim", "0", "at least 1"),
        "queues negative": (["--queues-per-dim", "-1"], "queues-per-dim", "-1", "at least 1"),
        "compute scale negative": (["--compute-scale", "-1"], "compute-scale", "-1", "at least 0"),
        "compute scale not a number": (["--compute-scale", "nan"], "compute-scale", "nan"),
        "compute scale infinite": (["--compute-scale", "inf"], "compute-scale", "inf"),
        "compute scale a word": (["--compute-scale", "x"], "--compute-scale", "'x'"),
        "comm scale 0": (["--comm-scale", "0"], "comm-scale", "0", "more than 0"),
        "comm scale negative": (["--comm-scale", "-1"], "comm-scale", "-1", "more than 0"),
        "comm scale not a number": (["--comm-scale", "nan"], "comm-scale", "nan"),
        "comm scale that leaves nothing": (["--comm-scale", "1e-10"], "w.txt", "dense", "0 bytes"),
        "injection scale negative": (["--injection-scale", "-1"], "injection-scale", "-1", "at least 0"),
        "injection scale not a number": (["--injection-scale", "nan"], "injection-scale", "nan"),
        "a second experiment": (["e.toml", "f.toml"], "f.toml"),
        "a value missing": (["--passes"], "--passes"),
    }
)
def test_a_bad_option_of_a_run_is_refused(astra: Astra, given: list[str], words: Words) -> None:
    refused(astra("run", *FILES, "--json", *given), *words)


@pytest.mark.parametrize("option_", ["--compute-scale", "--comm-scale", "--injection-scale"])
@pytest.mark.parametrize("value", ["1e-320", "1e20", "1e30", "1e38", "1e308", "1" + "0" * 300])
def test_extreme_scales_give_a_whole_answer_or_an_error(astra: Astra, tmp_path: Path, option_: str, value: str) -> None:
    answered_or_refused(astra(*FILES, "--json", option_, value))
    own = layers(f"loop = 'data'\nlayers = [{layer(WORK, ALL_REDUCE + ', collective_bytes = 4096')}]")
    write(tmp_path, experiment=own)
    answered_or_refused(astra("e.toml", "--json", option_, value))


@cases(
    {
        "time of a layer": ("workload.layers.0.forward.compute_ns=1e308", "w.txt"),
        "time of a layer, whole": ("workload.layers.0.forward.compute_ns=" + "9" * 400, "w.txt"),
        "bytes of a layer": ("workload.layers.0.weight_gradient.collective_bytes=" + "9" * 400, "w.txt"),
        "update time": ("workload.layers.0.update_ns=1e308", "w.txt"),
        "update time of the smallest": ("workload.layers.0.update_ns=1e-320", "w.txt"),
        "endpoint delay": ("system.endpoint_delay_ns=" + "9" * 45, "s.txt"),
        "active chunks": ("system.active_chunks_per_dimension=" + "9" * 400, "s.txt"),
        "splits": ("system.splits=" + "9" * 400, "splits"),
        "bandwidth of memory": ("memory.bandwidth_bytes_per_ns=1e-320", "memory"),
        "latency of memory": ("memory.latency_ns=1e308", "memory"),
        "latency of memory, whole": ("memory.latency_ns=" + "9" * 400, "memory"),
        "window": ("system.all_reduce=direct?window=" + "9" * 400, "s.txt"),
        "queues": ("run.queues_per_dim=" + "9" * 400, "queues_per_dim"),
    }
)
def test_extreme_options_give_a_whole_answer_or_an_error(astra: Astra, given: str, words: Words) -> None:
    answered_or_refused(astra(*FILES, "--json", "--set", given), *words)


@cases(
    {
        "a tiny peak": ("peak_tera_ops_per_s=1e-320",),
        "a tiny share of a tiny peak": ("peak_tera_ops_per_s=1e-320&efficiency=1e-300",),
        "a huge peak": ("peak_tera_ops_per_s=1e308",),
        "a tiny bandwidth": ("peak_tera_ops_per_s=1&memory_bandwidth_gb_per_s=1e-320",),
    }
)
def test_an_extreme_roofline_gives_a_whole_answer_or_an_error(astra: Astra, tmp_path: Path, given: str, words: Words) -> None:
    work = "operations = 1e30, memory_bytes = 1e30"
    write(tmp_path, experiment=layers(f"loop = 'data'\nlayers = [{layer(work, work).replace(WORK, work)}]"))
    answered_or_refused(astra("e.toml", "--json", "--compute", f"plugin:roofline?{given}"), *words)


def test_a_long_value_is_not_repeated_at_length(astra: Astra, tmp_path: Path) -> None:
    write(tmp_path, workload="DATA\n" + "x" * 100_000)
    done = astra(*FILES)
    refused(done, "w.txt:2", "number of layers")
    assert len(done.err) < 2000
