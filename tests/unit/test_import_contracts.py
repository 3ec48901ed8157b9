"""Import contracts of pyproject.toml name every package, so a new one is not allowed by default."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Modules of the model that hold types and no computed figure: the verifier may import them.
TYPES_OF_THE_MODEL = {
    "amortisation", "budget", "key_statistics", "method", "noise", "objective", "parameter_checks",
    "problem", "rules", "stop", "traffic_costs",
}  # fmt: skip


def contract(name: str) -> dict[str, Any]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found = [
        each
        for each in settings["tool"]["importlinter"]["contracts"]
        if each["name"].startswith(name)
    ]
    assert len(found) == 1, name
    return dict(found[0])


def packages(folder: str) -> set[str]:
    return {f"{folder}.{path.parent.name}" for path in (ROOT / folder).glob("*/__init__.py")}


def test_the_verifier_may_import_no_package_of_the_solvers_but_the_model() -> None:
    forbidden = set(contract("The verifier shares no code")["forbidden_modules"])
    assert packages("solvers") - forbidden == {"solvers.model", "solvers.verify"}


def test_the_verifier_may_import_no_module_of_the_model_that_computes_figures() -> None:
    forbidden = set(contract("The verifier shares no code")["forbidden_modules"])
    modules = {path.stem for path in (ROOT / "solvers" / "model").glob("*.py")} - {"__init__"}
    allowed = {name for name in modules if f"solvers.model.{name}" not in forbidden}
    assert allowed == TYPES_OF_THE_MODEL


def test_every_import_contract_names_packages_that_exist() -> None:
    names = {
        name
        for each in ("Contracts import nothing", "Solvers are pure", "The verifier shares no code")
        for name in contract(each)["forbidden_modules"]
        if name.startswith(("ballast.", "solvers."))
    }
    missing = [
        name
        for name in sorted(names)
        if not (ROOT / name.replace(".", "/")).is_dir()
        and not (ROOT / f"{name.replace('.', '/')}.py").is_file()
    ]
    assert missing == []


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("Contracts import nothing", {"contracts"}),
        ("Solvers are pure", {"contracts"}),
        ("Expectations know contracts", {"contracts"}),
        ("Spark jobs know contracts", {"contracts", "store"}),
        ("What DAG files are made of", {"contracts"}),
        ("DAG files only wire", {"contracts"}),
        ("The review page reads the store", {"contracts", "store", "readmodel"}),
    ],
)
def test_a_part_may_import_only_named_packages_of_the_library(name: str, allowed: set[str]) -> None:
    forbidden = set(contract(name)["forbidden_modules"])
    assert packages("ballast") - forbidden == {f"ballast.{each}" for each in allowed}
