"""The REST client against a real server: retries, refusals, logins and answers that are no JSON."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ballast.contracts.errors import SettingsError
from ballast.engines.flink import rest
from ballast.engines.flink.connection import FlinkConnection
from ballast.engines.flink.rest import FlinkRefusal, FlinkUnavailable, RestClient

Answer = tuple[int, bytes]
REFUSED = json.dumps({"errors": ["", "<Exception on server side:\njava.Bad: too many\n\tat a.b"]})


class AnswerServer(ThreadingHTTPServer):
    """Gives its answers in turn, the last one for ever, and notes the requests."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), AnswerHandler)
        self.answers: list[Answer] = []
        self.seen: list[tuple[str, str, str | None, bytes]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class AnswerHandler(BaseHTTPRequestHandler):
    server: AnswerServer

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        login = self.headers.get("Authorization")
        self.server.seen.append((self.command, self.path, login, body))
        answers = self.server.answers
        status, text = answers.pop(0) if len(answers) > 1 else answers[0]
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/login")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_PUT = answer  # noqa: N815 - names of the base class

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[AnswerServer]:
    monkeypatch.setattr(rest, "WAIT_S", 0.0)
    made = AnswerServer()
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()


def test_a_failure_of_the_server_is_tried_again(server: AnswerServer) -> None:
    server.answers = [(503, b"starting"), (200, b'{"jobs": []}')]
    assert RestClient(FlinkConnection(server.url)).get("/jobs") == {"jobs": []}
    assert [path for _, path, _, _ in server.seen] == ["/jobs", "/jobs"]


def test_a_server_that_goes_on_failing_is_unavailable(server: AnswerServer) -> None:
    server.answers = [(500, REFUSED.encode())]
    with pytest.raises(FlinkUnavailable, match=r"GET /jobs failed with 500: .*"):
        RestClient(FlinkConnection(server.url)).get("/jobs")
    assert len(server.seen) == rest.TRIES


def test_a_refusal_has_the_reason_and_is_not_tried_again(server: AnswerServer) -> None:
    server.answers = [(400, REFUSED.encode())]
    with pytest.raises(FlinkRefusal) as caught:
        RestClient(FlinkConnection(server.url)).put("/jobs/1/resource-requirements", {"a": 1})
    assert caught.value.status == 400
    assert "is refused with 400" in str(caught.value)
    assert len(server.seen) == 1
    assert json.loads(server.seen[0][3]) == {"a": 1}


@pytest.mark.parametrize("text", [b"<html>log in</html>", b"{", b"\xff\xfe"])
def test_an_answer_that_is_no_json_is_unavailable(server: AnswerServer, text: bytes) -> None:
    server.answers = [(200, text)]
    with pytest.raises(FlinkUnavailable, match="not Flink's REST API"):
        RestClient(FlinkConnection(server.url)).get("/overview")


def test_an_empty_answer_is_an_empty_object(server: AnswerServer) -> None:
    server.answers = [(202, b"")]
    assert RestClient(FlinkConnection(server.url)).get("/overview") == {}


def test_a_redirect_is_not_followed(server: AnswerServer) -> None:
    server.answers = [(302, b"")]
    with pytest.raises(FlinkRefusal, match="refused with 302"):
        RestClient(FlinkConnection(server.url, token="word")).get("/overview")
    assert [path for _, path, _, _ in server.seen] == ["/overview"]


@pytest.mark.parametrize("status", [401, 403])
def test_a_wrong_login_ends_the_service_and_shows_no_secret(
    server: AnswerServer, status: int
) -> None:
    server.answers = [(status, b"no")]
    connection = FlinkConnection(server.url, username="ada", password="s3cret")
    with pytest.raises(SettingsError) as caught:
        RestClient(connection).get("/overview")
    assert "correct the login" in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_a_login_is_sent_as_basic_or_bearer(server: AnswerServer) -> None:
    server.answers = [(200, b"{}")]
    RestClient(FlinkConnection(server.url, username="ada", password="x")).get("/")
    RestClient(FlinkConnection(server.url, token="word")).get("/")
    RestClient(FlinkConnection(server.url)).get("/")
    assert [login for _, _, login, _ in server.seen] == ["Basic YWRhOng=", "Bearer word", None]


def test_a_server_that_is_not_there_is_unavailable(
    server: AnswerServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest, "WAIT_S", 0.0)
    with pytest.raises(FlinkUnavailable, match="does not answer GET /overview"):
        RestClient(FlinkConnection("http://127.0.0.1:1", timeout_s=2.0)).get("/overview")


def test_certificates_that_cannot_be_read_are_refused() -> None:
    with pytest.raises(SettingsError, match="certificates"):
        RestClient(FlinkConnection("https://f:1", ssl_cafile="/nowhere/ca.pem"))
