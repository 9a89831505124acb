"""The files around the package agree with each other: versions, Pythons, what is run before a commit and by CI."""

import ast
import re
import tomllib
from pathlib import Path

import yaml

import tailcloud

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_package_project_and_citation_have_one_version():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["version"] == PROJECT["version"] == tailcloud.__version__
    assert "Gaussian Clouded Logit Adjustment" in cited["preferred-citation"]["title"]


def test_the_workflow_tests_every_python_that_the_package_names():
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())["jobs"]
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert jobs["test"]["strategy"]["matrix"]["python"] == named
    assert jobs["test"]["steps"][-1]["run"] == "make test"
    assert "make dist" in [step.get("run") for step in jobs["build"]["steps"]]


def test_pre_commit_runs_what_make_lint_runs():
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    assert hook["entry"] == "make lint"


def test_the_source_package_has_all_that_its_readme_links_to():
    kept = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    for name in kept:
        assert (ROOT / name).exists(), name
    assert {"CONTRIBUTING.md", "SECURITY.md", "CITATION.cff"} <= set(kept)


def test_a_program_that_says_how_it_is_started_starts():
    for path in sorted((ROOT / "benchmarks").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        about = ast.get_docstring(ast.parse(text)) or ""
        assert (f"benchmarks/{path.name}" in about) == ('if __name__ == "__main__":' in text), path.name
