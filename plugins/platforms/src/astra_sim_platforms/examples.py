"""Files with which `astra plugins check` tries these components."""

from __future__ import annotations

from pathlib import Path


def graph(folder: Path) -> list[dict[str, str]]:
    """Four NPUs around a switch, two of which have a link of their own."""
    lines = ["source,target,bandwidth_gb_per_s,latency_ns", *(f"{npu},switch,50,500" for npu in range(4)), "0,1,100,250"]
    path = folder / "star.csv"
    path.write_text("\n".join(lines) + "\n")
    return [{"file": str(path)}]


def nccl_topology(folder: Path) -> list[dict[str, object]]:
    """Two GPUs with an NVLink between them, behind one CPU, and a NIC; alone, and two such nodes."""
    pci = '<pci busid="{}" class="{}" link_speed="16 GT/s" link_width="16">{}</pci>'
    gpus = [
        pci.format(bus, "0x030200", f'<gpu dev="{dev}" sm="80"><nvlink target="{peer}" count="4" tclass="0x030200"/></gpu>')
        for dev, (bus, peer) in enumerate((("a", "b"), ("b", "a")))
    ]
    nic = pci.format("c", "0x020700", '<nic><net name="mlx5_0" dev="0" speed="200000" port="1"/></nic>')
    path = folder / "nccl.xml"
    path.write_text(f'<system version="1"><cpu numaid="0">{"".join(gpus)}{nic}</cpu></system>\n')
    return [{"file": str(path)}, {"file": str(path), "nodes": 2}]


def infragraph(folder: Path) -> list[dict[str, object]]:
    """Two hosts of two NPUs, each with a NIC, at a switch; and the same without a bandwidth of their links inside."""
    path = folder / "infragraph.yaml"
    path.write_text(
        """\
name: two hosts
devices:
- name: host
  components:
  - {name: xpu, count: 2, choice: xpu}
  - {name: nic, count: 2, choice: nic}
  links: [{name: pcie}]
  edges: [{ep1: {component: xpu}, ep2: {component: nic}, scheme: one2one, link: pcie}]
- name: switch
  components: [{name: asic, count: 1, choice: switch}]
instances:
- {name: host, device: host, count: 2}
- {name: leaf, device: switch, count: 1}
links:
- name: eth
  physical:
    bandwidth: {choice: gigabits_per_second, gigabits_per_second: 400}
    latency: {choice: ns, ns: 500}
edges:
- {ep1: {instance: host, component: nic}, ep2: {instance: leaf, component: asic}, scheme: many2many, link: eth}
"""
    )
    return [{"file": str(path), "bandwidth_gb_per_s": 64}]


def htsim_topology(folder: Path) -> list[dict[str, object]]:
    """Eight NPUs in two pods, three tiers, a core switch with two links to each switch below."""
    tiers = ("speed 200 down 2 up 2", "speed 200 down 2 up 4", "speed 100 down 4 bundle 2")
    names = {"speed": "Downlink_speed_Gbps", "down": "Radix_Down", "up": "Radix_Up", "bundle": "Bundle"}
    lines = ["Nodes 8", "Tiers 3", "Podsize 4"]
    for number, tier in enumerate(tiers):
        words = tier.split()
        lines += [f"Tier {number}", "Downlink_Latency_ns 1000"]
        lines += [f"{names[key]} {value}" for key, value in zip(words[::2], words[1::2], strict=True)]
    path = folder / "tree.topo"
    path.write_text("\n".join(lines) + "\n")
    return [{"file": str(path)}]
