# %% [markdown]
# # GPT-3 175B on 1024 GPUs
#
# Tensor parallelism in each of 128 DGX H100, eight stages, 16 replicas. How long does an iteration take, what limits it,
# and does the network matter? [The page](../../docs/studies.md) has the same study on flows and packets.

# %%
import astra_sim

study = astra_sim.load_experiment("examples/studies/gpt3_1024_gpus.toml")
result = astra_sim.simulate(study)
print(f"{result.npus} GPUs: {result.finish_ns / 1e6:,.1f} ms, {result.tokens_per_s:,.0f} tokens/s, MFU {result.mfu:.1%}")
for part, seconds in result.breakdown.items():
    print(f"  {part:10} {1e3 * seconds:10.1f} ms")

# %%
assert f"{result.finish_ns / 1e6:,.1f}" == "2,651.5"

# %% [markdown]
# ## Slower NICs

# %%
by_nic = {}
for nic in (12.5, 25, 50, 100):
    by_nic[nic] = astra_sim.simulate(study, platform=f"plugin:dgx_h100?nodes=128&nic_gb_s={nic}").finish_ns
    print(f"{nic:6} GB/s: {by_nic[nic] / 1e6:,.1f} ms")

# %%
assert sorted(by_nic.values(), reverse=True) == list(by_nic.values())

# %% [markdown]
# ## Other parallelisms

# %%
for tensor, pipeline in ((8, 8), (8, 16), (4, 16)):
    found = astra_sim.simulate(study, set=[f"workload.tensor_parallel={tensor}", f"workload.pipeline_parallel={pipeline}"])
    print(f"tensor {tensor}, pipeline {pipeline}: {found.finish_ns / 1e6:,.1f} ms, {found.memory_bytes / 2**30:.1f} GiB")
