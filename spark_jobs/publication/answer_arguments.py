"""What a person, or the lack of one, said of a draft: arguments that are checked where they enter.

Airflow's own checks of Params let a trailing newline through, so everything is matched whole.
"""

from __future__ import annotations

import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from spark_jobs.program.arguments import run_id, utc_time

APPROVED, REJECTED, TIMED_OUT = "approved", "rejected", "timed_out"
ANSWERS = (APPROVED, REJECTED, TIMED_OUT)
NOBODY = "nobody"
LONGEST_NAME = 200
LONGEST_REASON = 2000


@dataclass(frozen=True)
class ReviewAnswer:
    """One answer to one question: exactly this content of this plan."""

    word: str
    by: str
    at: datetime
    review_run_id: str
    plan_id: str
    content_hash: str
    reason: str = ""

    @property
    def in_words(self) -> str:
        """What plans.log says of it."""
        said = {
            APPROVED: f"approved content {self.content_hash[:16]}",
            REJECTED: f"rejected content {self.content_hash[:16]}; the plan in force stays",
            TIMED_OUT: "nobody answered in time; the plan in force stays",
        }[self.word]
        return f"{said}: {self.reason}" if self.reason else said

    @classmethod
    def from_arguments(cls, arguments: Namespace) -> ReviewAnswer | None:
        """What was parsed by :func:`add_answer_arguments`; None without an answer."""
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
    """``--answer`` and what belongs to it."""
    parser.add_argument("--answer", choices=ANSWERS, help="what came of the draft's review")
    parser.add_argument("--answered-by", type=person, default=NOBODY, help="who answered")
    parser.add_argument("--answered-at", type=utc_time, help="when (default: now)")
    parser.add_argument("--review-run-id", type=run_id, default="by hand", help="run of the review")
    parser.add_argument("--reason", type=reason, default="", help="why, in the person's words")
    add_content_arguments(parser, required=False)


def add_content_arguments(parser: ArgumentParser, *, required: bool = True) -> None:
    """``--plan-id`` and ``--content-hash``: the very content that is meant."""
    parser.add_argument(
        "--plan-id", type=matching("plan id", r"[0-9a-f]{16}"), required=required,
        help="plan that is meant",
    )  # fmt: skip
    parser.add_argument(
        "--content-hash", type=matching("content hash", r"[0-9a-f]{64}"), required=required,
        help="content that is meant",
    )  # fmt: skip


def matching(what: str, pattern: str) -> Callable[[str], str]:
    """A parser of text that matches as a whole."""

    def parse(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ArgumentTypeError(f"{what} {text[:80]!r} cannot be used; allowed: {pattern}")
        return text

    return parse


def person(text: str) -> str:
    """A person's name: one line of printable text."""
    if not text.strip() or not text.isprintable() or len(text) > LONGEST_NAME:
        raise ArgumentTypeError(
            f"name {text[:60]!r} cannot be used; allowed: 1 to {LONGEST_NAME} printable characters"
        )
    return text.strip()


def reason(text: str) -> str:
    """Why, in one line: line breaks and what cannot be printed become spaces.

    An emoji may hold a character that cannot be printed; no approval is lost for that.
    """
    printable = "".join(letter if letter.isprintable() else " " for letter in text)
    line = " ".join(printable.split())
    if len(line) > LONGEST_REASON:
        raise ArgumentTypeError(
            f"reason {line[:60]!r} cannot be used; allowed: at most {LONGEST_REASON} characters"
        )
    return line
