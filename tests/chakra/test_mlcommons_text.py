"""Traces from text as MLCommons' text converter makes them: `astra convert --mlcommons`, and `chakra_converter Text`."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from astra_sim_chakra.mlcommons_text import MlcommonsText
from astra_sim_chakra.writer import encode_nodes
from support.commands import Astra, command

LAYERS = """\
emb -1 100 ALLTOALL 4096 200 ALLTOALL 512 300 ALLREDUCE 1048576 10
mlp -1 400 ALLGATHER 8192 500 REDUCESCATTER 64 600 NONE 0 20
top -1 0 NONE 0 700 ALLREDUCE 2048 800 ALLREDUCE 65536 0
"""

DIGESTS = {
    "MICRO": "878b1992b3eed486",
    "DATA": "324f510d24a5a99d",
    "MODEL": "bd74adc626b662f0",
    "HYBRID_DATA_MODEL": "f56014ecc433db1a",
    "HYBRID_MODEL_DATA": "e2a05869752de52c",
    "HYBRID_DLRM 1": "2741a7fbed7b519e",
}
"""The first digits of SHA-256 of the traces that the converter of Chakra 1.0.0 (21585d8) writes for two ranks and two passes."""


@pytest.fixture
def astra(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Astra:
    monkeypatch.chdir(tmp_path)
    return command(capsys)


def text(policy: str, layers: str = LAYERS, count: int = 3) -> str:
    return f"{policy}\n{count}\n{layers}"


@pytest.mark.parametrize("policy", DIGESTS)
def test_traces_are_those_of_the_converter_byte_by_byte(policy: str, astra: Astra) -> None:
    Path("w.txt").write_text(text(policy))
    done = astra("convert", "w.txt", "t.et", "--mlcommons", "2", "--passes", "2")
    assert done.status == 0
    written = b"".join(Path(f"t.{rank}.et").read_bytes() for rank in range(2))
    assert hashlib.sha256(written).hexdigest().startswith(DIGESTS[policy])


def test_ids_go_on_from_rank_to_rank() -> None:
    nodes = list(MlcommonsText(text("MICRO"), "w.txt").ranks(3, 2))
    assert [node.id for rank in nodes for node in rank] == list(range(18))
    assert len({encode_nodes(rank) for rank in nodes}) == 3


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("", "w.txt:1: MLCommons' converter does not have the parallelism ''"),
        (text("HYBRID_CUSTOMIZED"), "w.txt:1: MLCommons' converter does not have the parallelism 'HYBRID_CUSTOMIZED'"),
        (text("HYBRID_DLRM"), "w.txt:1: the last layer of the bottom MLP is ''"),
        ("DATA\nmany\n" + LAYERS, "w.txt:2: the number of layers is 'many'"),
        ("DATA\n0\n", "w.txt:2: no layer follows"),
        (text("DATA", LAYERS + "\n"), "w.txt:6: a line of 0 words; expected a layer, of 12"),
        (text("DATA", LAYERS.replace("400", "-400")), "w.txt:4: the time of layer mlp, FWD is '-400'"),
        (text("DATA", LAYERS.replace("65536", "64k")), "w.txt:5: the bytes of layer top, BWD_WG is '64k'"),
        (text("HYBRID_DLRM 0"), "w.txt: a node waits for the ALLTOALL of layer emb, which MLCommons' converter has not made"),
        (text("MODEL", count=2), "w.txt: a node waits for the collective of the input gradient of layer mlp"),
    ],
)
def test_what_the_converter_refuses_is_an_error(written: str, says: str, astra: Astra) -> None:
    Path("w.txt").write_text(written)
    done = astra("convert", "w.txt", "t.et", "--from", "text", "--mlcommons", "2")
    assert done.status == 2
    assert says in done.error
    assert not list(Path().glob("t*"))


@pytest.mark.parametrize("more", [("--platform", "plugin:ring?size=2"), ("--compute-scale", "2"), ("--set", "system.splits=2")])
def test_options_of_a_run_have_no_meaning_with_it(more: tuple[str, str], astra: Astra) -> None:
    Path("w.txt").write_text(text("DATA"))
    done = astra("convert", "w.txt", "t.et", "--mlcommons", "2", *more)
    assert done.status == 2
    assert f"{more[0]} has no meaning for a conversion from text to chakra with --mlcommons" in done.error


def test_another_source_or_target_is_an_error(astra: Astra) -> None:
    Path("w.txt").write_text(text("DATA"))
    done = astra("convert", "w.txt", "t.toml", "--mlcommons", "2")
    assert done.status == 2
    assert "--mlcommons has no meaning for a conversion from text to toml" in done.error
