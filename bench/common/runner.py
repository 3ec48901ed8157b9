"""What the benchmarks have in common: arguments, seeds, time, files, pages in docs/, exit codes.

A benchmark is a package ``bench/<name>`` whose ``__main__`` measures and reports. All else that it
needs to run is in this module.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.common.seeds import ROOT, base_of, commit
from bench.common.verdict import Verdict

EXIT_HOLDS = 0
EXIT_DOES_NOT_HOLD = 1


@dataclass(frozen=True)
class Benchmark:
    """Names and places of one benchmark.

    Attributes:
        name: The package below ``bench``, such as ``real_jobs``.
        title: The heading of its page in docs/.
        doc: The docstring of its program, which is its help text.
        root: The checkout; tests give another folder.
    """

    name: str
    title: str
    doc: str | None
    root: Path = ROOT

    @property
    def label(self) -> str:
        """The name as it is in targets and file names: ``bench-real-jobs``."""
        return f"bench-{self.name.replace('_', '-')}"

    @property
    def results(self) -> Path:
        """The folder of its results."""
        return self.root / ".ballast" / self.label

    @property
    def page(self) -> Path:
        return self.root / "docs" / f"{self.label}.md"

    @property
    def picture(self) -> Path:
        return self.root / "docs" / "images" / f"{self.label}.svg"

    def parser(self) -> argparse.ArgumentParser:
        """A parser with the program's docstring as its help text, without options."""
        return argparse.ArgumentParser(
            prog=f"python -m bench.{self.name}",
            description=self.doc,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def add_docs(self, parser: argparse.ArgumentParser, pictures: str = "its picture") -> None:
        """Add ``--docs``, which writes the page."""
        text = f"write docs/{self.page.name} and {pictures}"
        parser.add_argument("--docs", action="store_true", help=text)

    def write_page(self, body: str) -> None:
        """Write the page below its title."""
        self.page.write_text(f"# {self.title}\n\n{body}", encoding="utf-8")

    def picture_link(self, caption: str) -> str:
        """The picture as the page shows it."""
        return f"![{caption}](images/{self.picture.name})"


def short_parser(doc: str | None) -> argparse.ArgumentParser:
    """A parser whose help text is the first line of a docstring, for programs of one file."""
    return argparse.ArgumentParser(description=(doc or "").split("\n", 1)[0])


def add_seed_base(parser: argparse.ArgumentParser) -> None:
    """Add ``--seed-base``; :meth:`Revision.of` reads it."""
    parser.add_argument("--seed-base", help="hexadecimal; the commit's hash unless given")


def add_out(parser: argparse.ArgumentParser, files: str) -> None:
    """Add ``--out``, the folder for the named files."""
    parser.add_argument("--out", type=Path, help=f"folder for {files}")


@dataclass(frozen=True)
class Revision:
    """The commit that is measured, and the number that all seeds are drawn from.

    It is read once at the start, because others may commit while a benchmark runs.
    """

    commit: str
    seed_base: int

    @classmethod
    def of(cls, seed_base: str | None) -> Revision:
        """The commit of the checkout; its hash is the seed base unless one is given."""
        at = commit()
        return cls(at, base_of(seed_base or at))

    @property
    def seed_name(self) -> str:
        """The seed base in hexadecimal: names the folder of the results."""
        return f"{self.seed_base:x}"

    @property
    def short_commit(self) -> str:
        return self.commit[:12]


@dataclass(frozen=True)
class Stopwatch:
    """Wall time since it was made."""

    started: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    @property
    def minutes(self) -> float:
        return self.seconds / 60


def machine() -> str:
    """A description of the machine for the pages."""
    return f"{os.cpu_count()} cores, Python {platform.python_version()}"


def write_results(folder: Path, content: dict[str, Any], text: str) -> None:
    """Write ``results.json`` and ``table.md``; make the folder where it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(content, indent=1), encoding="utf-8")
    (folder / "table.md").write_text(text, encoding="utf-8")


def verdict_rows(verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """Verdicts as they are stored in ``results.json``."""
    return [{**asdict(verdict), "holds": verdict.holds} for verdict in verdicts]


def conclude(text: str, *, holds: bool, folder: Path | None = None) -> int:
    """Print the report and whether its verdicts hold; return the program's exit code."""
    outcome = "every verdict holds" if holds else "A VERDICT DOES NOT HOLD"
    files = f"; files: {folder}" if folder else ""
    print(f"\n{text}\n{outcome}{files}")
    return EXIT_HOLDS if holds else EXIT_DOES_NOT_HOLD
