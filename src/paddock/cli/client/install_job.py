"""Follows an installation through the API: its progress, the question to a person, and its end."""

from __future__ import annotations

from collections.abc import Container, Generator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from paddock.cli.client.api_client import ApiClient, ServerEvents
from paddock.cli.output.report import DEBUG_HINT, InterruptedCommand
from paddock.cli.output.status_line import ProgressLine
from paddock.core.error_formats import error_from_problem
from paddock.core.errors import Conflict, HostError, PaddockError

_CANCEL_TIMEOUT_S = 10.0  # for a job to stop after Ctrl-C
_STOP_TEXTS = {
    "cancelled": "the installation was cancelled, and nothing was changed",
    "expired": "the question was not answered in time, and nothing was changed",
    "closing": "the host stopped before the question was answered, and nothing was changed",
}


class FollowedInstall:
    """An installation that this command started."""

    def __init__(self, client: ApiClient, path: str, events: ServerEvents) -> None:
        self._client = client
        self._path = path
        self._events = events

    def wait_for_proposal(self) -> dict[str, Any]:
        """Return the installation once it waits for consent, or is done because there is nothing to change.

        Raises:
            PaddockError: it failed; or the daemon went away.
        """
        return self._wait({"waiting", "done"})

    def confirm(self, consent: Mapping[str, Any]) -> dict[str, Any]:
        """Send a person's consent, and return the installation once it is done.

        Raises:
            NeedsConsent: the consent does not cover what would be installed.
            PaddockError: it failed; or the daemon went away.
        """
        self._client.post(f"{self._path}/confirm", dict(consent))
        return self._wait({"done"})

    def _wait(self, stages: Container[str]) -> dict[str, Any]:
        with ProgressLine() as line:
            for _, install in self._events:
                if install["stage"] in stages:
                    return install
                self._raise_failure(install)
                line.show(install["progress"]["step"], install["progress"]["files"])
        raise HostError("the daemon went away before the installation ended", code="daemon.lost")

    def _raise_failure(self, install: Mapping[str, Any]) -> None:
        if install["stage"] == "cancelled":
            raise Conflict(_STOP_TEXTS[install["stop_reason"]], code="install.cancelled", hint="run the command again")
        if install["stage"] == "failed":
            error = error_from_problem(install["error"])
            if error.error_code == "internal" and not self._client.has_daemon:
                error = error.with_remedy(hint=DEBUG_HINT)  # there is no daemon's log to look at
            raise error


@contextmanager
def start_install(client: ApiClient, body: Mapping[str, Any]) -> Generator[FollowedInstall, None, None]:
    """Start an installation. Leaving the block before its end cancels it.

    Raises:
        PaddockError: it cannot be started.
        InterruptedCommand: Ctrl-C came too late to cancel it.
    """
    path = ""
    try:
        with client.stream_post("/installs", dict(body)) as (install_id, events):
            path = f"/installs/{install_id}"
            yield FollowedInstall(client, path, events)
    except KeyboardInterrupt:
        outcome = _cancel(client, path) if path else None
        if outcome is None:
            raise
        message = f"{outcome['name']} {outcome['version']} is {outcome['action']}: it was too late to cancel that"
        raise InterruptedCommand(Conflict(message, hint=message)) from None


def _cancel(client: ApiClient, path: str) -> dict[str, Any] | None:
    """Cancel an installation; return its outcome if it was complete already."""
    with suppress(PaddockError, KeyboardInterrupt):
        return client.post(f"{path}/cancel", timeout_s=_CANCEL_TIMEOUT_S)["outcome"]
    return None
