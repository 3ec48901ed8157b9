"""The runner under the benchmarks: names, arguments, seeds, files, pages and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.common.runner import (
    EXIT_DOES_NOT_HOLD,
    EXIT_HOLDS,
    Benchmark,
    Revision,
    Stopwatch,
    add_out,
    add_seed_base,
    conclude,
    machine,
    short_parser,
    verdict_rows,
    write_results,
)
from bench.common.verdict import Verdict

HASH = "5e8c2c348cc9b0a2ffff"


@pytest.fixture
def benchmark_in(tmp_path: Path) -> Benchmark:
    (tmp_path / "docs" / "images").mkdir(parents=True)
    return Benchmark("real_jobs", "Real jobs", "What it measures.\n\nMore of it.", root=tmp_path)


def test_names_and_places_follow_from_the_package(benchmark_in: Benchmark) -> None:
    root = benchmark_in.root
    assert benchmark_in.results == root / ".ballast" / "bench-real-jobs"
    assert benchmark_in.page == root / "docs" / "bench-real-jobs.md"
    assert benchmark_in.picture == root / "docs" / "images" / "bench-real-jobs.svg"
    assert benchmark_in.parser().prog == "python -m bench.real_jobs"


def test_the_help_text_is_the_whole_docstring(benchmark_in: Benchmark) -> None:
    assert "What it measures.\n\nMore of it." in benchmark_in.parser().format_help()


def test_the_help_text_of_a_short_program_is_the_first_line() -> None:
    assert short_parser("One line.\n\nAnd more.").description == "One line."
    assert short_parser(None).description == ""


def test_common_options_are_read(benchmark_in: Benchmark) -> None:
    parser = benchmark_in.parser()
    add_seed_base(parser)
    add_out(parser, "table.md")
    benchmark_in.add_docs(parser)
    given = parser.parse_args(["--seed-base", "1f", "--out", "folder", "--docs"])
    assert (given.seed_base, given.out, given.docs) == ("1f", Path("folder"), True)
    absent = parser.parse_args([])
    assert (absent.seed_base, absent.out, absent.docs) == (None, None, False)


def test_the_page_has_its_title_and_its_picture(benchmark_in: Benchmark) -> None:
    benchmark_in.write_page(f"text\n{benchmark_in.picture_link('Rounds')}\n")
    page = benchmark_in.page.read_text(encoding="utf-8")
    assert page == "# Real jobs\n\ntext\n![Rounds](images/bench-real-jobs.svg)\n"


def test_seeds_come_from_the_commit_unless_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.common.runner.commit", lambda: HASH)
    drawn, given = Revision.of(None), Revision.of("1f")
    assert (drawn.seed_name, drawn.short_commit) == (HASH[:16], HASH[:12])
    assert (given.seed_base, given.seed_name, given.commit) == (0x1F, "1f", HASH)


def test_time_does_not_go_back() -> None:
    watch = Stopwatch()
    first = watch.seconds
    assert 0 <= first <= watch.seconds
    assert watch.minutes < 1


def test_the_machine_is_named_by_cores_and_python() -> None:
    assert " cores, Python 3." in machine()


def test_results_are_written_into_a_folder_that_is_made(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    write_results(folder, {"commit": "0"}, "text\n")
    assert json.loads((folder / "results.json").read_text(encoding="utf-8")) == {"commit": "0"}
    assert (folder / "table.md").read_text(encoding="utf-8") == "text\n"


def test_verdicts_are_stored_with_whether_they_hold() -> None:
    rows = verdict_rows([Verdict("fast", 1.0, 2.0, at_least=True)])
    assert rows == [
        {"claim": "fast", "figure": 1.0, "limit": 2.0, "at_least": True, "holds": False}
    ]


@pytest.mark.parametrize(
    ("holds", "code", "words"),
    [(True, EXIT_HOLDS, "every verdict holds"), (False, EXIT_DOES_NOT_HOLD, "DOES NOT HOLD")],
)
def test_the_exit_code_says_whether_the_verdicts_hold(
    holds: bool, code: int, words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert conclude("the report", holds=holds, folder=tmp_path) == code
    printed = capsys.readouterr().out
    assert "the report" in printed
    assert words in printed
    assert str(tmp_path) in printed
