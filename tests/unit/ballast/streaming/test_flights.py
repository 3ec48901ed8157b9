"""The flights job's operators, feeder and check, without Spark."""

from __future__ import annotations

import json
import time

import pytest

from ballast.contracts.errors import InvalidInput
from ballast.contracts.settings import load_settings
from ballast.streaming.batch_versions import DecisionLog, VersionDecision
from ballast.streaming.job_state import job_folder
from ballast.streaming.key_group_state import StateStore
from ballast.streaming.routing import Placement, key_group_of
from examples.flights.__main__ import parse
from examples.flights.check import check_sums
from examples.flights.feed import KEEP_PASSES, Feeder, FlightsFolder, set_rate
from examples.flights.operators import (
    airplane_of,
    extract_delays,
    sum_by_airplane,
    sum_by_destination,
)

LINE = "2013,1,1,{dep},515,2.0,830.0,819,{delay},UA,1545,{tail},EWR,{dest},227.0,1400,5,15,x"


def line(delay="11.0", tail="N14228", dest="IAH"):
    return LINE.format(dep="517.0", delay=delay, tail=tail, dest=dest)


def delay_of(text):
    (delay,) = extract_delays({}, "key", {"value": text})
    return delay


def test_a_flight_is_parsed_from_its_text():
    delay = delay_of(line())
    assert (delay.tailnum, delay.year, delay.dest) == ("N14228", "2013", "IAH")
    assert (delay.departure_delay, delay.arrival_delay) == (2, 11)


def test_a_flight_without_a_tail_number_has_no_airplane():
    assert airplane_of(delay_of(line(tail=""))) is None
    assert airplane_of(delay_of(line())) == "N14228"


def test_a_flight_that_never_arrived_counts_but_adds_no_delay():
    airplanes, destinations = {}, {}
    for delay in ("11.0", "", "-4.0"):
        sum_by_airplane(airplanes, "N1", delay_of(line(delay)))
        sum_by_destination(destinations, "IAH", delay_of(line(delay)))
    assert airplanes == {"N1": {"2013": [3, 2, 7]}}
    assert destinations == {"IAH": [3, 2, 7, 11]}


@pytest.fixture
def folder(tmp_path):
    root = FlightsFolder(job_folder(load_settings({"BALLAST_HOME": str(tmp_path)}), "flights"))
    root.chunks.mkdir(parents=True)
    for number in range(3):
        text = "\n".join([line(dest=f"D{number}"), line("", "", f"D{number}")]) + "\n"
        (root.chunks / f"chunk-{number:06d}.csv").write_text(text)
    return root


def feed(folder, files):
    feeder = Feeder(folder, rate=1e6, records=files * 1000)
    feeder.start()
    feeder.join(10)
    assert not feeder.is_alive()


def test_feeding_goes_on_after_a_restart_where_it_was(folder):
    feed(folder, 2)
    feed(folder, 3)
    assert sorted(folder.files()) == [0, 1, 2, 3, 4]
    copies = [folder.files()[number].read_text() for number in range(5)]
    chunks = [path.read_text() for path in sorted(folder.chunks.iterdir())]
    assert copies == [*chunks, *chunks[:2]]


def test_the_backlog_is_bounded(folder):
    feeder = Feeder(folder, rate=1000)  # ten seconds of it: ten files
    feeder.rate = 1e6
    feeder.start()
    time.sleep(0.5)
    feeder.stop()
    assert len(folder.files()) == feeder.largest_backlog == 10


def write_states(settings, airplanes, destinations):
    folder = job_folder(settings, "flights")
    nodes = {"sum_by_airplane": ("a",) * 2, "sum_by_destination": ("a",) * 2}
    log = DecisionLog(folder / "decisions")
    log.record_placement(Placement(0, "", nodes))
    log.record(VersionDecision(0, 0, 0))
    for operator, states in (("sum_by_airplane", airplanes), ("sum_by_destination", destinations)):
        for key, value in states.items():
            place = StateStore(folder / "state").folder("a", operator, key_group_of(key, 2))
            place.mkdir(parents=True, exist_ok=True)
            path = place / "00000000000000-0000.json"
            known = json.loads(path.read_text()) if path.exists() else {}
            path.write_text(json.dumps(known | {key: value}))


@pytest.mark.parametrize("removed", [0, 2])
def test_the_check_accepts_right_sums_and_names_wrong_ones(folder, tmp_path, removed):
    settings = load_settings({"BALLAST_HOME": str(tmp_path)})
    feed(folder, 3)
    if removed:
        folder.archive.mkdir()
        (folder.root / "removed.json").write_text(f'{{"passes": {removed}}}')
        for number, path in folder.files().items():
            path.rename(path.with_name(f"flights-{number + 3 * removed:010d}.csv"))
    passes = 1 + removed
    airplanes = {"N14228": {"2013": [3 * passes, 3 * passes, 33 * passes]}}
    destinations = {f"D{n}": [2 * passes, passes, 11 * passes, 11] for n in range(3)}
    write_states(settings, airplanes, destinations)
    report = check_sums(settings)
    assert report.equal, report.text()
    assert (report.flights, report.airplane_years, report.destinations) == (6 * passes, 1, 3)
    write_states(settings, {}, {"D1": [1, 1, 11, 11]})
    wrong = check_sums(settings)
    assert not wrong.equal
    assert "destination D1" in wrong.text()


def test_old_passes_are_counted_and_removed(folder):
    folder.archive.mkdir()
    for _ in range(KEEP_PASSES + 2):
        feed(folder, 3)
        for path in folder.input.iterdir():
            path.rename(folder.archive / path.name)
    assert folder.passes_removed() == 1
    assert min(folder.files()) == 3
    feed(folder, 1)
    assert max(folder.files()) == 3 * (KEEP_PASSES + 2)


@pytest.mark.parametrize("arguments", [["--rate", "0"], ["--rate", "nan"], ["--records", "-5"]])
def test_a_number_that_makes_no_sense_is_refused(arguments):
    with pytest.raises(InvalidInput, match="a number above 0"):
        parse(arguments)


def test_the_rate_of_a_running_feeder_can_be_changed(folder):
    feeder = Feeder(folder, rate=1000)
    assert feeder._rate() == 1000
    set_rate(folder, 4000.0)
    assert (feeder._rate(), feeder.largest_backlog) == (4000.0, 40)
    folder.rate_file.write_text("fast")
    assert feeder._rate() == 4000.0
    assert Feeder(folder, rate=1000)._rate() == 1000


def test_what_waits_is_what_the_running_batch_has_not_taken(folder):
    feeder = Feeder(folder, rate=1000)
    for number in range(5):
        feeder._put(number)
    assert folder.waiting(taken=2000) == 3000
    assert folder.waiting(taken=9000) == 0
