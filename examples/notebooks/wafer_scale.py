# %% [markdown]
# # Wafer-scale against conventional platforms
#
# An all-reduce of 1 GB among 512 NPUs: on one dimension, as on a wafer, and on several, whose NPUs have the same
# bandwidth in all. `examples/themis.py` is the whole study, with its source.

# %%
import sys

sys.path.insert(0, "examples")
from themis import ORDERS, PLATFORMS, RIVALS, broken_claims, finish_us, with_themis

# %%
times = {platform: {order: finish_us(platform, order) for order in ORDERS} for platform in PLATFORMS}
for platform, found in times.items():
    print(f"{platform:24}" + "".join(f"{order} {time:8.1f} us  " for order, time in found.items()))

# %% [markdown]
# In ascending order the dimensions of a conventional platform wait for each other. Themis gives each chunk the
# dimension that has least to do.

# %%
for wafer, rival in RIVALS.items():
    ascending = times[rival]["ascending"] / times[wafer]["ascending"]
    themis = with_themis(times[rival]) / with_themis(times[wafer])
    print(f"{rival:24} takes {ascending:.2f} times as long as {wafer}, with Themis {themis:.2f} times")

# %%
assert list(broken_claims(times)) == []
