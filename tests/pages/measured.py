"""Tables as a user would have measured them: gemms.csv, attention.csv and all_reduce.txt, as nccl-tests prints it. All are made up."""

from pathlib import Path

gemms = [f"{1 << m},4096,4096,{5 + (1 << m) * 4096 * 4096 * 2 / 5e8:.3f}" for m in range(2, 14)]
Path("gemms.csv").write_text("\n".join(["m,n,k,microseconds", *gemms, ""]))
attention = [f"16,{1 << n},{1 << n},128,{5 + (1 << 2 * n) * 128 * 16 * 4 / 3e8:.3f}" for n in range(4, 16)]
Path("attention.csv").write_text("\n".join(["heads,query_length,key_length,head_size,microseconds", *attention, ""]))
lines = [
    "# Collective test starting: all_reduce_perf",
    *(f"#  Rank  {rank} Group  0 Pid  21 on node device  {rank} [0x07] NVIDIA H100 80GB HBM3" for rank in range(8)),
    "#       size         count      type   redop    root     time   algbw   busbw #wrong",
]
for exponent in range(10, 31):
    size = 1 << exponent
    time = 20 + size / 270e3
    speed = size / time / 1e3
    lines.append(f"{size} {size // 4} float sum -1 {time:.2f} {speed:.2f} {speed * 1.75:.2f} 0")
Path("all_reduce.txt").write_text("\n".join([*lines, ""]))
