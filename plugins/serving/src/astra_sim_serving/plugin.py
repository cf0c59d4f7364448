"""Hooks."""

from __future__ import annotations

from astra_sim import Provider, hookimpl


@hookimpl
def astra_commands() -> list[Provider]:
    summary = "Simulate a server of a language model, request by request."
    return [Provider("serve", summary, "astra_sim_serving.command:serve_command")]


@hookimpl
def astra_serving_policies() -> list[Provider]:
    here = "astra_sim_serving.presets"
    return [
        Provider("vllm-v0", "Whole prompts first, never beside decoding: vLLM before V1", f"{here}:PrefillFirst", pure=True),
        Provider("sarathi", "One chunk of a prompt beside all that decodes", f"{here}:Sarathi", pure=True),
        Provider(
            "sjf",
            "The same, the shortest waiting request first",
            f"{here}:ShortestFirst",
            f"{here}:ShortestFirstOptions",
            examples=[{}, {"by": "output", "aging_tokens_per_s": 10}],
            pure=True,
        ),
        Provider(
            "edf",
            "The same, the earliest deadline first",
            f"{here}:EarliestDeadlineFirst",
            f"{here}:DeadlineOptions",
            examples=[{}, {"ttft_ms": 100, "us_per_token": 50}],
            pure=True,
        ),
        Provider("orca", "Memory for the longest answers is reserved, whole prompts beside decoding", f"{here}:Orca", pure=True),
        Provider(
            "trtllm",
            "TensorRT-LLM: admission by capacity, whole prompts beside decoding",
            f"{here}:Trtllm",
            f"{here}:TrtllmOptions",
            examples=[{}, {"capacity": "max-utilization", "chunked_context": True}],
            pure=True,
        ),
        Provider(
            "sglang",
            "SGLang: prompts first, while memory is expected to last",
            f"{here}:Sglang",
            f"{here}:SglangOptions",
            examples=[{}, {"schedule": "fcfs"}],
        ),
    ]
