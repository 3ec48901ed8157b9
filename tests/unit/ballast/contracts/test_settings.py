"""Settings come from the environment, and a value that cannot be used is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from ballast.contracts.errors import InvalidInput, SettingsError
from ballast.contracts.settings import check_job_name, load_settings
from ballast.contracts.spark import check_master, spark_conf


def test_defaults_stay_within_the_home_folder() -> None:
    settings = load_settings({"BALLAST_HOME": "/srv/b"})
    assert settings.warehouse == "/srv/b/warehouse"
    assert settings.jars == Path("/srv/b/jars")
    assert settings.table_uri("plans.heads") == "/srv/b/warehouse/plans/heads"


def test_an_object_store_is_a_setting_away() -> None:
    settings = load_settings({"BALLAST_WAREHOUSE": "s3a://bucket/w/"})
    assert settings.table_uri("plans.heads") == "s3a://bucket/w/plans/heads"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BALLAST_WAREHOUSE", " "),
        ("BALLAST_SPARK_MASTER", "localhost"),
        ("BALLAST_SPARK_MASTER", "local[2]\n"),
        ("BALLAST_SPARK_MASTER", "spark://master"),
        ("BALLAST_HOME", "s3a://bucket/home"),
        ("BALLAST_HOME", "file:///srv/b"),
        ("BALLAST_HOME", " "),
        ("BALLAST_POLICIES", "s3a://bucket/policies"),
        ("BALLAST_JARS", "s3a://bucket/jars"),
        ("BALLAST_DRIVER_MEMORY", "lots"),
        ("BALLAST_DRIVER_MEMORY", "0g"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=name):
        load_settings({name: value})


@pytest.mark.parametrize("name", ["", "9a", "A", "a" * 64, "a-b", "a\n", "../a", "a b"])
def test_what_is_no_job_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput):
        check_job_name(name)


@pytest.mark.parametrize("name", ["a", "flights", "a_1", "a" * 63])
def test_a_job_name_is_taken_as_it_is(name: str) -> None:
    assert check_job_name(name) == name


def test_an_address_as_home_says_where_state_must_be() -> None:
    with pytest.raises(SettingsError, match="the driver and every executor reach"):
        load_settings({"BALLAST_HOME": "s3a://bucket/home"})


MASTERS = [
    "local",
    "local[2]",
    "local[*]",
    "local[2,4]",
    "spark://m:7077",
    "spark://a:1,b:2",
    "yarn",
]


@pytest.mark.parametrize("master", MASTERS)
def test_every_session_runs_on_the_master_of_the_settings(master: str) -> None:
    settings = load_settings({"BALLAST_SPARK_MASTER": master})
    assert spark_conf(settings)["spark.master"] == master
    check_master(master, settings)


def test_a_session_on_another_master_is_refused() -> None:
    settings = load_settings({"BALLAST_SPARK_MASTER": "spark://m:7077"})
    with pytest.raises(SettingsError, match=r"runs on local\[2\].*is spark://m:7077"):
        check_master("local[2]", settings)


@pytest.mark.parametrize("session", ["k8s://k.example:6443", "k8s://https://k.example:6443"])
def test_spark_may_add_the_scheme_of_a_kubernetes_address(session: str) -> None:
    check_master(session, load_settings({"BALLAST_SPARK_MASTER": "k8s://k.example:6443"}))


def test_the_log_store_that_arbitrates_is_always_set() -> None:
    for master in ("local[2]", "spark://m:7077"):
        conf = spark_conf(load_settings({"BALLAST_SPARK_MASTER": master}))
        assert conf["spark.delta.logStore.file.impl"] == "io.delta.storage.HDFSLogStore"
