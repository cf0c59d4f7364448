"""The gpu compute model: counts of shapes, times of kernels, devices and stacks."""

from __future__ import annotations

from typing import Any

import astra_sim
import attrs
import pytest
from astra_sim import InputError
from astra_sim.compute import MissingWork, Work
from astra_sim.errors import InputWarning
from astra_sim.options import structure
from astra_sim.shapes import Attention, Cast, Convolution, Elementwise, Gemm, GroupedGemm, Kernel, OptimizerStep
from astra_sim_compute_gpu import data_files, device, stack
from astra_sim_compute_gpu.model import Gpu, GpuOptions
from astra_sim_compute_roofline.roofline import Roofline, RooflineOptions
from astra_sim_compute_systolic.compute import Systolic, SystolicOptions
from astra_sim_devkit.testing.contracts import ComputeContract
from hypothesis import given, settings
from hypothesis import strategies as st

RING = "plugin:ring?size=4&links=2&link_bandwidth_gb_per_s=50"
DEVICES = data_files.names(device.FOLDER)


class TestGpu(ComputeContract):
    name = "gpu"
    options = {"device": "h100", "stack": "megatron-2022"}  # noqa: RUF012


def gpu(**options: Any) -> Gpu:
    return Gpu(structure(GpuOptions, {"device": "a100-80", **options}, "gpu"))


def us(model: Gpu, shape: Kernel) -> float:
    return model.duration_ns(Work(shape=shape)) / 1000


# -- Counts of shapes --------------------------------------------------------------------------------------------------


def test_a_transformer_block_counts_the_flops_of_the_closed_form() -> None:
    """Forward, backward and forward once more, a block has 96 B s h^2 (1 + s / 6h) (arXiv 2104.04473): four times the forward."""
    batch, s, h, heads = 2, 2048, 6144, 64
    products: list[Gemm | Attention] = [Gemm(m=batch * s, n=n, k=k) for n, k in ((3 * h, h), (h, h), (4 * h, h), (h, 4 * h))]
    core = Attention(heads=batch * heads, query_length=s, key_length=s, head_size=h // heads, flash=False)
    assert 4 * sum(shape.operations for shape in [*products, core]) == 96 * batch * s * h * h + 16 * batch * s * s * h


def test_attention_counts() -> None:
    sizes: dict[str, Any] = {"heads": 8, "query_length": 128, "key_length": 512, "head_size": 64}
    whole = Attention(**sizes)
    assert whole.operations == 8 * 4 * 128 * 512 * 64
    assert Attention(**sizes, causal=True).operations == 8 * 4 * (128 * 512 - 128 * 128 // 2) * 64
    assert Attention(**{**sizes, "key_length": 128}, causal=True).operations * 2 == Attention(**{**sizes, "key_length": 128}).operations
    # Of 512 keys: 128 queries each with 100 of them; then the first query has 384 keys, and 116 more see one more each.
    assert Attention(**sizes, causal=True, window=100).operations == 8 * 4 * 128 * 100 * 64
    assert Attention(**sizes, causal=True, window=500).operations == 8 * 4 * (128 * 500 - 116 * 116 // 2) * 64
    assert Attention(**sizes, causal=True, window=600) != Attention(**sizes, causal=True)
    assert Attention(**sizes, causal=True, window=600).operations == Attention(**sizes, causal=True).operations
    assert Attention(**sizes, causal=True, window=100).count_bytes(2) == 2 * 8 * (128 + 227) * 2 * 64
    assert 2 * Attention(**sizes, backward=True).operations == 5 * whole.operations
    assert Attention(**sizes, value_size=32).operations == 8 * 2 * 128 * 512 * (64 + 32)
    assert whole.count_bytes(2) == 2 * 8 * (128 + 512) * (64 + 64)
    assert Attention(**sizes, key_heads=2).count_bytes(2) == 2 * (8 * 128 + 2 * 512) * (64 + 64)
    unfused = Attention(**sizes, flash=False, dropout=True)
    assert unfused.operations == whole.operations
    assert Attention(**sizes, flash=False, backward=True).operations == 2 * whole.operations
    assert unfused.score_bytes(2) == 9 * 8 * 128 * 512
    assert Attention(**sizes, flash=False, backward=True, dropout=True).score_bytes(2) == 11 * 8 * 128 * 512
    products = sum(gemm.count_bytes(2) for gemm in unfused.gemms)
    assert unfused.count_bytes(2) == products + unfused.score_bytes(2)


def test_products_and_memory_kernels_count() -> None:
    assert Gemm(m=2, n=3, k=5, batch=7).operations == 7 * 2 * 2 * 3 * 5
    assert Gemm(m=2, n=3, k=5, batch=7).count_bytes(2) == 7 * 2 * (2 * 5 + 5 * 3 + 2 * 3)
    assert Gemm(m=2, n=3, k=5, accumulate_fp32=True).count_bytes(2) == 2 * (2 * 5 + 5 * 3) + 8 * 2 * 3
    grouped = GroupedGemm(experts=4, rows=10, n=6, k=8)
    assert (grouped.operations, grouped.count_bytes(2)) == (4 * 2 * 10 * 6 * 8, 4 * 2 * (10 * 8 + 8 * 6 + 10 * 6))
    assert Cast(elements=100, transposed=True).count_bytes(0) == 400
    assert Elementwise(read_bytes=3, write_bytes=4).count_bytes(0) == 7
    assert OptimizerStep(parameters=10).count_bytes(0) == 580
    assert Work(shape=Gemm(m=2, n=3, k=5, element_type="fp8")).count_bytes(4) == 2 * 5 + 5 * 3 + 2 * 3


def test_key_heads_divide_the_heads() -> None:
    with pytest.raises(InputError, match="key_heads is 3; expected a divisor of heads, which is 8"):
        Attention(heads=8, key_heads=3, query_length=1, key_length=1, head_size=1)


# -- Times of kernels --------------------------------------------------------------------------------------------------


def test_a_product_takes_its_waves() -> None:
    """108 tiles of 256 x 128 fill an A100 once; a batch of ten fills it ten times."""
    model = gpu()
    fit = model.profile.gemm_fit("bf16")
    wave = 2 * 256 * 128 * (8192 + fit.k0) / (312e6 / 108 * fit.large)
    assert us(model, Gemm(m=256 * 12, n=128 * 9, k=8192)) == pytest.approx(fit.start_us + wave)
    assert us(model, Gemm(m=256 * 12, n=128 * 9, k=8192, batch=10)) == pytest.approx(fit.start_us + 10 * wave)


def test_fp32_accumulation_costs_time() -> None:
    plain, added = (us(gpu(), Gemm(m=8192, n=8192, k=2048, accumulate_fp32=on)) for on in (False, True))
    assert 1.1 < added / plain < 1.4


def test_experts_share_the_waves() -> None:
    """Eight experts whose tiles fill a part of the device each take less than eight times the time of one."""
    model = gpu()
    one, eight = (us(model, GroupedGemm(experts=experts, rows=128, n=1536, k=4096)) for experts in (1, 8))
    assert us(model, Gemm(m=128, n=1536, k=4096, batch=8)) == eight
    assert eight < 6 * one


def test_a_misaligned_product_takes_longer() -> None:
    model = gpu()
    times = [us(model, Gemm(m=4096, n=4096, k=k)) for k in (4096, 4096 - 32, 4096 - 16, 4096 - 8, 4095)]
    assert times == sorted(times)


def test_memory_kernels_take_their_bytes() -> None:
    model = gpu()
    expected = 2 + 1e9 / (0.82 * 2039e3)
    assert us(model, Elementwise(read_bytes=500_000_000, write_bytes=500_000_000)) == pytest.approx(expected)
    assert us(model, OptimizerStep(parameters=20_000_000, bytes_per_parameter=50)) == pytest.approx(expected)
    assert us(model, Cast(elements=250_000_000, transposed=True)) == pytest.approx(expected)


def test_unfused_attention_is_its_kernels() -> None:
    model = gpu()
    shape = Attention(heads=16, query_length=2048, key_length=2048, head_size=128, flash=False, dropout=True)
    scores = Elementwise(read_bytes=int(shape.score_bytes(2)))
    assert us(model, shape) == pytest.approx(sum(us(model, gemm) for gemm in shape.gemms) + us(model, scores))


def test_work_without_a_shape_takes_its_operations_or_bytes() -> None:
    model = gpu()
    assert model.duration_ns(Work(operations=312e12)) == pytest.approx(1e9 / model.profile.gemm_fit("bf16").large)
    assert model.duration_ns(Work(operations=1, bytes=2039e9)) == pytest.approx(1e9 / 0.82)
    with pytest.raises(MissingWork, match="no shape, no operations and no memory_bytes"):
        model.duration_ns(Work(recorded_ns=5))


def test_a_stack_slows_its_kernels(tmp_path: Any) -> None:
    file = tmp_path / "slow.toml"
    file.write_text("gemm_share = 0.5\nelementwise_share = 0.25\nattention_rate = 0.125\n")
    plain, slow = gpu(), gpu(stack=str(file))
    core = Attention(heads=1024, query_length=4096, key_length=4096, head_size=128)
    for shape, factor in ((Gemm(m=8192, n=8192, k=8192), 2), (Elementwise(read_bytes=10**10), 4), (core, 8)):
        assert us(slow, shape) / us(plain, shape) == pytest.approx(factor, rel=1e-2)


def test_products_in_training_have_the_sustained_rate_of_the_device(tmp_path: Any) -> None:
    """Other kernels, other workloads and servers have the rates of tables of kernels."""
    file = tmp_path / "slow.toml"
    file.write_text('based_on = "a100-80"\nsustained = 0.5\n[sources]\nsustained = "a test"\n')
    with pytest.warns(InputWarning, match="not calibrated"):
        alone = gpu(device=str(file), stack="kernels")
    with pytest.warns(InputWarning, match="not calibrated"):
        server = alone.for_workload("serving", {"inference"})
    slow = alone.for_workload("llm", {"training"})
    plain, other = gpu(), gpu().for_workload("serving", {"inference"})
    assert isinstance(slow, Gpu)
    product = Gemm(m=8192, n=8192, k=8192)
    others = Elementwise(read_bytes=10**9), Attention(heads=32, query_length=4096, key_length=4096, head_size=128)
    assert us(slow, product) / us(plain, product) == pytest.approx(2, rel=1e-2)
    assert us(alone, product) == us(plain, product)
    assert slow.duration_ns(Work(operations=10**12)) == 2 * plain.duration_ns(Work(operations=10**12))
    assert [us(slow, shape) for shape in others] == [us(plain, shape) for shape in others]
    assert isinstance(server, Gpu)
    assert isinstance(other, Gpu)
    assert us(server, product) == us(other, product)


def test_devices_of_blackwell_differ_in_their_sustained_rates() -> None:
    rates = {name: device.read_device(name).sustained for name in DEVICES}
    assert rates["gb200"] == rates["b200"] < rates["h100"] == 1 < rates["gb300"] == rates["b300"]


MULTIPLES = st.integers(1, 200).map(lambda value: 64 * value)
LENGTHS = st.integers(1, 1 << 17)


@settings(deadline=None)
@given(st.sampled_from(["a100-80", "h100", "h200", "b200"]), st.data())
def test_a_larger_shape_is_never_faster(name: str, data: st.DataObject) -> None:
    """Each size is made larger alone; n and k stay multiples of 64, for alignment has a price."""
    model = gpu(device=name)
    gemm = {"m": st.integers(1, 20000), "n": MULTIPLES, "k": MULTIPLES, "batch": st.integers(1, 64)}
    heads = {"heads": st.integers(1, 4096), "query_length": LENGTHS, "key_length": LENGTHS, "head_size": st.sampled_from([128, 192, 256])}
    flags: dict[str, Any] = {name: data.draw(st.booleans()) for name in ("causal", "backward")}
    for cls, sizes, more in ((Gemm, gemm, {}), (Attention, heads, flags)):
        small = {size: data.draw(values) for size, values in sizes.items()}
        changed = data.draw(st.sampled_from(sorted(sizes)))
        large = {**small, changed: max(small[changed], data.draw(sizes[changed]))}
        assert us(model, cls(**large, **more)) >= us(model, cls(**small, **more)) * (1 - 1e-12)  # type: ignore[arg-type]


# -- Other models ------------------------------------------------------------------------------------------------------

KERNELS: list[Kernel] = [
    Gemm(m=128, n=128, k=128, batch=3),
    GroupedGemm(experts=3, rows=128, n=128, k=128),
    Attention(heads=2, query_length=128, key_length=128, head_size=64),
    Elementwise(read_bytes=1000),
    Cast(elements=1000),
    OptimizerStep(parameters=1000),
]


@pytest.mark.parametrize("shape", KERNELS, ids=lambda shape: shape.kind)
def test_roofline_prices_every_kernel_by_operations_and_bytes(shape: Kernel) -> None:
    model = Roofline(structure(RooflineOptions, {"peak_tera_ops_per_s": 1, "memory_bandwidth_gb_per_s": 1}, "roofline"))
    assert model.duration_ns(Work(shape=shape)) == round(max(shape.operations / 1e3, shape.count_bytes(2)))


def test_roofline_takes_the_peak_of_the_shapes_own_type() -> None:
    model = Roofline(structure(RooflineOptions, {"peak_by_type": {"fp16": 1, "fp8": 2}}, "roofline"))
    plain, narrow = (model.duration_ns(Work(shape=Gemm(m=100, n=100, k=100, element_type=name))) for name in (None, "fp8"))
    assert plain == 2 * narrow == 2000


@pytest.mark.parametrize("shape", KERNELS[3:], ids=lambda shape: shape.kind)
def test_the_rule_of_astra2_refuses_kernels_without_operations(shape: Kernel) -> None:
    options = {"peak_tera_ops_per_s": 1, "memory_bandwidth_gb_per_s": 1, "rule": "astra2"}
    with pytest.raises(MissingWork, match=f"its shape, {shape.kind}, is counted in bytes alone"):
        Roofline(structure(RooflineOptions, options, "roofline")).duration_ns(Work(shape=shape))


@pytest.mark.parametrize("shape", KERNELS, ids=lambda shape: shape.kind)
def test_systolic_runs_products_one_after_another_and_refuses_the_rest(shape: Kernel) -> None:
    model = Systolic(structure(SystolicOptions, {}, "systolic"))
    if isinstance(shape, (Gemm, GroupedGemm)):
        assert model.duration_ns(Work(shape=shape)) == 3 * model.cycles(Gemm(m=128, n=128, k=128))
        return
    with pytest.raises(MissingWork, match=f"its shape, {shape.kind}, is not a product of matrices"):
        model.duration_ns(Work(shape=shape))


# -- Devices and stacks ------------------------------------------------------------------------------------------------


def _numbers(table: dict[str, Any], path: str = "") -> list[str]:
    result = []
    for key, value in table.items():
        if key != "sources":
            where = f"{path}.{key}" if path else key
            result += _numbers(value, where) if isinstance(value, dict) else [where] if type(value) in (int, float) else []
    return result


@pytest.mark.parametrize("name", DEVICES)
def test_every_number_of_a_device_has_a_source(name: str) -> None:
    table, _ = device.read_table(name)
    for path in _numbers(table):
        parts = path.split(".")
        assert any(".".join(parts[:count]) in table["sources"] for count in range(1, len(parts) + 1)), path
    known = {path.rsplit(".", cut)[0] for path in _numbers(table) for cut in range(3)}
    assert set(table["sources"]) <= known | {"block_scaling"}, "a source of nothing"


@pytest.mark.parametrize("name", DEVICES)
def test_every_device_runs_and_says_whether_it_is_calibrated(name: str) -> None:
    if device.read_device(name).calibrated:
        assert us(gpu(device=name), Gemm(m=1024, n=1024, k=1024)) > 0
        return
    with pytest.warns(InputWarning, match=f"device {name} is not calibrated"):
        assert us(gpu(device=name), Gemm(m=1024, n=1024, k=1024)) > 0


@pytest.mark.parametrize("name", DEVICES)
def test_no_device_exceeds_its_peak(name: str) -> None:
    result = device.read_device(name)
    for element_type in result.peak_tera_ops_per_s:
        fit = result.gemm_fit(element_type)
        assert max(fit.large, fit.medium, fit.small) < 1
    assert result.attention.peak_tera_ops_per_s < next(iter(result.peak_tera_ops_per_s.values()))


def test_the_devices_that_are_promised_are_there() -> None:
    promised = "v100 a100-40 a100-80 h100 h200 gh200 b200 b300 gb200 gb300 l40s rtx-4090 rtx-pro-6000 mi300x mi325x mi355x gaudi3 trainium2"
    promised += " tpu-v4 tpu-v5e tpu-v5p tpu-v6e tpu-v7"
    assert sorted(promised.split()) == DEVICES


@pytest.mark.parametrize("name", data_files.names(stack.FOLDER))
def test_every_stack_has_a_source(name: str) -> None:
    assert stack.read_stack(name).source


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("device=h10", "device is 'h10'; did you mean 'h100'?"),
        ("device=A100-80GB", "device is 'A100-80GB'; did you mean 'a100-80'?"),
        ("device=h100&stack=megatron-2023", "stack is 'megatron-2023'; did you mean 'megatron-2022'?"),
        ("device=v100&element_type=fp8", "NVIDIA V100 SXM2 32 GB has no peak rate for fp8; it has fp16, fp32, fp64"),
        ("device=none.toml", "'none.toml': No such file or directory"),
        ("stack=kernels", "device is missing"),
    ],
)
def test_wrong_names_are_one_clear_error(options: str, message: str) -> None:
    layer = {"name": "a", "forward": {"gemm": {"m": 1, "n": 64, "k": 64}}}
    with pytest.raises(InputError) as caught:
        astra_sim.simulate(
            workload={"loop": "data", "layers": [layer]},
            platform=RING,
            compute=f"plugin:gpu?{options}",
        )
    assert message in str(caught.value)


@pytest.mark.parametrize(("size", "padded"), [(80, 96), (104, 128), (112, 128), (144, 160), (216, 256)])
def test_heads_are_as_wide_as_kernels(size: int, padded: int) -> None:
    """Where operations count, a head takes as long as one of the next size that kernels have; its FLOPs stay its own."""
    model = gpu(device="h100")
    shapes = [Attention(heads=1024, query_length=4096, key_length=4096, head_size=each, causal=True) for each in (size, padded)]
    assert us(model, shapes[0]) == pytest.approx(us(model, shapes[1]))
    assert shapes[0].operations * padded == shapes[1].operations * size


def test_layers_carry_kernels() -> None:
    attention = Attention(heads=96, query_length=2048, key_length=2048, head_size=128, causal=True)
    shapes = (attention, GroupedGemm(experts=8, rows=512, n=1536, k=4096), OptimizerStep(parameters=1_000_000), Cast(elements=10**8))
    tables = {shape.kind: attrs.asdict(shape, filter=lambda field, value: value != field.default) for shape in shapes}
    nothing: dict[str, Any] = {"elementwise": {}}
    layers = [
        {"name": kind, "forward": {kind: table}, "input_gradient": nothing, "weight_gradient": nothing} for kind, table in tables.items()
    ]
    result = astra_sim.simulate(workload={"loop": "data", "layers": layers}, platform=RING, compute="plugin:gpu?device=h100")
    model = gpu(device="h100")
    # Of a first layer the gradient of the input is not calculated.
    starts = (2 * len(shapes) - 1) * us(model, Elementwise())
    assert result.compute_ns == pytest.approx(1000 * (starts + sum(us(model, shape) for shape in shapes)), abs=5)


def test_a_pass_has_one_shape() -> None:
    layer = {"name": "a", "forward": {"cast": {"elements": 5}, "elementwise": {"read_bytes": 5}}}
    with pytest.raises(InputError, match="elementwise and cast are given; expected one of the two"):
        astra_sim.simulate(
            workload={"loop": "data", "layers": [layer]},
            platform=RING,
            compute="plugin:gpu?device=h100",
        )


def test_a_convolution_is_priced_as_its_product() -> None:
    window = Convolution(input_height=64, input_width=64, filter_height=1, filter_width=1, channels=64, filters=64)
    assert us(gpu(), window) == us(gpu(), window.gemm)
