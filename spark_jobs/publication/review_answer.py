"""The answer to the review of a draft, and its command line arguments.

Airflow's own checks of Params accept a trailing newline, so each argument is matched as a whole.
"""

from __future__ import annotations

import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from spark_jobs.program.arguments import one_line, parse_time, run_id

APPROVED, REJECTED, TIMED_OUT = "approved", "rejected", "timed_out"
ANSWERS = (APPROVED, REJECTED, TIMED_OUT)
NOBODY = "nobody"
LONGEST_NAME = 200


@dataclass(frozen=True)
class ReviewAnswer:
    """One answer to one review, about exactly this content of this plan."""

    decision: str
    """One of ``ANSWERS``."""
    by: str
    at: datetime
    review_run_id: str
    plan_id: str
    content_hash: str
    reason: str = ""

    @property
    def summary(self) -> str:
        """The reason in the row of plans.log."""
        text = {
            APPROVED: f"approved content {self.content_hash[:16]}",
            REJECTED: f"rejected content {self.content_hash[:16]}; the plan in force stays",
            TIMED_OUT: "nobody answered in time; the plan in force stays",
        }[self.decision]
        return f"{text}: {self.reason}" if self.reason else text

    @classmethod
    def from_arguments(cls, arguments: Namespace) -> ReviewAnswer | None:
        """The answer among the parsed arguments; None if ``--answer`` was not given."""
        if arguments.answer is None:
            return None
        return cls(
            arguments.answer,
            arguments.answered_by,
            arguments.answered_at or datetime.now(UTC),
            arguments.review_run_id,
            arguments.plan_id or "",
            arguments.content_hash or "",
            arguments.reason,
        )


def add_answer_arguments(parser: ArgumentParser) -> None:
    """Add ``--answer`` and the arguments that describe the answer."""
    parser.add_argument("--answer", choices=ANSWERS, help="result of the draft's review")
    parser.add_argument("--answered-by", type=person_argument, default=NOBODY, help="who answered")
    parser.add_argument("--answered-at", type=parse_time, help="when (default: now)")
    parser.add_argument("--review-run-id", type=run_id, default="by hand", help="run of the review")
    parser.add_argument("--reason", type=one_line, default="", help="why, in the person's words")
    add_content_arguments(parser, required=False)


def add_content_arguments(parser: ArgumentParser, *, required: bool = True) -> None:
    """Add ``--plan-id`` and ``--content-hash``: the content that the review is about."""
    parser.add_argument(
        "--plan-id", type=text_matching("plan id", r"[0-9a-f]{16}"), required=required,
        help="plan of the review",
    )  # fmt: skip
    parser.add_argument(
        "--content-hash", type=text_matching("content hash", r"[0-9a-f]{64}"), required=required,
        help="content hash of that plan",
    )  # fmt: skip


def text_matching(what: str, pattern: str) -> Callable[[str], str]:
    """An argparse type that accepts text if the whole of it matches a pattern."""

    def parse(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ArgumentTypeError(f"{what} {text[:80]!r} cannot be used; allowed: {pattern}")
        return text

    return parse


def person_argument(text: str) -> str:
    """A person's name: one line of printable text."""
    if not text.strip() or not text.isprintable() or len(text) > LONGEST_NAME:
        raise ArgumentTypeError(
            f"name {text[:60]!r} cannot be used; allowed: 1 to {LONGEST_NAME} printable characters"
        )
    return text.strip()
