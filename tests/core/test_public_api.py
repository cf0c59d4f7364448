"""What plugins may import: public names for everybody, and provisional ones for packages that are released with the kernel."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import astra_sim
import pytest
from astra_sim import commands
from astra_sim.providers import FUNCTION_GROUP
from support import ROOT

KERNEL = ROOT / "core" / "src" / "astra_sim"
PLUGIN_FILES = sorted(path for folder in ("plugins", "examples/plugins") for path in (ROOT / folder).glob("*/src/**/*.py"))
EXAMPLES = sorted({*(ROOT / "examples").glob("*.py"), *(ROOT / "examples" / "plugins").rglob("*.py")})


def imports(tree: ast.Module) -> Iterator[tuple[str, str | None]]:
    """Each import of a module anywhere in a file, absolute: the module, and the name that is taken from it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (("." * node.level + (node.module or ""), alias.name) for alias in node.names)


def not_public(source: str, provisional: bool = False) -> list[str]:
    """What a source imports of the kernel that is not for plugins, or only for packages that are released with it (`provisional`)."""
    modules = {f"astra_sim.{module}" for module in (*astra_sim.PUBLIC_MODULES, *(astra_sim.PROVISIONAL_MODULES if provisional else ()))}
    result = []
    for module, name in imports(ast.parse(source)):
        if module.partition(".")[0] != "astra_sim" or f"{module}.{name}" in modules:
            continue
        allowed = module in ("astra_sim", *modules)
        if allowed and name is not None:
            any_name = provisional and module != "astra_sim"
            allowed = not name.startswith("_") if any_name else name in import_module(module).__all__
        if not allowed:
            result.append(module if name is None else f"{module}: {name}")
    return result


def modules_of(name: str) -> list[Path]:
    """The files of a public module, which may be a package."""
    path = KERNEL / name.replace(".", "/")
    return sorted(path.glob("*.py")) if path.is_dir() else [path.with_suffix(".py")]


def test_our_packages_import_public_and_provisional_modules_alone() -> None:
    for path in PLUGIN_FILES:
        assert not_public(path.read_text(), provisional=True) == [], path.relative_to(ROOT)


def test_examples_and_templates_import_public_names_alone() -> None:
    """But for an engine, whose whole contract is provisional."""
    templates = sorted((ROOT / "plugins/devkit/src/astra_sim_devkit/templates").rglob("*.py.txt"))
    paths = [*EXAMPLES, *templates]
    assert len(templates) > 20
    for path in paths:
        source = re.sub(r"@@{\w+}", "word", path.read_text())
        assert [each for each in not_public(source) if each != "astra_sim.engines: ReferenceEngine"] == [], path.relative_to(ROOT)


def test_few_names_are_public() -> None:
    names = {name for module in ("", *astra_sim.PUBLIC_MODULES) for name in import_module(f"astra_sim.{module}".rstrip(".")).__all__}
    assert 100 < len(names) <= 200
    assert not {*astra_sim.PUBLIC_MODULES} & {*astra_sim.PROVISIONAL_MODULES}


def test_all_packages_are_looked_at() -> None:
    packages = {path.parent.parent for folder in ("plugins", "examples/plugins") for path in (ROOT / folder).glob("*/src/*/__init__.py")}
    assert packages == {Path(*path.parts[: path.parts.index("src") + 1]) for path in PLUGIN_FILES}
    assert len(packages) > 10


@pytest.mark.parametrize(
    "line",
    [
        "from astra_sim.setup.plugins import shared_plugins",
        "from astra_sim.engine import Rule",
        "import astra_sim.report.tables",
        "from astra_sim import setup",
        "from astra_sim._boundary import call",
        "from astra_sim.providers import _distribution",
        "from astra_sim.rows import first_like",
        "from astra_sim.experiments import Grid",
        "from astra_sim import PUBLIC_MODULES",
        "def late():\n    from astra_sim.report.screen import Screen",
    ],
)
def test_an_import_of_what_is_inside_is_found(line: str) -> None:
    assert len(not_public(line)) == 1


@pytest.mark.parametrize(
    "line",
    [
        "import astra_sim",
        "from astra_sim import Provider, toml_text",
        "from astra_sim.system import Rule, BusOptions",
        "import astra_sim.units",
        "from astra_sim_chakra.trace import Trace",
    ],
)
def test_an_import_of_public_names_is_right(line: str) -> None:
    assert not_public(line) == []


def test_packages_released_with_the_kernel_may_import_more() -> None:
    line = "from astra_sim.{}"
    assert [not_public(line.format(each), True) for each in ("rows import first_like", "experiments import Grid")] == [[], []]
    assert len(not_public("from astra_sim.rows import _nothing", True)) == len(not_public("from astra_sim import setup", True)) == 1


def test_the_documentation_names_the_public_modules_and_no_others() -> None:
    page = (ROOT / "docs" / "plugins.md").read_text()
    section = page.partition("## What a plugin may import\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    assert [name for row in rows for name in re.findall(r"`astra_sim\.([\w.]+)`", row)] == list(astra_sim.PUBLIC_MODULES)


def test_what_the_documentation_imports_is_public() -> None:
    for block in re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "plugins.md").read_text(), re.DOTALL):
        assert not_public(block) == []


def test_the_group_of_named_functions_is_the_documented_one() -> None:
    for page in ("compute.md", "plugins.md"):
        assert FUNCTION_GROUP in re.findall(r"`(astra_sim\.\w+)`", (ROOT / "docs" / page).read_text())


def test_public_modules_exist_and_have_what_they_list() -> None:
    for name in astra_sim.PUBLIC_MODULES:
        module = import_module(f"astra_sim.{name}")
        assert module.__doc__, name
        for listed in getattr(module, "__all__", ()):
            assert getattr(module, listed) is not None, f"{name}.{listed}"


def test_public_modules_lie_below_commands_and_reports() -> None:
    """Importing all of them brings in neither: `commands` gets what it offers when it is used."""
    modules = [f"astra_sim.{name}" for name in astra_sim.PUBLIC_MODULES]
    code = f"import sys, {', '.join(modules)}; print(*(name for name in sys.modules if name.startswith('astra_sim.')))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert set(modules) <= set(loaded)
    assert [name for name in loaded if name.split(".")[1] in ("command", "report", "api")] == []


def test_public_modules_import_neither_commands_nor_reports() -> None:
    for path in (path for name in astra_sim.PUBLIC_MODULES for path in modules_of(name)):
        statements = ast.Module([node for node in ast.parse(path.read_text()).body if isinstance(node, ast.Import | ast.ImportFrom)], [])
        above = [module for module, _ in imports(statements) if re.match(r"astra_sim\.(command|report)\b", module)]
        assert above == [], path


def test_the_kernel_imports_no_plugin() -> None:
    kit = KERNEL / "testing"  # it forwards to the kit for authors of plugins, whose package may be absent
    for path in (path for path in KERNEL.rglob("*.py") if path.parent != kit):
        assert [module for module, _ in imports(ast.parse(path.read_text())) if module.startswith("astra_sim_")] == [], path


def test_commands_of_plugins_find_each_name_at_its_first_use() -> None:
    is_loaded = "print('astra_sim.report.screen' in sys.modules)"
    code = f"import sys; from astra_sim import commands; {is_loaded}; commands.Screen(); {is_loaded}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
    for name in commands.__all__:
        assert name == "SECTIONS" or getattr(commands, name).__module__.startswith("astra_sim.")
    with pytest.raises(AttributeError, match=r"module 'astra_sim\.commands' has no attribute 'nothing'"):
        _ = commands.nothing


def raisers(path: Path) -> Iterator[tuple[str, set[str], str]]:
    """The public functions, methods and classes of a file that raise errors of their own: the name, the errors, and the docstring."""
    for parent in ast.walk(ast.parse(path.read_text())):
        if not isinstance(parent, ast.Module | ast.ClassDef):
            continue
        for node in parent.body:
            if not isinstance(node, ast.FunctionDef) or (node.name.startswith("_") and not is_constructor(node.name)):
                continue
            described = parent if is_constructor(node.name) else node
            result = [error.func for error in map(raised, ast.walk(node)) if isinstance(error, ast.Call)]
            errors = {"InputError" if error.id == "located" else error.id for error in result if isinstance(error, ast.Name)}
            if errors and not getattr(parent, "name", "").startswith("_"):
                yield f"{path.stem}.{getattr(parent, 'name', '')}.{node.name}", errors, ast.get_docstring(described) or ""


def is_constructor(name: str) -> bool:
    return name in ("__init__", "__attrs_post_init__")


def raised(node: ast.AST) -> ast.expr | None:
    return node.exc if isinstance(node, ast.Raise) else None


def test_what_raises_an_error_says_so() -> None:
    names = [name for name in astra_sim.PUBLIC_MODULES if not name.startswith("testing")]
    missing = [
        (name, where, errors)
        for name in names
        for path in modules_of(name)
        for where, errors, words in raisers(path)
        if not all(error in words for error in errors)
    ]
    assert missing == []
