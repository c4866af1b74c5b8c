"""A daemon on TCP whose people sign in with a provider, and their browsers."""

from __future__ import annotations

import socket
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from tests.cli.secrets.test_cli_secret import with_stdin

from fixtures.browsing import Browser, Page
from fixtures.commands import Paddock
from fixtures.daemons import Daemon, daemon
from fixtures.identity_provider import Client, IdentityProvider

SECRET = "what-the-provider-gave-us"
CLIENT = "paddock"


@dataclass(frozen=True, slots=True)
class Place:
    """Where people sign in."""

    url: str
    daemon: Daemon
    provider: IdentityProvider

    @property
    def paddock(self) -> Paddock:
        return self.daemon.paddock

    @property
    def callback(self) -> str:
        return f"{self.url}/auth/oidc/callback"

    def go(self, browser: Browser, user: str, after: str = "/healthz") -> Page:
        """Sign in at the provider; the page has the way back, which is not gone yet."""
        there = browser.visit(f"{self.url}/auth/oidc/start?next={after}")
        return browser.submit(there, user=user, until=self.callback)

    def sign_in(self, browser: Browser, user: str, after: str = "/healthz") -> Page:
        """Sign in and come back."""
        return browser.open(self.go(browser, user, after).location)


@contextmanager
def place(
    provider: IdentityProvider,
    folder: Path,
    settings: Mapping[str, str] = MappingProxyType({}),
    *,
    plugin: Path | None = None,
    public: bool = False,
) -> Generator[Place, None, None]:
    """A daemon for a provider's people; Ann is one of them. With `public` it has no secret there."""
    address = f"127.0.0.1:{free_port()}"
    url = f"http://{address}"
    provider.clients[CLIENT] = Client(CLIENT, None if public else SECRET, (f"{url}/auth/oidc/callback",))
    chosen = {"HTTP_ADDRESS": address, "HTTP_PUBLIC_URL": url, "OIDC_ISSUER": provider.issuer, "OIDC_CLIENT_ID": CLIENT}
    chosen |= {} if public else {"OIDC_CLIENT_SECRET": "oidc-client"}
    paddock = Paddock(
        folder / "home", more={f"PADDOCK_{name}": value for name, value in {**chosen, **settings}.items()}
    )
    with_stdin(paddock, "secret", "set", "oidc-client", stdin=SECRET)
    paddock.quickly("user", "add", "ann@example.org")
    if plugin is not None:
        paddock.quickly("plugin", "install", plugin, "--yes")
        paddock.quickly("plugin", "enable", plugin.name)
    with daemon(paddock) as started:
        yield Place(url, started, provider)


def free_port() -> int:
    """A port that nobody uses right now: the provider has to know it before the daemon starts."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]
