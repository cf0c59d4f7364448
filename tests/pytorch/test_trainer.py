"""GPT-2 trained by the loop of Hugging Face's `Trainer` with FSDP, on data and a tokenizer that are not there."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from astra_sim.errors import InputWarning
from astra_sim_torch.capture_file import load_captures
from support.torch_scripts import PYTHON, capture, needs_torch

SCRIPT = """
import datasets
from transformers import AutoTokenizer, DataCollatorForLanguageModeling, GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

tokenizer = AutoTokenizer.from_pretrained("gpt2")
tokenizer.pad_token = tokenizer.eos_token
texts = datasets.load_dataset("wikitext", "wikitext-2-raw-v1")["train"]
tokens = texts.map(lambda rows: tokenizer(rows["text"], truncation=True, max_length=64), batched=True, remove_columns=["text"])
options = {"transformer_layer_cls_to_wrap": ["GPT2Block"], "fsdp_version": 2}
settings = TrainingArguments(
    "out", per_device_train_batch_size=2, max_steps=3, bf16=True, report_to=[], logging_steps=1, save_strategy="no",
    fsdp="full_shard auto_wrap", fsdp_config=options, dataloader_num_workers=2,
)
collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)
Trainer(GPT2LMHeadModel(GPT2Config(n_layer=2)), settings, train_dataset=tokens, data_collator=collator).train()
"""
WIDTH, WORLD, BF16 = 768, 8, 2
BLOCK = 12 * WIDTH**2 + 13 * WIDTH
WORDS, POSITIONS = 50257 * WIDTH, 1024 * WIDTH


def has_trainer() -> bool:
    """Whether the Python that captures has all that the script imports."""
    probe = "import importlib.util, sys; sys.exit(None in map(importlib.util.find_spec, ['accelerate', 'datasets', 'transformers']))"
    return subprocess.run([PYTHON or sys.executable, "-c", probe], check=False).returncode == 0


@needs_torch
def test_a_trainer_gathers_blocks_twice_and_scatters_gradients_once(tmp_path: Path) -> None:
    if not has_trainer():
        pytest.skip("transformers, accelerate or datasets is not installed")
    (tmp_path / "train.py").write_text(SCRIPT)
    words: list[str | Path] = ["--world", str(WORLD), "--data", "fake", "--item", "1", "-o", tmp_path / "out", "--", tmp_path / "train.py"]
    with pytest.warns(InputWarning, match="data sets and tokenizers are synthetic"):
        done = capture(*words)
    assert done.exit_code == 0, (done.output, done.exception)
    (result,) = load_captures(str(tmp_path / "out"))
    calls = Counter((event["op"], event["bytes"]) for event in result.events if event["kind"] == "collective")
    shard = BLOCK * BF16 // WORLD
    assert calls["all_gather", shard] == 4
    assert calls["all_gather", (POSITIONS + 2 * WIDTH) // WORLD * BF16] + calls["all_gather", POSITIONS // WORLD * BF16] == 1
    assert calls["reduce_scatter", BLOCK * BF16] == 2
    assert calls["reduce_scatter", POSITIONS * BF16] + calls["reduce_scatter", (POSITIONS + 2 * WIDTH) * BF16] == 1
    assert sum(event["gemm"][0] == 2 * 64 for event in result.events if "gemm" in event) >= 2 * 4
