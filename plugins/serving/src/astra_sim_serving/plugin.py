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
        Provider("sjf", "The same, the shortest waiting prompt first", f"{here}:ShortestFirst", pure=True),
    ]
