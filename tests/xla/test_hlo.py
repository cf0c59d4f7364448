"""HLO as a workload: FLOPs of XLA's cost analysis, groups in all notations, loops, overlap, and errors in modules."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import astra_sim
import pytest
from astra_sim.command import cli
from astra_sim.errors import InputError
from astra_sim.files import read_packed_text
from astra_sim_xla.costs import Costs
from astra_sim_xla.hlo_text import Computation, Module, base_opcode, is_communication, parse_module
from astra_sim_xla.replica_groups import parse_groups
from astra_sim_xla.rewrites import COMBINE_BYTES, rewritten
from click.testing import CliRunner
from support import ROOT

PARTITIONED = ROOT / "examples/xla/dense_step.txt"
RECORDED = Path(__file__).parent / "data"
OPTIMISED = RECORDED / "dense_step_cpu.txt"
FOR_H100, FOR_V5E = RECORDED / "dense_step_h100.txt.gz", RECORDED / "dense_step_v5e.txt.gz"
"""The same step as XLA optimises it for eight H100 and for a TPU v5e of 2 x 4, by `astra capture jax --target` with JAX 0.10.2."""

GPT, GPT_FOR_H100 = RECORDED / "gpt_partitioned.txt.gz", RECORDED / "gpt_h100.txt.gz"
"""A step of a GPT of four layers, width 1024, fully sharded over eight devices: after SPMD partitioning, and optimised for H100."""

THRESHOLDS = dict.fromkeys(("all-gather", "all-reduce", "reduce-scatter"), COMBINE_BYTES)
PLATFORM = "plugin:switch?size=8&link_bandwidth_gb_per_s=100&link_latency_ns=500"
COMPUTE = "plugin:roofline?peak_tera_ops_per_s=100&memory_bandwidth_gb_per_s=1000"

MODULE = """HloModule m, num_partitions=4

%add (a: f32[], b: f32[]) -> f32[] {{
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}}

{computations}
ENTRY %main (x: f32[1024,1024]) -> f32[1024,1024] {{
  %x = f32[1024,1024]{{1,0:T(8,128)}} parameter(0)
{rows}
}}
"""
DOT = "dot(%x, %x), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
ALL = "channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=%add"


def run(folder: Path, rows: str, computations: str = "", **options: Any) -> Any:
    """The result of a module of four devices."""
    path = folder / "module.txt"
    path.write_text(MODULE.format(rows=rows, computations=computations))
    more = "".join(f"&{key}={value}" for key, value in options.items())
    platform = "plugin:switch?size=4&link_bandwidth_gb_per_s=100&link_latency_ns=500"
    return astra_sim.simulate(workload=f"plugin:hlo?path={path}{more}", platform=platform, compute=COMPUTE)


def flops_once(module: Module, computation: Computation, costs: Costs) -> int:
    """Operations as XLA's cost analysis counts them: loops once, and one for each element of an all-reduce."""
    total = 0
    for each in computation.instructions.values():
        if each.opcode == "while":
            total += sum(flops_once(module, module.computation(each.callee(name), each), costs) for name in ("body", "condition"))
        elif each.opcode == "all-reduce":
            total += each.shape.elements
        else:
            total += costs.flops(each, computation)
    return total


def test_flops_are_those_of_the_cost_analysis_of_xla() -> None:
    """1 157 647 is what `compiled.cost_analysis()["flops"]` of JAX 0.10.2 gave for this module."""
    module = parse_module(OPTIMISED.read_text())
    assert flops_once(module, module.entry, Costs(module)) == 1_157_647


@pytest.mark.parametrize("path", [PARTITIONED, OPTIMISED])
def test_the_products_of_a_step_count_as_often_as_its_loops_run(path: Path) -> None:
    result = astra_sim.simulate(workload=str(path), platform=PLATFORM, compute=COMPUTE)
    products = 4 * 6 * 2 * 8 * 64 * 128  # layers, products of a layer forward and backward, multiply-adds of a device
    assert products <= result.figures["flops"] <= products * 1.4


def test_collectives_of_a_step_have_the_bytes_of_the_sharding() -> None:
    result = astra_sim.simulate(workload=str(PARTITIONED), platform=PLATFORM, compute=COMPUTE)
    shard, activations = 16 * 128 * 2, 8 * 64 * 2
    communicated = result.figures["collective_input_bytes"]
    assert communicated["all-gather"] == 4 * 4 * shard  # both weights of four layers, forward and backward
    assert communicated["all-reduce"] >= 4 * 2 * activations  # of the model axis, forward and backward


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("{}", ((0, 1, 2, 3, 4, 5, 6, 7),)),
        ("{{0,1},{2,3},{4,5},{6,7}}", ((0, 1), (2, 3), (4, 5), (6, 7))),
        ("[4,2]<=[8]", ((0, 1), (2, 3), (4, 5), (6, 7))),
        ("[2,4]<=[4,2]T(1,0)", ((0, 2, 4, 6), (1, 3, 5, 7))),
        ("mesh['x'=4,'y'=2] {'x'}", ((0, 2, 4, 6), (1, 3, 5, 7))),
        ("mesh['x'=4,'y'=2] {'x','y'}", ((0, 1, 2, 3, 4, 5, 6, 7),)),
        ("mesh['x'=8] {'x':(1)2}", ((0, 4), (1, 5), (2, 6), (3, 7))),
        ("mesh['x'=8] {'x':(2)4}", ((0, 1, 2, 3), (4, 5, 6, 7))),
    ],
)
def test_groups_are_read_in_every_notation(text: str, groups: tuple[tuple[int, ...], ...]) -> None:
    assert parse_groups(text, 8) == groups


def test_a_pair_of_start_and_done_overlaps_with_the_product_between(tmp_path: Path) -> None:
    start = f"  %s = f32[1024,1024] all-reduce-start(%x), {ALL}\n"
    product, done = f"  %d = f32[1024,1024] {DOT}\n", "  %e = f32[1024,1024] all-reduce-done(%s)\n"
    root = "  ROOT %r = f32[1024,1024] add(%d, %e)"
    apart = run(tmp_path, start + done + product + root)
    overlapped = run(tmp_path, start + product + done + root)
    assert overlapped.compute_ns == apart.compute_ns
    assert overlapped.finish_ns < apart.finish_ns
    flow = run(tmp_path, f"  %e = f32[1024,1024] all-reduce(%x), {ALL}\n" + product + root, overlap="dataflow")
    assert flow.finish_ns == overlapped.finish_ns


def test_a_loop_counts_by_its_bound_and_one_that_depends_on_data_is_an_error(tmp_path: Path) -> None:
    state = "(s32[], f32[1024,1024])"
    loop = f"""%body (p: {state}) -> {state} {{
  %p = {state} parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %v = f32[1024,1024] get-tuple-element(%p), index=1
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
  %d = f32[1024,1024] dot(%v, %v), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  ROOT %t = {state} tuple(%next, %d)
}}

%condition (p: {state}) -> pred[] {{
  %p = {state} parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %n = s32[] constant(7)
  ROOT %c = pred[] compare(%i, %n), direction=DIRECTION
}}
"""
    rows = f"""  %zero = s32[] constant(0)
  %start = {state} tuple(%zero, %x)
  %w = {state} while(%start), condition=%condition, body=%body
  ROOT %r = f32[1024,1024] get-tuple-element(%w), index=1"""
    once = run(tmp_path, f"  ROOT %d = f32[1024,1024] {DOT}").compute_ns
    assert run(tmp_path, rows, loop.replace("DIRECTION", "LT")).compute_ns == pytest.approx(7 * once)
    with pytest.raises(InputError, match=r"line \d+: the iterations of loop w depend on data; give trip_count"):
        run(tmp_path, rows, loop.replace("DIRECTION", "NE"))
    assert run(tmp_path, rows, loop.replace("DIRECTION", "NE"), trip_count=2).compute_ns == pytest.approx(2 * once)


@pytest.mark.parametrize(
    ("instruction", "flops"),
    [
        # that of the cost analysis of JAX 0.10.2: taps in the padding do not count
        ("convolution(%x, %k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f", 2 * 22 * 22 * 4 * 16),
        ("convolution(%x, %k), window={size=3x3 pad=1_1x1_1 stride=2x2}, dim_labels=b01f_01io->b01f", 2 * 11 * 11 * 4 * 16),
    ],
)
def test_a_convolution_counts_what_is_no_padding(instruction: str, flops: int) -> None:
    size = 4 if "stride" in instruction else 8
    text = f"""HloModule m
ENTRY %main (x: f32[1,8,8,4], k: f32[3,3,4,16]) -> f32[1,{size},{size},16] {{
  %x = f32[1,8,8,4] parameter(0)
  %k = f32[3,3,4,16] parameter(1)
  ROOT %r = f32[1,{size},{size},16] {instruction}
}}
"""
    module = parse_module(text)
    assert Costs(module).flops(module.entry.root, module.entry) == flops


def test_a_call_of_cublas_is_a_product(tmp_path: Path) -> None:
    numbers = '"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"]'
    config = f'backend_config={{"gemm_backend_config":{{"dot_dimension_numbers":{{{numbers}}}}}}}'
    called = run(tmp_path, f'  ROOT %r = f32[1024,1024] custom-call(%x, %x), custom_call_target="__cublas$gemm", {config}')
    assert called.figures["flops"] == 2 * 1024**3
    assert run(tmp_path, '  ROOT %r = f32[1024,1024] custom-call(%x), custom_call_target="mine"').figures["flops"] == 0


def test_one_branch_of_a_conditional_runs(tmp_path: Path) -> None:
    branches = "".join(
        f"%{name} (v: f32[1024,1024]) -> f32[1024,1024] {{\n  %x = f32[1024,1024] parameter(0)\n  ROOT %r = f32[1024,1024] {what}\n}}\n\n"
        for name, what in (("light", "add(%x, %x)"), ("heavy", DOT))
    )
    rows = "  %n = s32[] constant(0)\n  ROOT %r = f32[1024,1024] conditional(%n, %x, %x), branch_computations={%light, %heavy}"
    flops = {branch: run(tmp_path, rows, branches, branch=branch).figures["flops"] for branch in ("costliest", "cheapest", "first")}
    assert flops == {"costliest": 2 * 1024**3, "cheapest": 1024**2, "first": 1024**2}


def test_a_send_meets_its_receive(tmp_path: Path) -> None:
    pairs = 'frontend_attributes={_xla_send_recv_source_target_pairs="{{0,1}}"}'
    value = "(f32[1024,1024], u32[], token[])"
    rows = f"""  %t = token[] after-all()
  %r = {value} recv(%t), channel_id=3, {pairs}
  %s = {value} send(%x, %t), channel_id=3, {pairs}
  %d = token[] send-done(%s), channel_id=3
  %e = (f32[1024,1024], token[]) recv-done(%r), channel_id=3
  ROOT %o = f32[1024,1024] get-tuple-element(%e), index=0"""
    result = run(tmp_path, rows)
    assert result.messages == 1
    assert result.finish_ns >= 4 * 2**20 / 100


def test_a_permute_takes_as_long_as_its_message(tmp_path: Path) -> None:
    pairs = "channel_id=1, source_target_pairs={{0,1},{1,2},{2,3}}"
    result = run(tmp_path, f"  ROOT %r = f32[1024,1024] collective-permute(%x), {pairs}")
    assert result.messages == 3
    assert result.finish_ns >= 4 * 2**20 / 100


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("  ROOT %r = f32[1024,1024] add(%x, %y)", "line 12: r uses 'y', which no earlier line of main has"),
        ("  ROOT %r = f32[1024,1024 add(%x)", "line 12: .* is not an instruction"),
        ("  %r = f32[1024,1024] add(%x, %x)", "computation main ends without a ROOT"),
        (f"  ROOT %r = f32[1024,1024] all-reduce(%x), {ALL.replace('2,3', '2')}", "expected each of the 4 devices once"),
        (f"  ROOT %r = f32[1024,1024] all-reduce(%x), {ALL.replace('{{0,1,2,3}}', '<=4')}", "line 12: replica_groups of r is '<=4'"),
    ],
)
def test_what_is_wrong_in_a_module_is_named_with_its_line(tmp_path: Path, rows: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        run(tmp_path, rows)


def test_elements_of_tuples_are_read_as_newer_releases_write_them(tmp_path: Path) -> None:
    """JAX 0.11 writes `%tuple#2` in place of a get-tuple-element."""
    long = PARTITIONED.read_text()
    elements = dict[str, str]()
    lines = []
    for line in long.splitlines():
        element = re.match(r"\s+%([\w.\-]+) = \S+ get-tuple-element\(%([\w.\-]+)\), index=(\d+)", line)
        if element and not line.lstrip().startswith("ROOT"):
            elements[element[1]] = f"{element[2]}#{element[3]}"
        else:
            lines.append(re.sub(r"%([\w.\-]+)", lambda name: "%" + elements.get(name[1], name[1]), line))
    (tmp_path / "short.txt").write_text("\n".join(lines))
    assert len(elements) > 10
    short, usual = (
        astra_sim.simulate(workload=str(path), platform=PLATFORM, compute=COMPUTE) for path in (tmp_path / "short.txt", PARTITIONED)
    )
    assert (short.finish_ns, short.figures) == (usual.finish_ns, usual.figures)
    (tmp_path / "short.txt").write_text("\n".join(lines).replace("#1,", "#99,", 1))
    with pytest.raises(InputError, match=r"line \d+: no value '\S+#99'; expected an element of a tuple of an earlier line"):
        astra_sim.simulate(workload=str(tmp_path / "short.txt"), platform=PLATFORM, compute=COMPUTE)


def test_a_platform_of_another_size_is_an_error() -> None:
    with pytest.raises(InputError, match="partitioned for 8 devices, the platform has 4 NPUs"):
        astra_sim.simulate(workload=str(PARTITIONED), platform=PLATFORM.replace("size=8", "size=4"), compute=COMPUTE)


PYTHON = os.environ.get("ASTRA_JAX_PYTHON")
"""A Python that has jax, where it is not this one."""


def has(*modules: str) -> bool:
    """Whether the Python that captures has one of some modules."""
    probe = f"import importlib.util, sys; sys.exit(not any(map(importlib.util.find_spec, {list(modules)})))"
    return subprocess.run([PYTHON or sys.executable, "-c", probe], check=False).returncode == 0


def capture(*words: str | Path) -> Any:
    """The result of the command."""
    return CliRunner().invoke(cli.astra, ["capture", "jax", *(["--python", PYTHON] if PYTHON else []), *map(str, words)])


@pytest.mark.skipif(importlib.util.find_spec("jax") is not None, reason="jax is installed")
def test_capture_without_jax_says_what_to_install() -> None:
    done = CliRunner().invoke(cli.astra, ["capture", "jax", "--devices", "8", "--", str(ROOT / "examples/xla/step.py")])
    assert isinstance(done.exception, InputError)
    assert "pip install jax" in str(done.exception)


def test_capture_of_the_example_is_the_recorded_module(tmp_path: Path) -> None:
    if not has("jax"):
        pytest.skip("jax is not installed")
    done = capture("--devices", "8", "-o", tmp_path, "--", ROOT / "examples/xla/step.py")
    assert done.exit_code == 0, done.output
    captured, recorded = (
        astra_sim.simulate(workload=str(path), platform=PLATFORM, compute=COMPUTE) for path in (tmp_path / "jit_step.txt", PARTITIONED)
    )
    assert captured.figures == recorded.figures


# -- Modules for GPUs and TPUs, and XLA's rewrites


def collectives_of(module: Module) -> Counter[tuple[str, str, int]]:
    """The collectives of each computation: its name ("" of the entry), the opcode, and the bytes of operands."""
    result: Counter[tuple[str, str, int]] = Counter()
    for computation in module.computations.values():
        for each in computation.instructions.values():
            if is_communication(each.opcode):
                size = sum(computation.instructions[name].shape.bytes for name in each.operands)
                result["" if computation is module.entry else computation.name, base_opcode(each.opcode), size] += 1
    return result


@pytest.mark.parametrize(("partitioned", "optimised", "before"), [(PARTITIONED, FOR_H100, 9), (GPT, GPT_FOR_H100, 46)])
def test_collectives_are_combined_as_the_compiler_for_gpus_does(partitioned: Path, optimised: Path, before: int) -> None:
    module = parse_module(read_packed_text(str(partitioned)))
    compiled = parse_module(read_packed_text(str(optimised)))
    assert collectives_of(module).total() == before
    assert collectives_of(rewritten(module, THRESHOLDS)) == collectives_of(compiled)


@pytest.mark.parametrize("optimised", [FOR_H100, FOR_V5E])
def test_the_step_communicates_the_same_bytes_on_gpus_and_tpus(optimised: Path) -> None:
    compiled = astra_sim.simulate(workload=f"plugin:hlo?path={optimised}", platform=PLATFORM, compute=COMPUTE)
    modelled = astra_sim.simulate(workload=f"plugin:hlo?path={PARTITIONED}&rewrites=gpu", platform=PLATFORM, compute=COMPUTE)
    plain = astra_sim.simulate(workload=str(PARTITIONED), platform=PLATFORM, compute=COMPUTE)
    assert compiled.figures["collective_input_bytes"] == modelled.figures["collective_input_bytes"]
    assert compiled.figures["flops"] == pytest.approx(plain.figures["flops"], rel=0.05)
    assert modelled.figures["flops"] == plain.figures["flops"]


def test_a_collective_in_fusions_of_tpus_runs_beside_those_between(tmp_path: Path) -> None:
    gather = "all-gather(%p), channel_id=1, replica_groups={{0,1,2,3}}, dimensions={0}, use_global_device_ids=true"
    gather += ', frontend_attributes={chain_id="0"}'
    computations = "".join(
        f"%{name} (p: f32[1024,1024]) -> f32[1024,1024] {{\n  %p = f32[1024,1024] parameter(0)\n  %g = f32[4096,1024] {gather}\n"
        f'  ROOT %r = f32[1024,1024] custom-call(%g), custom_call_target="AsyncCollective{name}"\n}}\n\n'
        for name in ("Start", "Done")
    )
    computations += "%beside (p: f32[1024,1024], x: f32[1024,1024]) -> f32[1024,1024] {\n  %p = f32[1024,1024] parameter(0)\n"
    computations += f"  %x = f32[1024,1024] parameter(1)\n  %g = f32[4096,1024] {gather}\n  ROOT %d = f32[1024,1024] {DOT}\n}}\n"
    start, done = (
        f"  %{name} = f32[1024,1024] fusion(%{of}), kind=kCustom, calls=%{name}\n" for name, of in (("Start", "x"), ("Done", "Start"))
    )
    beside, root = "  %b = f32[1024,1024] fusion(%Start, %x), kind=kOutput, calls=%beside\n", "  ROOT %r = f32[1024,1024] add(%b, %Done)"
    overlapped = run(tmp_path, start + beside + done + root, computations)
    apart = run(tmp_path, start + done + beside.replace("%Start", "%x") + root, computations)
    assert overlapped.figures["collective_input_bytes"] == {"all-gather": 4 * 2**20} == apart.figures["collective_input_bytes"]
    assert overlapped.compute_ns == apart.compute_ns
    assert overlapped.finish_ns < apart.finish_ns


GATHERS = "".join(
    f"  %g{n} = f32[4096,1024] all-gather(%x{n}), channel_id={n + 1}, replica_groups={{{{0,1,2,3}}}}, dimensions={{0}}, "
    f"use_global_device_ids=true\n  %x{n + 1} = f32[1024,1024] slice(%g{n}), slice={{[0:1024], [0:1024]}}\n"
    for n in range(3)
)


def test_collectives_that_depend_on_each_other_are_not_combined(tmp_path: Path) -> None:
    chained = "  %x0 = f32[1024,1024] copy(%x)\n" + GATHERS
    apart = chained.replace("all-gather(%x1)", "all-gather(%x0)").replace("all-gather(%x2)", "all-gather(%x0)")
    numbers = []
    for rows in (chained, apart):
        module = parse_module(MODULE.format(rows=rows + "  ROOT %r = f32[1024,1024] add(%x2, %x3)", computations=""))
        numbers.append([collectives_of(rewritten(module, {"all-gather": most})).total() for most in (0, 2**25, 2**26)])
    assert numbers == [[3, 3, 3], [3, 2, 1]]  # a result has 2 ** 24 bytes


TABLE = "  %t = s32[4] constant({0, 256, 512, 768})\n  %i = u32[] partition-id()\n"
PART = "  %z = s32[] constant(0)\n  ROOT %r = f32[256,1024] dynamic-slice(%s, %p, %z), dynamic_slice_sizes={256,1024}"


@pytest.mark.parametrize(
    ("offset", "is_scattered"),
    [
        (TABLE + "  %o = s32[1] dynamic-slice(%t, %i), dynamic_slice_sizes={1}\n  %p = s32[] reshape(%o)\n", True),
        (
            TABLE.replace("0, 256", "256, 0") + "  %o = s32[1] dynamic-slice(%t, %i), dynamic_slice_sizes={1}\n  %p = s32[] reshape(%o)\n",
            False,
        ),
        ("  %i = u32[] partition-id()\n  %c = u32[] constant(256)\n  %p = u32[] multiply(%i, %c)\n", True),
        ("  %p = s32[] constant(256)\n", False),
    ],
)
def test_an_all_reduce_of_which_each_device_keeps_its_part_is_a_reduce_scatter(offset: str, is_scattered: bool) -> None:
    text = MODULE.format(rows=f"  %s = f32[1024,1024] all-reduce(%x), {ALL}\n{offset}{PART}", computations="")
    module = rewritten(parse_module(text), THRESHOLDS)
    if module.entry.root.opcode == "reduce-scatter":
        assert list(module.entry.instructions) == ["x", "r"]  # nothing of the offset is left
    assert (module.entry.root.opcode == "reduce-scatter") is is_scattered


def test_rewrites_of_a_scheduled_module_are_an_error() -> None:
    with pytest.raises(InputError, match=r"dense_step_h100\.txt\.gz: line 1: the module is scheduled, so XLA has made its rewrites"):
        astra_sim.simulate(workload=f"plugin:hlo?path={FOR_H100}&rewrites=gpu", platform=PLATFORM, compute=COMPUTE)


def test_instructions_know_the_line_of_the_script() -> None:
    module = parse_module(PARTITIONED.read_text())
    lines = {module.source(each) for one in module.computations.values() for each in one.instructions.values() if each.opcode == "dot"}
    assert lines == {"step.py:19"}


@pytest.mark.parametrize("target", ["h100", "gpu:", "cpu:x"])
def test_a_wrong_target_is_an_error(target: str) -> None:
    done = CliRunner().invoke(cli.astra, ["capture", "jax", "--devices", "8", "--target", target, "--", str(ROOT / "examples/xla/step.py")])
    assert isinstance(done.exception, InputError)
    assert f"--target is '{target}'; expected gpu:NAME or tpu:TOPOLOGY" in str(done.exception)


@pytest.mark.parametrize(
    ("target", "compilers", "recorded"),
    [("gpu:h100", ["jax_cuda12_plugin", "jax_cuda13_plugin"], FOR_H100), ("tpu:v5e:2x4", ["libtpu"], FOR_V5E)],
)
def test_a_capture_for_a_target_is_the_recorded_module(target: str, compilers: list[str], recorded: Path, tmp_path: Path) -> None:
    if not has("jax") or not has(*compilers):
        pytest.skip(f"{' or '.join(compilers)} is not installed")
    done = capture("--devices", "8", "--target", target, "-o", tmp_path, "--", ROOT / "examples/xla/step.py")
    assert done.exit_code == 0, done.output
    captured, old = (parse_module(read_packed_text(str(path))) for path in (tmp_path / "jit_step.txt", recorded))
    calls = [Counter[tuple[str, int]](), Counter[tuple[str, int]]()]
    for each, module in zip(calls, (captured, old), strict=True):  # computations have other names in each release
        for (_, opcode, size), number in collectives_of(module).items():
            each[opcode, size] += number
    assert calls[0] == calls[1]
