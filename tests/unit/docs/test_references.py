"""Everything that the documents name exists: papers, decision records, files, modules and pages."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
CODE = (
    "ballast", "bench", "dags", "embedded", "examples", "expectations", "orchestration", "plugins",
    "solvers", "spark_jobs", "tests", "tools",
)  # fmt: skip
"""Top-level folders whose files may cite papers and decisions, and be named in documents."""

KEY = re.compile(r"\[((?:ICDE|MW|AUTODASP|DODO)[A-Z0-9-]*)")
ADR = re.compile(r"\b(?:ADR |docs/adr/0*)(\d+)")
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE_SPAN = re.compile(r"`([^`\n]+)`")
REPOSITORY_PATH = re.compile(rf"(?<![\w./-])(?:{'|'.join((*CODE, 'docs'))})/[\w./-]+")
MODULE = re.compile(
    r"(?:ballast|solvers|spark_jobs|orchestration|expectations|embedded|examples|bench|plugins)"
    r"(?:\.(?!md\b)\w+)+"
)


def text_files() -> list[Path]:
    """All text files of the project that people write."""
    suffixes = {".py", ".md", ".toml", ".sh", ".yaml", ".yml", ".js"}
    found = [path for folder in (*CODE, "docs") for path in (ROOT / folder).rglob("*")]
    found += [path for path in ROOT.iterdir() if path.is_file()]
    return [
        path
        for path in found
        if (path.suffix in suffixes or path.name == "Makefile") and "vendor" not in path.parts
    ]


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def pages() -> list[Path]:
    found = [*DOCS.glob("*.md"), *(DOCS / "adr").glob("*.md"), ROOT / "bench" / "README.md"]
    return sorted([*found, ROOT / "README.md", ROOT / "CONTRIBUTING.md"])


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def decision_files() -> dict[int, Path]:
    return {int(path.name[:4]): path for path in (DOCS / "adr").glob("0*.md")}


def test_every_cited_key_is_a_paper() -> None:
    known = set(re.findall(r"^## (\S+)$", text_of(DOCS / "papers.md"), re.MULTILINE))
    cited = {(key, name_of(path)) for path in text_files() for key in KEY.findall(text_of(path))}
    assert known == {"ICDE17", "MW16-REGIONS", "AUTODASP17", "DODO", "MW16-LOCALITY"}
    assert {place for place in cited if place[0] not in known} == set()


def test_papers_are_cited_by_key_alone() -> None:
    # Written in two parts, so that this file does not contain it.
    by_number = "seed " + "00"
    assert [name_of(path) for path in text_files() if by_number in text_of(path)] == []


def test_papers_and_decisions_are_cited_in_one_style() -> None:
    """[ICDE17, 4.3.1] and ADR 41, not by venue, by file or with leading zeros."""
    other = re.compile(r"Middleware'16, \d|ICDE'17|\bADR 0\d|(?<![(/`])docs/adr/0\d")
    exempt = {DOCS / "papers.md", DOCS / "adr" / "README.md", Path(__file__)}
    found = [path for path in text_files() if path not in exempt and other.search(text_of(path))]
    assert [name_of(path) for path in found] == []


def test_every_cited_decision_has_a_record() -> None:
    index = text_of(DOCS / "adr" / "README.md")
    moved = {int(number) for number in re.findall(r"^\| ADR (\d+) \|", index, re.MULTILINE)}
    known = set(decision_files())
    assert not moved & known
    wrong = {
        (number, name_of(path))
        for path in text_files()
        if path not in {DOCS / "adr" / "README.md", Path(__file__)}
        for number in ADR.findall(text_of(path))
        if int(number) not in known
    }
    assert wrong == set()


@pytest.mark.parametrize("number", sorted(decision_files()))
def test_a_decision_is_in_the_index_as_its_file_says(number: int) -> None:
    path = decision_files()[number]
    text = text_of(path)
    title = re.match(rf"# ADR {number}: (.+)\n\nStatus: (.+)\nDate: (\d{{4}}-\d\d-\d\d)\n", text)
    assert title, f"{path.name}: the first lines are not title, status and date"
    row = f"| [ADR {number}]({path.name}) | {title[1]} | {title[2]} | {title[3]} |"
    assert row in text_of(DOCS / "adr" / "README.md")


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_path_and_link_of_a_page_exists(page: Path) -> None:
    text = text_of(page)
    links = {link.split("#")[0] for link in LINK.findall(text) if "://" not in link}
    missing = [link for link in links if link and not (page.parent / link).exists()]
    spans = CODE_SPAN.findall(text)
    named = {path for span in spans for path in REPOSITORY_PATH.findall(span) if "<" not in span}
    missing += [path for path in named if not (ROOT / path.rstrip("./")).exists()]
    assert missing == []


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_module_of_a_page_exists(page: Path) -> None:
    spans = CODE_SPAN.findall(text_of(page))
    named = {name for span in spans for name in MODULE.findall(span) if "<" not in span}
    assert sorted(name for name in named if not _is_defined(name)) == []


def _is_defined(dotted: str) -> bool:
    """A module, or a name that occurs in the module or package that its beginning names."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        base = ROOT.joinpath(*parts[:length])
        rest = parts[length:]
        if base.with_suffix(".py").is_file():
            return not rest or _mentions(base.with_suffix(".py"), rest[0])
        if base.is_dir():
            return not rest or _mentions(base / "__init__.py", rest[0])
    return False


def _mentions(file: Path, name: str) -> bool:
    return file.is_file() and re.search(rf"\b{name}\b", text_of(file)) is not None
