"""What the documentation site has beyond docs/: a hook module of MkDocs, named in mkdocs.yml.

Made when the site is built: a page for each kind of component, with the options that `astra plugins show` prints; a page of all commands
with their help; a page for each public module; pages of Markdown files outside of docs/; and the files and folders outside of docs/ to
which pages link.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
from astra_sim import PUBLIC_MODULES
from astra_sim.command import cli
from astra_sim.commands import shared_plugins
from astra_sim.options import describe_options
from astra_sim.providers import Provider

ROOT = Path(__file__).resolve().parents[1]
OUTSIDE = {
    "README.md": "index.md",
    "validation/PROCEDURE.md": "validation-procedure.md",
    "validation/LOG.md": "validation-log.md",
    "validation/COLLECTIVES.md": "validation-collectives.md",
    "validation/KERNELS.md": "validation-kernels.md",
    "validation/SCALE.md": "validation-scale.md",
    "validation/STRAGGLERS.md": "validation-stragglers.md",
    "validation/serving.md": "validation-serving.md",
    "validation/RESULTS.md": "validation-tables.md",
    "benchmarks/RESULTS.md": "measurements.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "devtools/LIBRARIES.md": "libraries.md",
    "examples/README.md": "examples.md",
}
OUTSIDE.update(
    (path.relative_to(ROOT).as_posix(), f"details/{path.parent.name.replace('_', '-')}-{path.stem.lower()}.md")
    for path in sorted(ROOT.glob("plugins/*/[A-Z]*.md"))
    if path.name != "README.md"
)
"""Markdown files outside of docs/, and their pages; details of packages are in a folder."""
KINDS = {
    "workload": ("Workloads", "--workload"),
    "training_loop": ("Training loops", None),
    "system": ("System layers", "--system"),
    "collective": ("Collective algorithms", None),
    "scheduler": ("Orders of queues and dimensions", None),
    "platform": ("Platforms", "--platform"),
    "network": ("Networks", "--network"),
    "compute": ("Compute models", "--compute"),
    "memory": ("Memory models", "--memory"),
    "engine": ("Engines", "--engine"),
    "report": ("Reports", "--report"),
    "explainer": ("Explanations", "--explain"),
    "model": ("Descriptions of language models", None),
    "serving_policy": ("Policies of serving instances", None),
    "variation": ("How computing varies", None),
    "placement": ("Placements of jobs", None),
    "account": ("What runs cost", None),
    "format": ("Formats", None),
}
"""Kinds of components: the title of their page, and the option of `astra` that names one."""

LINK = re.compile(r"(?P<open>!?\[(?:[^][`]|`[^`]*`|\[[^]]*\])*\]\()(?P<target>[^()\s]+)(?P<close>\))")
FENCED = re.compile(r"(^ *```.*?^ *```[^\S\n]*$)", re.MULTILINE | re.DOTALL)
LANGUAGES = {
    ".py": "python",
    ".toml": "toml",
    ".cpp": "cpp",
    ".h": "cpp",
    ".md": "markdown",
    ".csv": "text",
    ".txt": "text",
    ".json": "json",
}


def options_page(kind: str) -> str:
    """The page of all components of a kind, each with a table of its options."""
    plugins = shared_plugins()
    title, option = KINDS[kind]
    lines = [f"# {title}", "", "What is installed with astra. `astra plugins show NAME` prints the same.", ""]
    for name, component in plugins.components(kind).items():
        lines += [f"## {name}", "", f"{_escaped(component.summary)}. Plugin `{plugins.owner(kind, name)}`.", ""]
        if option is not None:
            lines += [f"`{option} {name if kind == 'engine' else f'plugin:{name}'}`", ""]
        options = describe_options(component.load_options()) if isinstance(component, Provider) else []
        if not options:
            lines += ["No options.", ""]
            continue
        lines += ["| option | type | default | unit | what it is |", "|---|---|---|---|---|"]
        for each in options:
            cells = (f"`{each.name}`", _escaped(each.type), _escaped(str(each.default)), _escaped(each.unit or "-"), _escaped(each.help))
            lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines)


def command_page() -> str:
    """The page of all commands, each with its help."""
    lines = ["# Commands", "", "`astra COMMAND --help` prints the same.", ""]
    for name, command in _commands(cli.astra, "astra"):
        context = click.Context(command, info_name=name, max_content_width=100, terminal_width=100)
        lines += [f"## {name}", "", "````text", command.get_help(context), "````", ""]
    return "\n".join(lines)


def _commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """All commands below one, by their names; groups are not among them."""
    if not isinstance(command, click.Group):
        yield name, command
        return
    context = click.Context(command)
    for each in command.list_commands(context):
        if (found := command.get_command(context, each)) is not None:
            yield from _commands(found, f"{name} {each}")


def module_page(module: str) -> str:
    """The page of a public module; mkdocstrings fills it."""
    return f"# astra_sim.{module}\n\n::: astra_sim.{module}\n"


def package_page() -> str:
    """The page of the names that the package itself has, with what they inherit: a `Result` has the figures of `RunFigures`."""
    return "# astra_sim\n\n::: astra_sim\n    options:\n      inherited_members: true\n"


def folder_page(folder: Path) -> str:
    """A page that shows all files of a folder."""
    lines = [f"# {folder.relative_to(ROOT)}", ""]
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not any(part.startswith((".", "__", "build")) or part.endswith(".egg-info") for part in path.parts):
            language = LANGUAGES.get(path.suffix, "cmake" if path.name == "CMakeLists.txt" else "text")
            lines += [f"## {path.relative_to(folder)}", "", f"````{language}", path.read_text().rstrip("\n"), "````", ""]
    return "\n".join(lines)


def links(text: str) -> Iterator[str]:
    """The targets of the links of a page, but for those in fenced blocks."""
    for part in FENCED.split(text):
        if not part.lstrip().startswith("```"):
            yield from (match["target"] for match in LINK.finditer(part))


def outside(target: str, source: str) -> str | None:
    """The path in the checkout to which a link of a file leads, if that is no page and no file of docs/.

    `target` is the link, `source` the path of the file with the link, relative to the checkout.
    """
    parts = urlsplit(target)
    if parts.scheme or parts.netloc or not parts.path:
        return None
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), parts.path))
    return None if path.startswith("docs/") else path


def page_of(path: str) -> str:
    """Where the site has a file or folder of the checkout; a folder as a page of its files."""
    if path in OUTSIDE:
        return OUTSIDE[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"files/{path}.md" if (ROOT / path).is_dir() else f"files/{path}"


def rewritten(text: str, source: str, page: str) -> str:
    """The text of a Markdown file as a page of the site: its links lead to where the site has their targets."""

    def link(match: re.Match[str]) -> str:
        target = match["target"]
        parts = urlsplit(target)
        if parts.scheme or parts.netloc or not parts.path:
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), parts.path))
        there = posixpath.relpath(page_of(path), posixpath.dirname(page) or ".")
        return f"{match['open']}{there}{'#' + parts.fragment if parts.fragment else ''}{match['close']}"

    return "".join(part if part.lstrip().startswith("```") else LINK.sub(link, part) for part in FENCED.split(text))


def _escaped(text: str) -> str:
    return re.sub(r"([|*_<>\[\]`{}])", r"\\\1", text)


def _generated() -> dict[str, str]:
    """Pages that are made of what is installed: their path in the site, and their text."""
    pages = {f"options/{kind}.md": options_page(kind) for kind in KINDS if shared_plugins().components(kind)}
    pages["options/command.md"] = command_page()
    pages["api/astra_sim.md"] = package_page()
    pages.update({f"api/{module}.md": module_page(module) for module in PUBLIC_MODULES})
    return pages


# -- Hooks of MkDocs ---------------------------------------------------------------------------------------------------


def on_config(config: Any) -> Any:
    """Put the pages of a pattern into the navigation."""
    pages = [*(path.name for path in sorted((ROOT / "docs").glob("*.md"))), *_generated(), *OUTSIDE.values()]

    def expanded(entries: list[Any]) -> list[Any]:
        result: list[Any] = []
        for entry in entries:
            title, value = next(iter(entry.items())) if isinstance(entry, dict) else (None, entry)
            if isinstance(value, list):
                result.append({title: expanded(value)})
            elif "*" in value:
                results = [page for page in pages if fnmatch(page, value)]
                result += results if title is None else [{title: results}]
            else:
                result.append(entry)
        return result

    config.nav = expanded(config.nav)
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages and files that are not in docs/."""
    from mkdocs.structure.files import File, InclusionLevel

    texts = {f"docs/{path.name}": path.read_text() for path in sorted((ROOT / "docs").glob("*.md"))}
    for source, page in OUTSIDE.items():
        texts[source] = (ROOT / source).read_text()
        files.append(File.generated(config, page, content=rewritten(texts[source], source, page)))
    for page, text in _generated().items():
        files.append(File.generated(config, page, content=text))
    targets = {path for source, text in texts.items() for target in links(text) if (path := outside(target, source)) is not None}
    for path in sorted(targets - set(OUTSIDE)):
        if (ROOT / path).is_dir():
            file = File.generated(config, page_of(path), content=folder_page(ROOT / path))
            file.inclusion = InclusionLevel.NOT_IN_NAV
            files.append(file)
        elif (ROOT / path).is_file():
            files.append(File.generated(config, page_of(path), abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Lead links of docs/ that go out of it to where the site has their targets."""
    path = page.file.src_uri
    return rewritten(markdown, f"docs/{path}", path) if (ROOT / "docs" / path).is_file() else markdown


_CELL = re.compile(r"<td(?P<attributes>(?: style=[^>]*)?)>(?P<html>.*?)</td>", re.DOTALL)
_LONG = 60
"""Characters of a cell from which on it is one of much text."""


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    """Give cells of much text a class, for which stylesheets/site.css keeps some width: on narrow screens tables scroll instead."""

    def marked(cell: re.Match[str]) -> str:
        text = re.sub(r"<[^>]*>|&\w+;", "", cell["html"])
        return f'<td class="long"{cell["attributes"]}>{cell["html"]}</td>' if len(text) > _LONG else cell[0]

    return _CELL.sub(marked, html)
