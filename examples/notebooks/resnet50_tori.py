# %% [markdown]
# # The exercises of ASTRA-sim's tutorial of 2022
#
# ResNet-50, data parallel, on three-dimensional tori: what do more NPUs expose, and what do faster ones? The studies are
# those of `examples/tutorial_2022.py`, which also draws them.

# %%
import subprocess

import astra_sim

COMPUTE = "plugin:systolic?array_rows=256&array_cols=256&dataflow=ws&clock_ghz=1"
command = "astra generate --model resnet50 --parallel DATA --npus 1 --batch-per-npu 1 --output resnet50.toml"
subprocess.run([*command.split(), "--compute", COMPUTE], check=True)

# %% [markdown]
# A torus has two links to each ring, of 32, 16 and 16 * 2^30 bytes/s and 10, 100 and 100 ns. A message uses both, as in ASTRA-sim 1.0.


# %%
def run(sizes: tuple[int, ...], speed: float = 1) -> astra_sim.Result:
    """Two iterations on a torus."""
    links = zip(sizes, (32, 16, 16), (10, 100, 100), strict=True)
    dimensions = [
        {"topology": "ring", "size": size, "links": 2, "both_ways": True, "link_bandwidth_gib_per_s": bandwidth, "link_latency_ns": latency}
        for size, bandwidth, latency in links
    ]
    return astra_sim.simulate(
        workload="resnet50.toml",
        system="examples/systems/ring.toml",
        platform={"dimensions": dimensions},
        compute=COMPUTE,
        compute_scale=1 / speed,
        passes=2,
    )


# %% [markdown]
# ## Exercise 1: scaling
# One image for each NPU. Computing stays the same; what is exposed depends on the torus.

# %%
scaling = {sizes: run(sizes) for sizes in ((2, 2, 2), (2, 2, 4), (2, 4, 4), (4, 4, 4), (4, 4, 8))}
for sizes, result in scaling.items():
    print(f"{result.npus:4} NPUs {sizes}: {result.finish_ns / 1e3:9.3f} us, exposed {result.exposed_comm_ns / result.finish_ns:.1%}")

# %%
assert len({result.compute_ns for result in scaling.values()}) == 1

# %% [markdown]
# ## Exercise 2: faster compute
# What computing no longer hides becomes exposed.

# %%
faster = {speed: run((2, 4, 4), speed) for speed in (1, 2, 4, 8)}
for speed, result in faster.items():
    print(f"{speed} times as fast: {result.finish_ns / 1e3:9.3f} us, exposed {result.exposed_comm_ns / result.finish_ns:.1%}")

# %%
shares = [result.exposed_comm_ns / result.finish_ns for result in faster.values()]
assert shares == sorted(shares)
assert faster[1].finish_ns == scaling[2, 4, 4].finish_ns
