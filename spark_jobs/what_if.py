"""Compare today's plan with a plan for other nodes or another load:
``spark-submit spark_jobs/what_if.py --job J --run-id R --without node-1 --scale '*=1.3'``.

The program reads the job's newest snapshot and writes no table: the answer is in the task's log
and in its XCom.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from ballast.contracts.errors import Infeasible
from ballast.contracts.process_exit import exit_now
from ballast.contracts.settings import Settings
from ballast.contracts.task_result import write_task_result
from spark_jobs.program.run import progress, run_program
from spark_jobs.scenario.report import report, summary
from spark_jobs.scenario.request import add_arguments, request_of
from spark_jobs.scenario.what_if_comparison import compare_plans


def body(arguments: Namespace, settings: Settings) -> None:
    """Compare the plans, print the report and give it to the task."""
    comparison = compare_plans(settings, arguments.job, request_of(arguments))
    text = report(comparison)
    for line in text.splitlines():
        progress.info("%s", line)
    write_task_result(report=text, **summary(comparison))
    if not comparison.asked.result.is_solved:
        raise Infeasible(
            f"the question has no plan: {comparison.asked.result.reason}; to fix it: allow more "
            "moves, keep more nodes, or ask for less load"
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    return run_program("what_if", "Compare plans for a question.", add_arguments, body, argv)


if __name__ == "__main__":
    exit_now(main())
