"""The version of the kernel, as its pyproject.toml has it: reading the metadata of packages takes longer than a short run."""

VERSION = "0.2.0.dev0"
