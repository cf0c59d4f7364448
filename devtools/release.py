"""What a release writes into the checkout: the version and the address of the project, in every place that says them."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

from devtools.workspace import KERNEL, ROOT, Failure, bundle, members, separate, toml_of

VERSION = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?")
FINAL = re.compile(r"\d+\.\d+\.\d+(\.post\d+)?")
ADDRESS = re.compile(r"https://[\w.-]+(/[\w.~-]+)+")
KERNEL_VERSION = Path("core", "src", "astra_sim", "_version.py")
CITATION = Path("CITATION.cff")
CHANGELOG = Path("CHANGELOG.md")
EXAMPLE = Path("examples", "plugins", "bus_network", "pyproject.toml")
"""A package as `astra plugins new` writes it for the kernel of this version."""
UNRELEASED = "## Unreleased\n"
LINKS = {"Homepage": "", "Source": "", "Issues": "/issues", "Changelog": "/blob/main/CHANGELOG.md"}
"""What `project.urls` of a package names, and where it is below the address."""


def version(root: Path = ROOT) -> str:
    """The version of all packages, as the workspace's pyproject.toml has it."""
    result: str = toml_of(root)["tool"]["astra"]["version"]
    return result


def distributions(root: Path = ROOT) -> list[Path]:
    """The folders of everything that is released: members, packages apart, and the bundle."""
    return [*members(root), *separate(root), bundle(root)]


def write_version(new: str, root: Path = ROOT) -> list[Path]:
    """Write a version into the workspace and all its packages, with what they ask of each other, and into CITATION.cff. Returns the files.

    Every package has the version in its own pyproject.toml, so that it can be built alone, and out of a source distribution. A plugin asks
    for a kernel of the same series (X.Y) that is not older; the bundle asks for this version of all. A final version also closes the
    section "Unreleased" of CHANGELOG.md. Raises Failure, and then nothing is written.
    """
    if not VERSION.fullmatch(new):
        raise Failure(f"dev.py: {new!r} is no version; expected three numbers, such as 1.2.0, 1.2.0rc1 or 1.2.0.dev0", 2)
    is_final = FINAL.fullmatch(new) is not None
    texts = {folder / "pyproject.toml": _with_version(folder, new) for folder in (root, *distributions(root))}
    major, minor = new.split(".")[:2]
    first = f"{major}.{minor}" if is_final else f"{major}.{minor}.0.dev0"
    series = f'"{KERNEL}>={first},<{major}.{int(minor) + 2}"'
    texts[root / EXAMPLE] = re.sub(rf'"{KERNEL}[^"]*"', series, (root / EXAMPLE).read_text())
    texts[root / KERNEL_VERSION] = re.sub(r"^VERSION = .*$", f'VERSION = "{new}"', (root / KERNEL_VERSION).read_text(), flags=re.MULTILINE)
    texts[root / CITATION] = _citation((root / CITATION).read_text(), new, is_final)
    if is_final:
        texts[root / CHANGELOG] = _closed((root / CHANGELOG).read_text(), new)
    for path, text in texts.items():
        path.write_text(text)
    return list(texts)


def _with_version(folder: Path, new: str) -> str:
    """The pyproject.toml of a folder, of a new version."""
    text = re.sub(r'^version = "[^"]*"$', f'version = "{new}"', (folder / "pyproject.toml").read_text(), flags=re.MULTILINE)
    text = re.sub(rf'"{KERNEL}~=[^"]*"', f'"{KERNEL}~={new}"', text)
    return re.sub(r'"(astra-sim(?:-[\w-]+)?(?:\[[\w,-]+\])?)==[^";]*', rf'"\1=={new}', text)


def _citation(text: str, new: str, is_final: bool) -> str:
    """CITATION.cff of a new version; only a final one has a date."""
    text = re.sub(r"^date-released: .*\n", "", text, flags=re.MULTILINE)
    date = f"date-released: {_today()}\n" if is_final else ""
    return re.sub(r"^version: .*\n", f"version: {new}\n{date}", text, flags=re.MULTILINE)


def _closed(text: str, new: str) -> str:
    """CHANGELOG.md in which what was unreleased is that version. Raises Failure if it has that version, or nothing is unreleased."""
    if f"\n## {new} " in text:
        raise Failure(f"dev.py: {CHANGELOG} has a version {new} already; expected another one", 2)
    before, _, after = text.partition(UNRELEASED)
    if not re.search(r"^- ", after.partition("\n## ")[0], re.MULTILINE):
        raise Failure(f"dev.py: {CHANGELOG} has nothing below {UNRELEASED.strip()!r}; expected what version {new} changes", 2)
    return f"{before}{UNRELEASED}\n## {new} - {_today()}\n{after}"


def releasable(tag: str, root: Path = ROOT) -> str:
    """What CHANGELOG.md says of the version that a tag names. Raises Failure, which lists all for which it cannot be released."""
    current = version(root)
    problems = []
    if tag != f"v{current}":
        problems.append(f"the tag is {tag}, and the version {current}; expected v{current}")
    if ".dev" in current:
        problems.append(f"{current} is a version in development; python3 dev.py version NEW writes another one")
    if address(root) is None:
        problems.append("the project has no address; python3 dev.py address URL writes one into all packages")
    problems += [
        f"{(folder / 'pyproject.toml').relative_to(root)} has version {match}; expected {current}"
        for folder in distributions(root)
        if (match := toml_of(folder)["project"]["version"]) != current
    ]
    if f"\nversion: {current}\n" not in (root / CITATION).read_text():
        problems.append(f"{CITATION} has another version; expected {current}")
    heading = rf"^## {re.escape(current)} - .*\n" if FINAL.fullmatch(current) else f"^{UNRELEASED}"
    match = re.search(rf"{heading}((?:(?!## ).*\n)*)", (root / CHANGELOG).read_text(), re.MULTILINE)
    notes = match[1].strip() if match else ""
    if not notes:
        problems.append(f"{CHANGELOG} says nothing of {current}")
    if problems:
        raise Failure("\n".join(f"dev.py: {problem}" for problem in problems))
    return notes


def _today() -> str:
    return datetime.datetime.now(tz=datetime.UTC).date().isoformat()


# -- The address of the project ----------------------------------------------------------------------------------------


def address(root: Path = ROOT) -> str | None:
    """The address of the project, as the workspace's pyproject.toml has it; None where it has no public place."""
    value: str | None = toml_of(root)["tool"]["astra"].get("address")
    return value


def write_address(new: str, root: Path = ROOT) -> list[Path]:
    """Write the address of the project into the workspace, the `project.urls` of all packages, and CITATION.cff. Returns the files.

    Raises Failure.
    """
    if not ADDRESS.fullmatch(new):
        raise Failure(f"dev.py: {new!r} is no address; expected that of the repository, https://HOST/PATH without a / at its end", 2)
    workspace = root / "pyproject.toml"
    text = re.sub(r"^address = .*\n", "", workspace.read_text(), flags=re.MULTILINE)
    texts = {workspace: re.sub(r"^(\[tool\.astra\]\nversion = .*\n)", rf'\1address = "{new}"\n', text, flags=re.MULTILINE)}
    for folder in distributions(root):
        path = folder / "pyproject.toml"
        texts[path] = _with_links(path.read_text(), new)
    citation = re.sub(r"^repository-code: .*\n", "", (root / CITATION).read_text(), flags=re.MULTILINE)
    texts[root / CITATION] = re.sub(r"^(version: .*\n)", rf"repository-code: {new}\n\1", citation, flags=re.MULTILINE)
    for path, text in texts.items():
        path.write_text(text)
    return list(texts)


def _with_links(text: str, new: str) -> str:
    """A pyproject.toml with these `project.urls`, behind the other fields of the project."""
    text = re.sub(r"^\[project\.urls\]\n(?:.+\n)*\n", "", text, flags=re.MULTILINE)
    before, project, after = text.partition("[project]\n")
    fields, bracket, rest = after.partition("\n[")
    table = "\n[project.urls]\n" + "".join(f'{name} = "{new}{path}"\n' for name, path in LINKS.items())
    return before + project + fields + table + bracket + rest
