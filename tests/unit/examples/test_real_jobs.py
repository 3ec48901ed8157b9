"""The real jobs' operators, policies, results and check, without Spark."""

from __future__ import annotations

import sqlite3
from itertools import permutations
from unittest.mock import ANY

import pytest

from ballast.contracts.errors import NotFound
from ballast.streaming.key_group_state import StateStore
from ballast.streaming.node_task import SOURCE, BatchWork, Delivery, run_node, unpack
from ballast.streaming.operators import build_topology
from ballast.streaming.routing import first_placement, key_group_of, node_indexes
from examples.flights import check_real_jobs, results
from examples.flights.__main__ import parse
from examples.flights.real_jobs import (
    HIGHEST_RAIN,
    REAL_JOBS,
    Flight,
    Leg,
    NewRoute,
    RainScore,
    ScoredFlight,
    Weather,
    courier_efficiency,
    flying_airplane_of,
    interval_of,
    join_rain,
    rain_score,
    read_inputs,
    real_job_policy,
    route_of,
    route_to_join,
    score_rain,
    station_of,
    store,
    sum_and_send_by_route,
)
from examples.flights.weather import merged_lines, weather_lines

LINE = "2013,1,5,517.0,515,2.0,830.0,819,{delay},{carrier},15,N1,{origin},IAH,2.0,1400,5,15,x"


def line(delay="11.0", carrier="UA", origin="EWR"):
    return LINE.format(delay=delay, carrier=carrier, origin=origin)


def read(text):
    (record,) = read_inputs({}, "key", {"value": text})
    return record


FLIGHT = Flight("N1", "2013", "EWR", "IAH", "UA", "2013-01-05", 11)


def test_lines_of_flights_and_weather_are_distinguished():
    assert read(line()) == FLIGHT
    assert read("weather,EWR,2013-01-05,0.37") == Weather("EWR", "2013-01-05", 37)


def test_every_kind_of_record_goes_where_it_belongs_and_passes_the_others_by():
    weather, leg = Weather("EWR", "d", 1), Leg("EWR-IAH", "d", "UA", 1)
    assert (flying_airplane_of(FLIGHT), flying_airplane_of(weather)) == ("N1", None)
    assert (route_of(FLIGHT), route_of(weather)) == ("EWR-IAH", None)
    assert [station_of(r) for r in (weather, FLIGHT, leg, NewRoute("EWR-IAH", "EWR"))] == [
        "EWR", None, None, "EWR",
    ]  # fmt: skip
    assert route_to_join(leg) == route_to_join(RainScore("EWR-IAH", "d", 0)) == "EWR-IAH"
    assert route_to_join(NewRoute("EWR-IAH", "EWR")) is None


def test_a_route_is_made_known_once_and_its_flights_are_sent_on():
    state = {}
    first = list(sum_and_send_by_route(state, "EWR-IAH", FLIGHT))
    second = list(sum_and_send_by_route(state, "EWR-IAH", FLIGHT))
    assert first == [NewRoute("EWR-IAH", "EWR"), *second]
    assert state == {"EWR-IAH": [2, 2, 22]}


def test_scores_are_whole_percents_of_the_highest_in_intervals_of_ten():
    assert [rain_score(r, 371) for r in (0, 37, 38, 371)] == [0, 9, 10, 100]
    assert [interval_of(s) for s in (0, 9, 10, 99, 100)] == ["0", "0", "10", "90", "90"]


def test_each_route_gets_each_days_score_whichever_was_known_first():
    records = [Weather("EWR", "d1", 371), Weather("EWR", "d2", 0), NewRoute("EWR-A", "EWR"),
               NewRoute("EWR-B", "EWR")]  # fmt: skip
    for order in permutations(records):
        state, sent = {}, []
        for record in order:
            sent += score_rain(state, "EWR", record)
        assert sorted(sent) == [
            RainScore(route, day, score)
            for route in ("EWR-A", "EWR-B")
            for day, score in (("d1", 100), ("d2", 0))
        ]


def test_the_join_gives_every_flight_once_whatever_comes_first():
    records = [Leg("r", "d1", "UA", 5), Leg("r", "d1", "UA", None), Leg("r", "d2", "B6", 7),
               RainScore("r", "d1", 40), RainScore("r", "d1", 40)]  # fmt: skip
    for order in permutations(records):
        state, sent = {}, []
        for record in order:
            sent += join_rain(state, "r", record)
        assert sorted(sent, key=str) == [ScoredFlight("UA", 40, 5), ScoredFlight("UA", 40, None)]
        assert state["r"]["waiting"] == {"d2": [["B6", 7]]}


def test_couriers_sums_are_totals_and_storing_one_again_changes_nothing():
    couriers, stored = {}, {}
    for delay in (5, None, 7):
        (sums,) = courier_efficiency(couriers, "UA", ScoredFlight("UA", 40, delay))
        store(stored, "UA", sums)
        store(stored, "UA", sums)
    assert stored == couriers == {"UA": {"40": [3, 2, 12]}}


def test_policies_have_five_key_groups_per_operator_and_node():
    for job in REAL_JOBS.values():
        policy = real_job_policy(job, nodes=20)
        topology = build_topology(job.job, job.operators, policy)
        assert set(topology.key_groups) == {100}
    assert topology.ids[0] == "extract_delays"
    assert topology.stages == 6


def test_the_command_line_names_the_jobs():
    assert parse([]).job == "flights"
    assert parse(["--job", "real_job_3"]).job == "real_job_3"


def test_the_weather_is_the_tables_with_its_highest_days():
    lines = [text.strip().split(",") for _, text in weather_lines()]
    highest = {s: max(round(100 * float(i)) for _, at, _, i in lines if at == s)
               for s in HIGHEST_RAIN}  # fmt: skip
    assert highest == HIGHEST_RAIN
    assert len(lines) == 3 * 364  # the table ends on 30 December


def test_the_merged_stream_has_a_days_weather_before_its_flights():
    seen = set()
    for text in merged_lines():
        fields = text.split(",")
        if fields[0] == "weather":
            seen.add((fields[1], fields[2]))
        elif (fields[1], fields[2]) != ("12", "31"):
            assert (fields[12], f"2013-{fields[1]:0>2}-{fields[2]:0>2}") in seen
    assert len(seen) == 3 * 364


ROWS = {"courier_efficiency": {("UA", "0"): (3, 2, 12)}}


def test_results_of_a_batch_stored_again_are_the_same_and_older_ones_do_not_come_back(tmp_path):
    path = tmp_path / "results.sqlite"
    assert results.write_results(path, 4, ROWS)
    assert results.write_results(path, 4, ROWS)
    assert not results.write_results(path, 3, {"courier_efficiency": {}})
    assert results.read_results(path) == (4, ROWS)


def test_a_write_that_breaks_off_leaves_the_results_of_the_batch_before(tmp_path):
    path = tmp_path / "results.sqlite"
    results.write_results(path, 4, ROWS)
    broken = {"courier_efficiency": {("UA", "0"): (9, 9, 9), ("B6", None): (1, 1, 1)}}
    with pytest.raises((sqlite3.Error, TypeError)):
        results.write_results(path, 5, broken)
    assert results.read_results(path) == (4, ROWS)


def test_no_results_are_an_error_that_says_so(tmp_path):
    with pytest.raises(NotFound, match="there are no results"):
        results.read_results(tmp_path / "results.sqlite")


def run_batch(work, lines):
    """Run a batch as the library does, stage by stage, with Spark's part replaced."""
    inboxes = {}
    for text in lines:
        fields = text.split(",")
        key = fields[1] if fields[0] == "weather" else fields[11]
        group = (0, key_group_of(key, work.topology.key_groups[0]))
        pair = (key, {"value": text})
        inboxes.setdefault(work.owner(group), {}).setdefault(group, []).append(pair)
    inboxes = {
        node: {group: [Delivery(SOURCE, lambda p=pairs: p)] for group, pairs in inbox.items()}
        for node, inbox in inboxes.items()
    }
    for stage in range(work.topology.stages):
        blocks = [b for node in inboxes for b in run_node(work, node, stage, inboxes[node])[1]]
        inboxes = {}
        for block in blocks:
            inbox = inboxes.setdefault(work.owner(block.target), {})
            inbox.setdefault(block.target, []).append(
                Delivery(block.sender, lambda p=block.payload: unpack(p), len(block.payload))
            )


def stored_after(folder, batches, nodes=3):
    """The rows that Real Job 4 would store after batches of lines, (batch id, lines) each."""
    job = REAL_JOBS["real_job_4"]
    policy = real_job_policy(job, nodes, 2)
    topology = build_topology(job.job, job.operators, policy)
    placement = first_placement(topology, policy)
    node_ids = tuple(node.id for node in policy.nodes)
    store_of_states = StateStore(folder)
    for batch_id, lines in batches:
        store_of_states.discard_from(batch_id)
        routes = node_indexes(placement, topology, node_ids)
        run_batch(BatchWork(topology, routes, node_ids, batch_id, str(folder)), lines)
    return results.rows_of(
        {
            operator: [
                store_of_states.read(node, operator, group) for group, node in enumerate(where)
            ]
            for operator, where in placement.nodes.items()
        }
    )


LINES = [
    line(), line(delay=""), line(carrier="B6", origin="JFK"), "weather,EWR,2013-01-05,0.37",
    "weather,JFK,2013-01-05,3.68", line(delay="-4.0"), line(origin="LGA"),
]  # fmt: skip


def test_the_check_finds_the_same_sums_and_names_what_differs(tmp_path):
    text = "".join(f"{entry}\n" for entry in LINES)
    wanted = check_real_jobs.wanted_sums("real_job_4", [(text, 1)])
    assert wanted["courier_efficiency"] == {("UA", "0"): (3, 2, 7), ("B6", "90"): (1, 1, 11)}
    found = stored_after(tmp_path / "once", [(0, LINES[:3]), (1, LINES[3:])])
    assert check_real_jobs.compare(wanted, found) == (ANY, True)
    twice = stored_after(tmp_path / "twice", [(0, LINES), (1, LINES)])
    fed_twice = check_real_jobs.wanted_sums("real_job_4", [(text, 2)])
    assert check_real_jobs.compare(fed_twice, twice) == (ANY, True)
    said, equal = check_real_jobs.compare(wanted, twice)
    assert not equal
    assert "DIFFER" in said


def test_a_repeated_batch_counts_and_is_stored_once(tmp_path):
    text = "".join(f"{entry}\n" for entry in LINES)
    path = tmp_path / "results.sqlite"
    batches = [(0, LINES[:3]), (1, LINES[3:])]
    for attempts in (batches, [*batches, batches[1]]):
        found = stored_after(tmp_path / str(len(attempts)), attempts)
        results.write_results(path, 1, found)
        _, stored = results.read_results(path)
        wanted = check_real_jobs.wanted_sums("real_job_4", [(text, 1)])
        assert check_real_jobs.compare(wanted, stored) == (ANY, True)
