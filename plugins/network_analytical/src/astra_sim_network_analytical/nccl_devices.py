"""The devices whose NCCL this package has parameters of: the names of its files, without their content."""

from __future__ import annotations

import os

_FOLDER = os.path.join(os.path.dirname(__file__), "nccl")
_SUFFIX = ".toml"


def device_tables() -> list[str]:
    """Devices and versions of NCCL that have a file in this package, as DEVICE-VERSION; of each device the newest version last."""
    names = [name.removesuffix(_SUFFIX) for name in os.listdir(_FOLDER) if name.endswith(_SUFFIX)]
    return sorted(names, key=lambda name: (device_of(name), [int(part) for part in name.partition("-")[2].split(".")]))


def device_names() -> list[str]:
    """Devices that have a file in this package."""
    return sorted({device_of(name) for name in device_tables()})


def device_of(table: str) -> str:
    """The device of DEVICE-VERSION."""
    return table.partition("-")[0]


def device_file(table: str) -> str:
    """The path of the file of DEVICE-VERSION."""
    return os.path.join(_FOLDER, f"{table}{_SUFFIX}")
