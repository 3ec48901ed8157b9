"""Access of the command line to Airflow, with the user's own token or password.

A password is never an argument, because every user of the machine can see the arguments.
"""

from __future__ import annotations

import argparse
import getpass
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ballast.airflow.errors import ApiError, LoginRefused, NoAnswer, NoRight
from ballast.airflow.rest import AirflowClient, is_this_machine
from ballast.contracts.errors import BallastError, InvalidInput

URL = "BALLAST_AIRFLOW_URL"
TOKEN = "BALLAST_AIRFLOW_TOKEN"  # noqa: S105 - the name of a variable
USER = "BALLAST_AIRFLOW_USER"
PASSWORD = "BALLAST_AIRFLOW_PASSWORD"  # noqa: S105 - the name of a variable
DEFAULT_URL = "http://127.0.0.1:8080"


def add_access_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--url`` and ``--user``."""
    parser.add_argument("--url", metavar="URL", help=f"Airflow ({URL}, default {DEFAULT_URL})")
    parser.add_argument(
        "--user", metavar="NAME",
        help=f"log in by password ({USER}); it is asked for, or {PASSWORD}. Without a user the "
        f"token in {TOKEN} is used",
    )  # fmt: skip


def client_of(
    args: argparse.Namespace, environment: Mapping[str, str] | None = None
) -> AirflowClient:
    """Make a client for the user of the command.

    Args:
        args: ``url`` and ``user``; an argument takes precedence over its variable.
        environment: the variables; those of the process by default.

    Raises:
        InvalidInput: the address is not one of the web, or neither a token nor a user is set, or
            the password is needed and there is no terminal to ask for it.
    """
    env = os.environ if environment is None else environment
    url = args.url or env.get(URL) or DEFAULT_URL
    if not url.startswith(("http://", "https://")):
        raise InvalidInput(
            f"{url!r} is not the address of an Airflow", value=url,
            allowed="http:// or https://", remedy=f"set {URL}, for example {DEFAULT_URL}",
        )  # fmt: skip
    if url.startswith("http://") and not is_this_machine(url):
        print(f"ballast: {url} is not encrypted; the login can be read on its way", file=sys.stderr)
    token = env.get(TOKEN)
    user = args.user or ("" if token else env.get(USER, ""))
    if user:
        return AirflowClient(url, user, env.get(PASSWORD) or _asked_password(user, url))
    if token:
        return AirflowClient(url, token=token)
    raise InvalidInput(
        f"Airflow at {url} needs a login",
        remedy=f"set {TOKEN}, or name yourself by --user or {USER}",
    )


@contextmanager
def explained(client: AirflowClient, what: str) -> Iterator[None]:
    """Replace an error of the API by one that says what failed and how to fix it.

    Args:
        client: the client that the block uses.
        what: what the block does, as a verb phrase such as "start a run".

    Raises:
        BallastError: the block raised an ``ApiError``; the message is one line.
    """
    try:
        yield
    except ApiError as error:
        raise _explained(client, what, error) from error


def _explained(client: AirflowClient, what: str, error: ApiError) -> BallastError:
    who = f"user {client.username}" if client.username else f"the user of {TOKEN}"
    cannot = f"cannot {what}"
    if isinstance(error, NoAnswer):
        return NoAnswer(
            f"{cannot}: {error}; to fix it: start Airflow (`make run`), or set {URL} to its address"
        )
    if isinstance(error, LoginRefused):
        wrong = f"{who} or the password" if client.username else "the token, or it has expired"
        fix = "check both" if client.username else f"set {TOKEN} to a fresh one, or pass --user"
        return LoginRefused(
            f"{cannot}: Airflow at {client.base_url} does not accept {wrong}; to fix it: {fix}",
            status=error.status,
        )
    if isinstance(error, NoRight):
        return NoRight(
            f"{cannot}: {who} may not: {error.detail}; to fix it: ask who runs Airflow for the "
            "right to edit this DAG",
            status=error.status,
        )
    if error.status in (400, 422):
        return InvalidInput(f"{cannot}: Airflow refuses it: {' '.join(error.detail.split())}")
    return ApiError(f"{cannot}: {error}", status=error.status, detail=error.detail)


def _asked_password(user: str, url: str) -> str:
    if not sys.stdin.isatty():
        raise InvalidInput(
            f"the password of {user} for {url} cannot be asked for: this is no terminal",
            remedy=f"set {PASSWORD} or {TOKEN}",
        )
    return getpass.getpass(f"Password of {user} for {url}: ", stream=sys.stderr)
