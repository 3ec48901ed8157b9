"""Settings come from the environment, and a value that cannot be used is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from ballast.contracts.errors import InvalidInput, SettingsError
from ballast.contracts.settings import check_job_name, load_settings
from ballast.contracts.spark import spark_conf


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


def test_the_log_store_that_arbitrates_is_always_set() -> None:
    for master in ("local[2]", "spark://m:7077"):
        conf = spark_conf(load_settings({"BALLAST_SPARK_MASTER": master}))
        assert conf["spark.delta.logStore.file.impl"] == "io.delta.storage.HDFSLogStore"
