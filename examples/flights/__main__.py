"""``python -m examples.flights``: run the job until SIGTERM, a duration or a number of records."""

from __future__ import annotations

import argparse
import logging
import math
import os
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from ballast.contracts.errors import BallastError, InvalidInput, JobStalled
from ballast.contracts.policy import JobPolicy, load_policy
from ballast.contracts.process_exit import exit_now
from ballast.contracts.settings import Settings, load_settings
from ballast.contracts.spark import SHORT_LIVED_JVM, spark_conf
from ballast.streaming import QueryOptions, RunningJob, stop_on_signals
from ballast.streaming.job_state import job_folder
from examples.flights.feed import CHUNK_RECORDS, Feeder, FlightsFolder
from examples.flights.operators import FLIGHTS
from examples.flights.real_jobs import REAL_JOB_4, REAL_JOBS, real_job_policy
from examples.flights.results import store_results
from examples.flights.weather import flight_lines, merged_lines
from solvers.collocate.component_advice import advice_before_metrics

log = logging.getLogger("ballast.flights")

# One pass of the 336,776 flights takes 12 s, a tenth of the statistics period of
# policies/flights.yaml. Each period then has every flight ten times, so that two periods differ
# only in how long things took. At this rate a node works 50 ms a batch, so that the half
# millisecond that cold caches cost a task matters little.
RATE = 336_776 / 12
TRIGGER_S = 2.0
JOBS = {FLIGHTS.job: FLIGHTS, **REAL_JOBS}


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m examples.flights", description=__doc__)
    parser.add_argument("--job", choices=list(JOBS), default=FLIGHTS.job, help="(%(default)s)")
    parser.add_argument("--rate", type=float, default=RATE, help="records a second (%(default).0f)")
    parser.add_argument("--trigger", type=float, default=TRIGGER_S, help="seconds between batches")
    parser.add_argument("--policy", type=Path, help="policy file (the job's own)")
    parser.add_argument("--ui", action="store_true", help="Spark's UI on a loopback port")
    until = parser.add_mutually_exclusive_group()
    until.add_argument("--duration", type=float, help="stop after this many seconds")
    until.add_argument(
        "--records", type=int, help=f"stop after this many records, in files of {CHUNK_RECORDS}"
    )
    until.add_argument(
        "--drain", action="store_true", help="feed nothing; process the present input and stop"
    )
    options = parser.parse_args(arguments)
    for name in ("rate", "trigger", "duration", "records"):
        value = getattr(options, name)
        if value is not None and not (math.isfinite(value) and value > 0):
            raise InvalidInput(
                f"--{name} is {value:g}", value=value, allowed="a number above 0",
                remedy="leave it out for the default",
            )  # fmt: skip
    return options


def build_session(settings: Settings, *, ui: bool = False) -> SparkSession:
    """A small local Spark session, because the job shares the machine with the pipeline."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = spark_conf(settings) | {
        "spark.ui.enabled": str(ui).lower(),
        "spark.driver.memory": settings.driver_memory,
        "spark.driver.extraJavaOptions": SHORT_LIVED_JVM,
        # Query plans are small and partitions are nodes, so there is nothing to adapt.
        "spark.sql.adaptive.enabled": "false",
    }
    builder = SparkSession.builder.appName("ballast-flights")
    for key, value in conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def open_stream(
    spark: SparkSession, folder: FlightsFolder, rate: float, trigger_s: float
) -> DataFrame:
    """The lines of the input files; Spark moves processed files to the archive."""
    at_once = max(8, math.ceil(4 * rate * trigger_s / CHUNK_RECORDS))
    folder.input.mkdir(parents=True, exist_ok=True)
    return (
        spark.readStream.option("maxFilesPerTrigger", at_once)
        .option("cleanSource", "archive")
        .option("sourceArchiveDir", str(folder.archive))
        .text(str(folder.input))
    )


def run(options: argparse.Namespace) -> None:
    """Feeds and runs the job until it stops, then processes all that was fed."""
    settings = load_settings()
    job = JOBS[options.job]
    policy = _policy(options, settings)
    folder = FlightsFolder(job_folder(settings, job.job))
    spark = build_session(settings, ui=options.ui)
    stream = open_stream(spark, folder, options.rate, options.trigger)
    lines = merged_lines if job is REAL_JOB_4 else flight_lines
    feeder = Feeder(folder, options.rate, 0 if options.drain else options.records, lines)
    with (
        stop_on_signals() as stop,
        replace(job, backlog=folder.waiting, advise=advice_before_metrics).start(
            stream, settings, policy, QueryOptions(trigger_s=options.trigger)
        ) as running,
    ):
        _feed(feeder, running, stop, options.duration)
        running.drain()
    spark.stop()
    check = "check"
    if job is not FLIGHTS:
        check = f"check_real_jobs {job.job}"
        log.info("results stored in %s", store_results(settings, job))
    log.info("stopped; state: %s; check it with python -m examples.flights.%s", folder.root, check)


def _policy(options: argparse.Namespace, settings: Settings) -> JobPolicy:
    """The named policy, or the job's own: a file for the reference job, built for real jobs."""
    if options.policy is not None or options.job == FLIGHTS.job:
        return load_policy(options.policy or settings.policies / "flights.yaml")
    return real_job_policy(REAL_JOBS[options.job])


def _feed(
    feeder: Feeder, running: RunningJob, stop: threading.Event, duration_s: float | None
) -> None:
    """Waits until the job is stopped, the time is over, or the feeder is done."""
    end = time.monotonic() + duration_s if duration_s is not None else math.inf
    feeder.start()
    while running.is_active() and feeder.is_alive() and time.monotonic() < end:
        if stop.wait(0.1):
            break
    feeder.stop()


def main(arguments: list[str] | None = None) -> int:
    """Runs the job; an error of Ballast is printed as one line and gives the exit code."""
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("py4j").setLevel(logging.WARNING)
    try:
        run(parse(arguments))
    except BallastError as error:
        print(f"error: {error}", file=sys.stderr)
        if isinstance(error, JobStalled):
            # Spark's threads may hang with the batch.
            exit_now(error.exit_code)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
