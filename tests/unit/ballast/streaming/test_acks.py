"""Acknowledgements on real Delta tables: written once by a process, and again after a restart."""

import shutil

import pytest

from ballast.contracts.settings import load_settings
from ballast.store.plans import read_acks
from ballast.store.table_schema import ensure_tables
from ballast.streaming.acks import AckBook


@pytest.fixture
def settings(tmp_path):
    found = load_settings({"BALLAST_HOME": str(tmp_path / "home")})
    ensure_tables(found, ["plans.acks"])
    return found


def test_a_repetition_after_a_restart_adds_nothing(settings, tmp_path):
    for batch in (7, 7):
        AckBook(tmp_path / "acks", settings, "clicks").record(1, "p1", "applied", batch)
    assert [ack.batch_id for ack in read_acks(settings, "clicks", 1)] == [7]


def test_a_job_that_lost_its_folder_says_it_again_and_the_last_word_counts(settings, tmp_path):
    AckBook(tmp_path / "acks", settings, "clicks").record(1, "p1", "applied", 82)
    shutil.rmtree(tmp_path / "acks")
    AckBook(tmp_path / "acks", settings, "clicks").record(1, "p1", "applied", 0)
    assert [ack.batch_id for ack in read_acks(settings, "clicks", 1)] == [82, 0]


def test_what_could_not_be_sent_is_sent_after_a_restart(settings, tmp_path):
    shutil.rmtree(settings.table_uri("plans.acks"))
    AckBook(tmp_path / "acks", settings, "clicks").record(
        1, "p1", "refused", 3, reason="no such node"
    )
    ensure_tables(settings, ["plans.acks"])
    AckBook(tmp_path / "acks", settings, "clicks").send()
    assert [ack.reason for ack in read_acks(settings, "clicks", 1)] == ["no such node"]
    assert not list((tmp_path / "acks").glob("ack-*"))


def test_a_status_that_is_none_is_a_mistake_of_the_caller(settings, tmp_path):
    with pytest.raises(ValueError, match="cannot be acknowledged as 'taken'"):
        AckBook(tmp_path / "acks", settings, "clicks").record(1, "p1", "taken", 3)
