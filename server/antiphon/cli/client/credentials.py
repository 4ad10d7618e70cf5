"""The key of a command in the terminal: from the environment, or asked for. Never from the command line, which
every process of the machine can read."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Callable
from typing import TypeVar

import typer

from antiphon.cli.client.endpoint import Endpoint
from antiphon.errors import ClientError

VARIABLE = "ANTIPHON_API_KEY"
_ATTEMPTS = 3
_ASK_AGAIN = frozenset({"authentication_required", "invalid_api_key", "invalid_token", "token_expired"})

_Result = TypeVar("_Result")


def with_key(endpoint: Endpoint, work: Callable[[str | None], _Result]) -> _Result:
    """Do `work` with the key; where it is refused and a person is there, ask and do it again.

    Raises ClientError, as `work` does.
    """
    key = os.environ.get(VARIABLE) or None
    for attempt in range(_ATTEMPTS + 1):
        if key is not None and endpoint.would_show_keys:
            typer.echo(f"{endpoint.origin} is not encrypted: the key can be read on the way.", err=True)
        try:
            return work(key)
        except ClientError as error:
            if error.code not in _ASK_AGAIN or attempt == _ATTEMPTS or not sys.stdin.isatty():
                raise
            typer.echo(error.message, err=True)
        key = getpass.getpass(f"Key for {endpoint.origin}: ").strip() or None
    raise AssertionError("not reached")
