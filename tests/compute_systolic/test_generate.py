"""`astra generate`: from layers, a parallelisation and a compute model to a workload."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import astra_sim
import pytest
import tomli
from astra_sim import InputError
from astra_sim.command.cli import astra
from astra_sim.shapes import Convolution, Gemm
from astra_sim_compute_systolic.generate.expressions import evaluate
from astra_sim_compute_systolic.generate.layers import ModelLayer, read_csv
from astra_sim_compute_systolic.generate.model_file import read_model, shipped_models
from astra_sim_compute_systolic.generate.parallelism import LAYER_POLICIES, NOTHING, LayerExchange, Machine, share_of
from click.testing import CliRunner
from support import ROOT

MLP = "Layer,m,n,k,parallelisation\nfirst,64,32,16,DATA\nsecond,64,48,32,MODEL\n"


def generate(*arguments: str) -> str:
    """The output of the command. Raises what it raises."""
    done = CliRunner().invoke(astra, ["generate", *arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture
def mlp(tmp_path: Path) -> str:
    path = tmp_path / "mlp.csv"
    path.write_text(MLP)
    return str(path)


def test_the_rules_of_each_parallelisation_by_hand() -> None:
    # 8 NPUs in 2 packages of 4; m, n, k = 64, 32, 16; 2 bytes an element.
    machine, shape = Machine(8, 2), Gemm(m=64, n=32, k=16)

    def share(policy: str) -> tuple[Any, ...]:
        result = share_of("layer", shape, True, policy, machine, 2)
        gemms = [gemm for gemm in result[:3] if isinstance(gemm, Gemm)]
        return tuple((gemm.m, gemm.n, gemm.k) for gemm in gemms), result.exchanges

    gathered, scattered = LayerExchange("ALLGATHER", 64 * 32 * 2 // 8), "REDUCESCATTER"
    assert share("DATA") == (((8, 32, 16), (8, 16, 32), (16, 32, 8)), (NOTHING, NOTHING, LayerExchange("ALLREDUCE", 16 * 32 * 2)))
    assert share("MODEL") == (((64, 4, 16), (64, 16, 4), (16, 4, 64)), (gathered, LayerExchange(scattered, 64 * 16 * 2), NOTHING))
    assert share("HYBRID_DATA_MODEL") == (
        ((32, 8, 16), (32, 16, 8), (16, 8, 32)),
        (gathered, LayerExchange(scattered, 64 * 16 * 2 // 2), LayerExchange("ALLREDUCE", 16 * 32 * 2 // 4)),
    )
    assert share("HYBRID_MODEL_DATA") == (
        ((16, 16, 16), (16, 16, 16), (16, 16, 16)),
        (gathered, LayerExchange(scattered, 64 * 16 * 2 // 4), LayerExchange("ALLREDUCE", 16 * 32 * 2 // 2)),
    )


def test_quotients_are_cut_and_nothing_is_cut_away_wholly() -> None:
    assert share_of("layer", Gemm(m=102, n=1, k=1), True, "DATA", Machine(8, 1), 1).forward == Gemm(m=12, n=1, k=1)
    with pytest.raises(InputError, match="layer x: n is 4, which cannot be split 8 ways; expected at least 8"):
        share_of("x", Gemm(m=8, n=4, k=1), True, "MODEL", Machine(8, 1), 1)


def test_a_convolution_is_split_by_images_and_filters() -> None:
    shape = Convolution(input_height=6, input_width=6, filter_height=3, filter_width=3, channels=2, filters=8, batch=4)
    share = share_of("conv", shape, True, "HYBRID_DATA_MODEL", Machine(8, 4), 2)
    assert isinstance(share.forward, Convolution)
    assert (share.forward.batch, share.forward.filters) == (1, 4)
    assert share.input_gradient == Gemm(m=16, n=18, k=4)
    # Gradients of the input have its size, not that of all windows.
    assert share.exchanges[1] == LayerExchange("REDUCESCATTER", 4 * 6 * 6 * 2 * 2 // 4)


@pytest.mark.parametrize("policy", LAYER_POLICIES)
def test_layers_without_weights_exchange_nothing(policy: str) -> None:
    share = share_of("scores", Gemm(m=64, n=32, k=16), False, policy, Machine(8, 2), 2)
    assert share.forward == Gemm(m=8, n=32, k=16)
    assert share.exchanges == (NOTHING, NOTHING, NOTHING)


def test_text_is_that_of_astra_sim(mlp: str) -> None:
    text = generate(
        "--layers", mlp, "--parallel", "HYBRID_CUSTOMIZED", "--npus", "8", "--compute", "plugin:systolic?dataflow=os", "--format", "text"
    )
    lines = text.splitlines()
    assert lines[:2] == ["HYBRID_CUSTOMIZED", "2"]
    cycles = [128 + 128 + time - 2 - 1 for time in (16, 32, 8)]
    assert lines[2] == f"first\t-1\t {cycles[0]}\tNONE\t0\t {cycles[1]}\tNONE\t0\t {cycles[2]}\tALLREDUCE\t1024\t100\tDATA"
    assert lines[3].split("\t")[3:5] == ["ALLGATHER", str(64 * 48 * 2 // 8)]
    assert lines[3].split("\t")[-1] == "MODEL"


def test_the_heading_of_the_script_is_known() -> None:
    """Of the files that come with it, some have this name for a column; others leave the column out."""
    assert read_csv(MLP.replace("parallelisation", "CustomizedParallelization"), "l.csv") == read_csv(MLP, "l.csv")


@pytest.mark.parametrize("policy", [*LAYER_POLICIES, "HYBRID_CUSTOMIZED"])
def test_text_and_toml_run_alike(mlp: str, policy: str, tmp_path: Path) -> None:
    finish = set()
    for name in ("w.txt", "w.toml"):
        path = str(tmp_path / name)
        generate("--layers", mlp, "--parallel", policy, "--npus", "8", "--packages", "2", "--output", path)
        platform = {
            "dimensions": [{"topology": "ring", "size": size, "links": 2, "link_bandwidth_gb_per_s": 50} for size in (4, 2)],
        }
        finish.add(astra_sim.simulate(workload=path, platform=platform, set=["system.splits=1"]).finish_ns)
    assert len(finish) == 1


@pytest.mark.parametrize("model", shipped_models())
def test_every_model_runs_under_every_compute_model(model: str, tmp_path: Path) -> None:
    path = str(tmp_path / "model.toml")
    generate("--model", model, "--parallel", "DATA", "--npus", "4", "--batch", "8", "--output", path)
    times = {
        astra_sim.simulate(workload=path, platform="plugin:ring?size=4&links=2&link_bandwidth_gb_per_s=50", compute=compute).compute_ns
        for compute in ("plugin:recorded", "plugin:systolic", "plugin:roofline?peak_tera_ops_per_s=32.768")
    }
    assert len(times) == 2  # what was recorded is what the systolic array took


def operations(layers: list[ModelLayer]) -> int:
    """Multiply-adds of a forward pass."""
    return sum(gemm.m * gemm.n * gemm.k for gemm in (layer.shape.gemm for layer in layers))


def parameters(layers: list[ModelLayer]) -> int:
    return sum(layer.parameters for layer in layers)


def test_models_have_the_published_sizes() -> None:
    vgg16 = read_model("vgg16", 1, {})
    assert parameters(vgg16) == 138_357_544 - 13_416  # without biases: one for each filter and output
    resnet50 = read_model("resnet50", 1, {})
    assert (len(resnet50), operations(resnet50)) == (54, 4_089_184_256)
    assert parameters(resnet50) == 25_557_032 - 53_120 - 1000  # without batch normalisation and biases
    gpt3 = read_model("gpt3_layer", 1, {})
    assert parameters(gpt3) == 12 * 12288**2
    bert = read_model("bert_large", 1, {})
    assert parameters(bert) == 24 * 12 * 1024**2 + 30522 * 1024
    assert operations(read_model("resnet50", 3, {})) == 3 * 4_089_184_256


def test_a_transformer_has_any_sizes() -> None:
    small = read_model("transformer", 2, {"layers": 3, "hidden": 8, "heads": 2, "sequence": 5, "feed_forward": 7, "head": 0})
    assert [layer.name for layer in small[:2]] == ["qkv_1", "scores_1"]
    assert len(small) == 18
    assert small[1].shape == Gemm(m=2 * 2 * 5, n=5, k=4)
    assert parameters(small) == 3 * (4 * 8 * 8 + 2 * 7 * 8)


def test_a_model_file_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        'name = "mine"\n[parameters]\nwidth = 12\n'
        '[[layers]]\nname = "a"\ngemm = { m = 1, n = "2 * (width - 4)", k = "width // 5" }\nparallelisation = "MODEL"\n'
    )
    [layer] = read_model(str(path), 3, {"width": 14})
    assert layer == ModelLayer("a", Gemm(m=3, n=20, k=2), policy="MODEL")


def test_what_does_not_fit_into_memory_is_an_error() -> None:
    arguments = ("--model", "gpt3_layer", "--parallel", "DATA", "--npus", "2", "--batch-per-npu", "1")
    generate(*arguments, "--memory", "plugin:local?capacity_gib=80")
    # Weights and gradients of 12 * 12288^2 parameters alone are 6.75 GiB.
    with pytest.raises(InputError, match=r"gpt3_layer on 2 NPUs, DATA needs \d.\d+ GiB of memory; an NPU has 6\.000 GiB"):
        generate(*arguments, "--memory", "plugin:local?capacity_gib=6")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--parallel DATA --npus 4", "exactly one of --layers and --model"),
        ("--model resnet5 --parallel DATA --npus 4 --batch 4", "there is no file and no model 'resnet5'; did you mean 'resnet50'"),
        ("--model resnet50 --npus 4 --batch 4", "--parallel is missing"),
        ("--model resnet50 --parallel DATE --npus 4 --batch 4", "--parallel is 'DATE'; did you mean 'DATA'"),
        ("--model resnet50 --parallel DATA --batch 4", "--npus is missing"),
        ("--model resnet50 --parallel DATA --npus 0 --batch 4", "npus is 0; expected at least 1"),
        ("--model resnet50 --parallel DATA --npus 4 --packages 3 --batch 4", "4 NPUs cannot be divided into 3 equal packages"),
        ("--model resnet50 --parallel DATA --npus 4", "exactly one of --batch and --batch-per-npu"),
        ("--model resnet50 --parallel DATA --npus 4 --batch 2", "layer conv1: the batch is 2, which cannot be split 4 ways"),
        ("--model resnet50 --parallel HYBRID_CUSTOMIZED --npus 4 --batch 4", "layer conv1: it names no parallelisation"),
        ("--model transformer --parallel DATA --npus 4 --batch 4 --set hiden=4", "no parameter 'hiden'; did you mean 'hidden'"),
        ("--model transformer --parallel DATA --npus 4 --batch 4 --set hidden=x", "--set hidden=x: expected PARAMETER=NUMBER"),
        ("--model transformer --parallel DATA --npus 4 --batch 4 --set heads=0", "integer division or modulo by zero"),
        ("--model resnet50 --parallel DATA --npus 4 --batch 4 --datatype-bytes 0", "--datatype-bytes is 0"),
        ("--model resnet50 --parallel DATA --npus 4 --batch 4 --compute plugin:recorded", "layer conv1, forward: it has no recorded time"),
        ("--model resnet50 --parallel DATA --npus 4 --batch 4 --compute plugin:systolic?array_rows=0", "array_rows is 0"),
    ],
)
def test_wrong_choices_are_errors(arguments: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        generate(*arguments.split())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Layer,m,n,k\na,1,2\n", "l.csv:2: k is ''; expected a whole number of at least 1"),
        ("Layer,m,n,k\na,1,0,2\n", "l.csv:2: n is '0'; expected a whole number of at least 1"),
        ("Layer,m,n,k,parallelism\na,1,2,3,DATUM\n", "l.csv:2: the parallelisation is 'DATUM'; did you mean 'DATA'"),
        ("Layer,m,n,k\n", "l.csv: no layer follows the heading"),
    ],
)
def test_wrong_layers_are_errors(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_csv(text, "l.csv")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('name = "x"', "exactly one of layers and blocks"),
        ('[[layers]]\nname = "a"', "layer a: expected exactly one of gemm and convolution"),
        ('[[layers]]\nname = "a b"\ngemm = { m = 1, n = 1, k = 1 }', "'a b'; expected a name without spaces"),
        ('[[layers]]\nname = "a"\ngemm = { m = 1, n = "wide", k = 1 }', "gemm: n: 'wide': there is no parameter 'wide'"),
        ('[[layers]]\nname = "a"\ngemm = { m = 1, n = "2 ** 9", k = 1 }', "not an expression of whole numbers"),
        ('[[layers]]\nname = "a"\ngemm = { m = 1, n = "2 *", k = 1 }', "not an expression; expected whole numbers"),
        ('[[layers]]\nname = "a"\ngemm = { m = 1, n = "1 - 1", k = 1 }', "n is 0; expected at least 1"),
        ('base = "resnet51"', "base is 'resnet51'"),
        ("[parameters]\nx = 1.5", "parameter x is 1.5; expected a whole number"),
        ('[[layers]]\nname = "a"\ngemm = { m = 1, n = 1, k = 1 }\nparallelisation = "BOTH"', "parallelisation is 'BOTH'"),
        ('[[blocks]]\nrepeat = 0\n[[blocks.layers]]\nname = "a"\ngemm = { m = 1, n = 1, k = 1 }', "no layer is left"),
    ],
)
def test_wrong_models_are_errors(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "m.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_model(str(path), 1, {})


def test_expressions_are_arithmetic_and_nothing_else() -> None:
    assert evaluate("3 * (hidden + 1) // 2 - 4", {"hidden": 7}, "x") == 8
    for text in ("hidden.real", "len(hidden)", "2.5", "True", "[1][0]", "(" * 300):
        with pytest.raises(InputError):
            evaluate(text, {"hidden": 7}, "x")


def test_names_with_spaces_fit_into_toml_only(tmp_path: Path) -> None:
    path = tmp_path / "l.csv"
    path.write_text('layer,m,n,k\na "b",8,8,8\n')
    arguments = ("--layers", str(path), "--parallel", "DATA", "--npus", "2")
    assert tomli.loads(generate(*arguments))["layers"][0]["name"] == 'a "b"'
    with pytest.raises(InputError, match="the text workload cannot hold a name with spaces"):
        generate(*arguments, "--format", "text")


def test_the_studies_of_the_tutorial_print_their_tables_and_draw_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["tutorial_2022.py", "--output", str(tmp_path)])
    runpy.run_path(str(ROOT / "examples" / "tutorial_2022.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert all(f"{npus} = " in printed for npus in (8, 16, 32, 64, 128))
    assert all(f"\n{speed}x " in printed for speed in (1, 2, 4, 8))
    assert all((tmp_path / name).stat().st_size for name in ("scaling.png", "faster_compute.png"))
