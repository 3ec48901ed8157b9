"""Values from tables are text in a review, never markup."""

from __future__ import annotations

from spark_jobs.program.markdown import escaped, table


def test_markup_and_html_are_only_text() -> None:
    assert escaped("<b>x</b>") == "&lt;b&gt;x&lt;/b&gt;".replace("/", "/")
    assert escaped("[a](javascript:b)") == "\\[a\\]\\(javascript:b\\)"
    assert escaped("one\ntwo | three") == "one two \\| three"


def test_a_table_aligns_numbers_to_the_right() -> None:
    assert table(("node", "load"), [["a", 1.5], ["b", None]]) == (
        "| node | load |\n| --- | ---: |\n| a | 1.50 |\n| b | - |"
    )
