"""What runs elsewhere (workflows, the container, nightly parts) names what exists here, and keeps to its schema."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from support import ROOT

from devtools import release, workspace

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
JOBS: list[tuple[str, str, dict[str, Any]]] = [
    (path.stem, name, job) for path in WORKFLOWS for name, job in yaml.safe_load(path.read_text())["jobs"].items()
]
IDS = [f"{workflow}-{name}" for workflow, name, _ in JOBS]
COMMANDS = runpy.run_path(str(ROOT / "dev.py"))["COMMANDS"]
CONTAINERFILE = (ROOT / "Containerfile").read_text()


def schema_errors(schema: str, *paths: Path) -> str:
    """What a published schema says against files; nothing where they keep to it."""
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *map(str, paths)],
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


def scripts(job: dict[str, Any]) -> list[str]:
    """The shell scripts of a job."""
    return [step["run"] for step in job.get("steps", []) if "run" in step]


# -- Workflows ---------------------------------------------------------------------------------------------------------


def test_workflows_keep_to_their_schema(tmp_path: Path) -> None:
    assert len(WORKFLOWS) >= 4
    assert schema_errors("vendor.github-workflows", *WORKFLOWS) == ""
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(WORKFLOWS[0].read_text().replace("runs-on:", "run-on:"))
    assert "run-on" in schema_errors("vendor.github-workflows", wrong)


@pytest.mark.parametrize(("workflow", "name", "job"), JOBS, ids=IDS)
def test_a_job_runs_what_exists(workflow: str, name: str, job: dict[str, Any]) -> None:
    for script in scripts(job):
        subprocess.run(["bash", "-n"], input=re.sub(r"\$\{\{.*?\}\}", "x", script), text=True, check=True)
        assert set(re.findall(r"python3 dev\.py (\w+)", script)) <= set(COMMANDS)
        assert all((ROOT / path).is_file() for path in re.findall(r"bash (\S+)|--file (\S+)", script) for path in path if path)
    if "uses" in job:
        assert (ROOT / job["uses"]).is_file()


@pytest.mark.parametrize(("workflow", "name", "job"), JOBS, ids=IDS)
def test_expressions_name_what_is_there(workflow: str, name: str, job: dict[str, Any]) -> None:
    jobs = {other for place, other, _ in JOBS if place == workflow}
    needs = job.get("needs", [])
    assert set([needs] if isinstance(needs, str) else needs) <= jobs
    matrix = job.get("strategy", {}).get("matrix", {})
    keys = set(matrix) - {"include"} | {key for row in matrix.get("include", []) for key in row}
    steps = {step["id"] for step in job.get("steps", []) if "id" in step}
    text = yaml.safe_dump({**job, "strategy": {}})
    for expression in re.findall(r"\$\{\{(.*?)\}\}", text):
        for context, key in re.findall(r"\b(matrix|steps|needs|github|runner|env|secrets|inputs)\.([\w-]+)", expression):
            known = {"matrix": keys, "steps": steps, "needs": jobs, "github": {"ref", "token", "workspace"}, "runner": {"os"}}
            assert key in known.get(context, set()), expression


@pytest.mark.parametrize(("workflow", "name", "job"), JOBS, ids=IDS)
def test_a_job_ends_and_may_do_no_more_than_it_has_to(workflow: str, name: str, job: dict[str, Any]) -> None:
    """Text of others (names of branches and tags) reaches scripts in variables alone, and only one job may publish."""
    assert "uses" in job or job["timeout-minutes"] <= 240
    allowed = {("release", "publish"): {"id-token": "write"}, ("release", "notes"): {"contents": "write"}}
    assert job.get("permissions") == allowed.get((workflow, name))
    for step in job.get("steps", []):
        assert "${{" not in step.get("run", "")
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False
    for path in WORKFLOWS:
        assert yaml.safe_load(path.read_text())["permissions"] == {"contents": "read"}


def test_all_compiled_packages_have_wheels_on_every_machine_but_windows() -> None:
    compiled = [member.name for member in workspace.members() if workspace.is_compiled(member)]
    (job,) = [job for workflow, name, job in JOBS if (workflow, name) == ("wheels", "compiled")]
    rows = {row["os"].split("-")[0]: row["packages"].split() for row in job["strategy"]["matrix"]["include"]}
    assert set(rows) == {"ubuntu", "macos", "windows"}
    for system, packages in rows.items():
        assert packages == (compiled if system != "windows" else [name for name in compiled if name in packages])
    assert "core" not in compiled
    (script,) = [step["run"] for step in job["steps"] if "cibuildwheel" in step.get("run", "")]
    assert script.index("build --wheel --outdir wheelhouse core") < script.index("cibuildwheel")


# -- CITATION.cff ------------------------------------------------------------------------------------------------------


def test_the_citation_keeps_to_its_schema_and_has_the_version(tmp_path: Path) -> None:
    assert schema_errors("vendor.citation-file-format", ROOT / release.CITATION) == ""
    citation = yaml.safe_load((ROOT / release.CITATION).read_text())
    assert citation["version"] == release.version()
    assert citation["license"] == "MIT"
    page = (ROOT / "docs" / "using.md").read_text()
    assert all(reference["title"] in page for reference in citation["references"])
    assert citation["title"] in page
    wrong = tmp_path / "wrong.cff"
    wrong.write_text((ROOT / release.CITATION).read_text().replace("license: MIT", "license: MTI"))
    assert "MTI" in schema_errors("vendor.citation-file-format", wrong)


# -- Containerfile -----------------------------------------------------------------------------------------------------


def test_the_container_is_made_of_what_exists_and_runs_without_rights() -> None:
    stages = re.split(r"^FROM ", CONTAINERFILE, flags=re.MULTILINE)[1:]
    assert len(stages) == 2
    assert stages[0].split("\n", 1)[0].removesuffix(" AS build") == stages[1].split("\n", 1)[0]
    (user,) = re.findall(r"^USER (\d+)$", stages[1], re.MULTILINE)
    assert int(user) > 0
    assert 'ENTRYPOINT ["astra"]' in stages[1]
    assert re.findall(r"^(?:COPY|ADD) (?!--from=build)", stages[1], re.MULTILINE) == []
    for line in re.findall(r"^COPY (?!--from)(.*)$", stages[0], re.MULTILINE):
        *sources, _ = line.split()
        assert all((ROOT / source).exists() for source in sources)
    assert set(re.findall(r"python3 dev\.py (\w+)", CONTAINERFILE)) <= set(COMMANDS)


def test_what_the_container_copies_is_a_workspace_with_all_packages() -> None:
    copied = [source for line in re.findall(r"^COPY (?!--from)(.*)$", CONTAINERFILE, re.MULTILINE) for source in line.split()[:-1]]
    needed = ["dev.py", "devtools", "pyproject.toml", *(path.relative_to(ROOT).as_posix() for path in release.distributions())]
    assert [path for path in needed if not any(path == source or path.startswith(f"{source}/") for source in copied)] == []


def test_nightly_parts_are_commands() -> None:
    nightly = (ROOT / ".ci" / "nightly").read_text()
    assert set(re.findall(r"python3 dev\.py (\w+)", nightly)) <= set(COMMANDS)
    assert all((ROOT / path).exists() for path in re.findall(r"(tests/\S+)", nightly))
