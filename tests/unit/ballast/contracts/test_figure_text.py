"""How promised and measured figures are written."""

from __future__ import annotations

import pytest

from ballast.contracts.figure_text import measured_text, promised_text, share_text, value_text


@pytest.mark.parametrize(
    ("value", "unit", "said"),
    [
        (1.934, "% of mean", "1.93 %"),
        (0.0, "% of mean", "0 %"),
        (-0.0, "points", "0 points"),
        (123.4, "%", "123 %"),
        (12.0, "key groups", "12 key groups"),
        (12345.6, "records/s", "12,346 records/s"),
        (512.0, "bytes", "512 B"),
        (1_234_567.0, "bytes", "1.23 MB"),
        (1.2e30, "bytes/s", "1,200,000,000,000,000 PB/s"),
        (85.25, "bytes/record", "85.2 B/record"),
        (0.000012, "s", "0.000012 s"),
        (1e-12, "s", "0 s"),
    ],
)
def test_a_value_has_three_digits_and_its_unit(value: float, unit: str, said: str) -> None:
    assert value_text(value, unit) == said


@pytest.mark.parametrize(
    ("expected", "low", "high", "unit", "said"),
    [
        (1.93, 0.91, 3.42, "% of mean", "1.9 % (0.9 to 3.4)"),
        (0.4512, 0.4411, 0.4644, "cores", "0.451 cores (0.441 to 0.464)"),
        (60.0, 20.0, 180.0, "%", "60 % (20 to 180)"),
        (2_000_000.0, 1_500_000.0, 2_600_000.0, "bytes", "2.0 MB (1.5 to 2.6)"),
        (12.0, 12.0, 12.0, "key groups", "12 key groups"),
        (1.93, None, None, "% of mean", "1.93 %"),
    ],
)
def test_an_interval_has_two_digits_of_its_width(
    expected: float, low: float | None, high: float | None, unit: str, said: str
) -> None:
    assert promised_text(expected, low, high, unit) == said


def test_a_measured_value_can_be_compared_with_the_ends_and_says_its_side() -> None:
    assert measured_text(3.44, 0.91, 3.42, "above", "% of mean") == "3.44 % (above)"
    assert measured_text(12.0, 12.0, 12.0, "inside", "key groups") == "12 key groups (inside)"
    assert measured_text(2.1, None, None, None, "% of mean") == "2.10 %"
    assert measured_text(700_000.0, 1.5e6, 2.6e6, "below", "bytes") == "0.70 MB (below)"


def test_the_share_inside_is_beside_the_promised_one() -> None:
    assert share_text(17, 19) == "17 of 19 versions were measured inside (89 %); 90 % are promised"
    assert share_text(1, 1) == "1 of 1 version was measured inside (100 %); 90 % are promised"
    assert share_text(0, 0) == "No version with an interval was measured yet"
