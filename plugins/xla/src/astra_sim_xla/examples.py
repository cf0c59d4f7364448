"""Examples of the workload, for tests of components."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_MODULE = """HloModule example, num_partitions={npus}

%add (a: f32[], b: f32[]) -> f32[] {{
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %sum = f32[] add(%a, %b)
}}

ENTRY %main (x: f32[64,64]) -> f32[64,64] {{
  %x = f32[64,64] parameter(0)
  %dot = f32[64,64] dot(%x, %x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  ROOT %all = f32[64,64] all-reduce(%dot), channel_id=1, replica_groups=[1,{npus}]<=[{npus}], use_global_device_ids=true, to_apply=%add
}}
"""


def workload(folder: Path) -> list[dict[str, Any]]:
    """A product and an all-reduce, for eight devices."""
    path = folder / "example.txt"
    path.write_text(_MODULE.format(npus=8))
    return [{"path": str(path)}]
