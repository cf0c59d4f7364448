"""A table of results as a sweep would write it, results.csv; its figures are made up."""

from pathlib import Path

rows = ["bandwidth,chunks,algorithm,finish_ns,exposed_comm_ns,cost_usd,mfu"]
for bandwidth in (25, 50, 100):
    for algorithm, factor in (("ring", 1.0), ("direct", 1.2)):
        for chunks in (4, 16):
            time = factor * 1e9 / bandwidth
            rows.append(f"{bandwidth},{chunks},{algorithm},{time},{time / chunks},{bandwidth * 100},{0.3 + bandwidth / 1000 / factor:.4f}")
Path("results.csv").write_text("\n".join([*rows, ""]))
