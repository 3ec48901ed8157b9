"""Writes that are allowed with the login cookie."""

from __future__ import annotations

import pytest

from plugins.review.cross_site import is_cross_site, origins

COOKIE = {"cookie": "other=1; _token=abc", "host": "airflow.example:8080"}
ALLOWED = origins(["https://airflow.example/base", "", "https://tools.example"])


@pytest.mark.parametrize(
    ("method", "headers", "refused"),
    [
        ("POST", {"sec-fetch-site": "same-origin", "origin": "http://airflow.example:8080"}, False),
        ("POST", {"sec-fetch-site": "none"}, False),
        ("POST", {"sec-fetch-site": "cross-site", "origin": "https://evil.example"}, True),
        ("PATCH", {"sec-fetch-site": "same-site", "origin": "https://a.airflow.example"}, True),
        ("POST", {"origin": "https://evil.example"}, True),
        ("DELETE", {"origin": "null"}, True),
        ("POST", {"origin": "http://airflow.example:8080"}, False),
        ("POST", {"origin": "http://airflow.example:8081"}, True),
        # Behind a proxy that changes the host, and from a tool that Airflow's settings name.
        ("POST", {"origin": "https://airflow.example"}, False),
        ("POST", {"sec-fetch-site": "cross-site", "origin": "https://tools.example"}, False),
        # Programs send no origin; a browser does not add their tokens by itself.
        ("POST", {}, False),
        ("POST", {"authorization": "Bearer x", "origin": "https://evil.example"}, False),
        ("POST", {"authorization": "Basic eDp5", "origin": "https://evil.example"}, True),
        # The browser itself protects reading.
        ("GET", {"sec-fetch-site": "cross-site", "origin": "https://evil.example"}, False),
    ],
)
def test_a_write_with_the_cookie_has_to_come_from_an_own_page(
    method: str, headers: dict[str, str], refused: bool
) -> None:
    assert is_cross_site(method, COOKIE | headers, ALLOWED) is refused


def test_without_the_login_cookie_there_is_nothing_to_misuse() -> None:
    headers = {"origin": "https://login.example", "host": "airflow.example", "cookie": "session=1"}
    assert not is_cross_site("POST", headers, ALLOWED)


@pytest.mark.parametrize("cookie", ["[]=;_token=x", "a b=c; _token=x", "_token=x;;", " _token =x"])
def test_the_login_cookie_is_seen_among_malformed_ones(cookie: str) -> None:
    headers = {"origin": "https://evil.example", "host": "airflow.example", "cookie": cookie}
    assert is_cross_site("POST", headers, ALLOWED)
