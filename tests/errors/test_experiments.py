"""Experiment files."""

from __future__ import annotations

from pathlib import Path

from errors.inputs import ALL_REDUCE, EXPERIMENT, HUGE, PLATFORM, WORK, Astra, Words, cases, holds, layer, layers, refused, write

LAYER = layer()


@cases(
    {
        "empty": ("", "workload"),
        "cut off": (EXPERIMENT + "[run\n", "line 4"),
        "a key twice": (EXPERIMENT + 'system = "s.txt"\n', "line 4"),
        "nested too deeply": ("a = " + "[" * 100_000, "nested"),
        "a number of 5000 digits": (EXPERIMENT + f"[run]\npasses = {HUGE}\n", "e.toml"),
        "unknown section": (EXPERIMENT + "[sistem]\nsplits = 1\n", "'sistem'", "system"),
        "unknown key": (EXPERIMENT + "passes = 2\n", "'passes'"),
        "name a number": (EXPERIMENT + "name = 3\n", "name", "3", "text"),
        "run a number": (EXPERIMENT + "run = 3\n", "run", "3", "table"),
        "run a list": (EXPERIMENT + "run = []\n", "run", "[]", "table"),
        "unknown option of the run": (EXPERIMENT + "[run]\npass = 2\n", "run", "'pass'", "'passes'"),
        "passes text": (EXPERIMENT + "[run]\npasses = '2'\n", "run", "passes", "'2'", "whole number"),
        "passes a fraction": (EXPERIMENT + "[run]\npasses = 2.0\n", "run", "passes", "2.0", "whole number"),
        "passes 0": (EXPERIMENT + "[run]\npasses = 0\n", "run", "passes", "0", "at least 1"),
        "scale not a number": (EXPERIMENT + "[run]\ncompute_scale = nan\n", "run", "compute_scale", "nan"),
        "scale infinite": (EXPERIMENT + "[run]\ncompute_scale = inf\n", "run", "compute_scale", "inf"),
        "symmetry a number": (EXPERIMENT + "[run]\nsymmetry = 1\n", "run", "symmetry", "1", "true or false"),
        "workload a number": ('workload = 3\nsystem = "s.txt"\nnetwork = "n.json"\n', "workload", "3"),
        "workload true": ('workload = true\nsystem = "s.txt"\nnetwork = "n.json"\n', "workload", "true"),
        "workload empty": ('workload = ""\nsystem = "s.txt"\nnetwork = "n.json"\n', "workload is empty", "plugin:NAME"),
        "workload missing": ('workload = "no.txt"\nsystem = "s.txt"\nnetwork = "n.json"\n', "e.toml: workload: ", "no.txt: No such file"),
        "file missing": ('workload = "w.txt"\nnetwork = "n.json"\n[system]\nfile = "no.txt"\n', "e.toml: system: ", "no.txt: No such"),
        "file empty": ('workload = "w.txt"\nnetwork = "n.json"\n[system]\nfile = ""\n', "system", "file is ''", "path"),
        "workload a list": ('workload = ["w.txt"]\nsystem = "s.txt"\nnetwork = "n.json"\n', "workload", "['w.txt']"),
        "plugin a number": ('workload = "w.txt"\nnetwork = "n.json"\n[system]\nplugin = 3\n', "system", "plugin", "3"),
        "unknown plugin": ('workload = "w.txt"\nnetwork = "n.json"\n[compute]\nplugin = "rofline"\n', "compute", "'rofline'", "roofline"),
        "file a number": ('workload = "w.txt"\nnetwork = "n.json"\n[system]\nfile = 3\n', "system", "file", "3"),
        "file with a plugin it is not for": (
            'system = "s.txt"\nnetwork = "n.json"\n[workload]\nfile = "w.txt"\nplugin = "collective"\nbytes = 64\n',
            "workload",
            "w.txt",
            "plugin",
        ),
        "splits text": ('workload = "w.txt"\nnetwork = "n.json"\n[system]\nsplits = "4"\n', "system", "splits", "'4'", "whole number"),
        "algorithm a number": ('workload = "w.txt"\nnetwork = "n.json"\n[system]\nall_reduce = 3\n', "system", "all_reduce", "3"),
        "algorithms of numbers": (
            'workload = "w.txt"\nnetwork = "n.json"\n[system]\nall_reduce = [3]\n',
            "system",
            "all_reduce",
            "3",
            "text",
        ),
        "no algorithms": ('workload = "w.txt"\nnetwork = "n.json"\n[system]\nall_reduce = []\n', "system", "all_reduce", "0 algorithms"),
        "no platform": ('workload = "w.txt"\nsystem = "s.txt"\nnetwork = "plugin:analytical"\n', "platform"),
        "platform a list": ('workload = "w.txt"\nsystem = "s.txt"\nplatform = [1]\n', "platform", "[1]"),
        "dimensions text": ('workload = "w.txt"\n[platform]\ndimensions = "x"\n', "platform", "dimensions", "'x'", "list"),
        "dimensions a number": ('workload = "w.txt"\n[platform]\ndimensions = 3\n', "platform", "dimensions", "3", "list"),
        "dimensions of numbers": ('workload = "w.txt"\n[platform]\ndimensions = [1]\n', "platform", "dimension 0", "1", "table"),
        "dimensions empty": ('workload = "w.txt"\n[platform]\ndimensions = []\n', "platform", "dimensions", "at least one"),
        "dimensions and a plugin": (
            f'workload = "w.txt"\n[platform]\nplugin = "ring"\n{PLATFORM}',
            "platform",
            "dimensions",
        ),
        "topology and a plugin": (
            'workload = "w.txt"\n[platform]\nplugin = "ring"\ntopology = "switch"\nsize = 4\nlinks = 2\nlink_bandwidth_gb_per_s = 1\n',
            "platform",
            "topology",
        ),
        "topology missing": (f'workload = "w.txt"\n{PLATFORM.replace("topology", "#")}', "platform", "dimension 0", "topology", "missing"),
        "topology a number": (f'workload = "w.txt"\n{PLATFORM.replace("ring", "3")}', "platform", "dimension 0", "'3'"),
        "size missing": (f'workload = "w.txt"\n{PLATFORM.replace("size", "#")}', "platform", "dimension 0", "size", "missing"),
        "size text": (f'workload = "w.txt"\n{PLATFORM.replace("4", "[4]")}', "platform", "dimension 0", "size", "[4]", "whole number"),
        "size 0": (f'workload = "w.txt"\n{PLATFORM.replace("4", "0")}', "platform", "dimension 0", "size", "0", "at least 1"),
        "both bandwidths": (f'workload = "w.txt"\n{PLATFORM}link_bandwidth_gib_per_s = 1\n', "platform", "dimension 0", "exactly one"),
        "loop missing": (layers(f"layers = [{LAYER}]"), "workload", "loop", "missing"),
        "loop a number": (layers(f"loop = 3\nlayers = [{LAYER}]"), "workload", "loop", "3", "text"),
        "layers missing": (layers("loop = 'data'"), "workload", "layers", "missing"),
        "layers empty": (layers("loop = 'data'\nlayers = []"), "workload", "layers", "at least one"),
        "layers a number": (layers("loop = 'data'\nlayers = 3"), "workload", "layers", "3", "list"),
        "layers of numbers": (layers("loop = 'data'\nlayers = [1]"), "workload", "layers", "1", "table"),
        "layer without a name": (layers("loop = 'data'\nlayers = [{}]"), "workload", "layers", "name", "missing"),
        "layer with an unknown pass": (layers("loop = 'data'\nlayers = [{name = 'a', forwrd = {}}]"), "layers", "'forwrd'", "'forward'"),
        "layer without times": (layers("loop = 'data'\nlayers = [{name = 'conv'}]"), "workload", "conv", "forward", "compute_ns"),
        "second layer with a word": (
            layers(f"loop = 'data'\nlayers = [{LAYER}, {layer('compute_ns = [7]')}]"),
            "workload",
            ("layers 1", "layers.1", "layer 1"),
            "forward",
            "compute_ns",
            "[7]",
        ),
        "layer with a negative time": (layers(f"loop = 'data'\nlayers = [{layer('compute_ns = -1')}]"), "compute_ns", "-1", "at least 0"),
        "layer with a collective of no bytes": (
            layers(f"loop = 'data'\nlayers = [{layer(WORK, ALL_REDUCE)}]"),
            "conv",
            "weight_gradient",
            "0 bytes",
        ),
        "options of a loop that has none": (
            layers(f"loop = 'data'\nlayers = [{LAYER}]\nloop_options = {{x = 1}}"),
            "data",
            "'x'",
            "no options",
        ),
        "options of a loop a list": (layers(f"loop = 'data'\nlayers = [{LAYER}]\nloop_options = []"), "loop_options", "[]", "table"),
        "option of a loop missing": (
            layers(f"loop = 'hybrid_transformer'\nlayers = [{LAYER}]"),
            "hybrid_transformer",
            "model_parallel_npus",
        ),
        "layer of a customised loop without one": (layers(f"loop = 'hybrid_customized'\nlayers = [{LAYER}]"), "conv", "loop"),
    }
)
def test_a_bad_experiment_is_refused_with_file_and_key(astra: Astra, tmp_path: Path, given: str, words: Words) -> None:
    write(tmp_path, experiment=given)
    done = astra("e.toml", "--json")
    refused(done, *words)
    if given and "platform" not in words:
        holds(done.err, ["e.toml"])


def test_a_file_of_an_experiment_is_looked_for_beside_it(astra: Astra, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "e.toml").write_text('workload = "w.txt"\nnetwork = "../n.json"\n')
    refused(astra("folder/e.toml"), "folder/w.txt", "No such file")
