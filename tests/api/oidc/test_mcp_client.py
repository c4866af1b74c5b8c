"""The official MCP client gets itself a token: told where by the host, from a real provider, with a person's yes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from mcp.client.auth import OAuthClientProvider
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl
from tests.api.oidc.signing_in import Place, place

from fixtures.browsing import Browser
from fixtures.commands import PATIENCE
from fixtures.daemons import ask
from fixtures.identity_provider import identity_provider
from fixtures.parrot import parrot

BACK = "http://127.0.0.1:9/back"  # where a client on the person's machine would listen


@dataclass
class Person:
    """Somebody whom a client sends to the provider's page, and who agrees; also what the client keeps."""

    who: str
    sent_to: list[str] = field(default_factory=list[str])
    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None
    came_back: str = ""

    async def agree(self, url: str) -> None:
        self.sent_to.append(url)
        self.came_back = (await asyncio.to_thread(Browser().open, url, {"user": self.who})).location

    async def back(self) -> AuthorizationCodeResult:
        said = {name: values[0] for name, values in parse_qs(urlsplit(self.came_back).query).items()}
        return AuthorizationCodeResult(code=said["code"], state=said.get("state"), iss=said.get("iss"))

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Generator[Place, None, None]:
    folder = tmp_path_factory.mktemp("behind")
    with identity_provider() as provider:
        provider.users = {"sub-ann": {}, "sub-bob": {}}
        needed = {"OIDC_REQUIRED_SCOPE": "paddock"}
        with place(provider, folder, needed, plugin=parrot(folder / "parrot")) as started:
            started.paddock("user", "identity", "add", "ann@example.org", "--subject", "sub-ann")
            yield started


def signing(place: Place, person: Person) -> OAuthClientProvider:
    about = OAuthClientMetadata(
        client_name="A test",
        redirect_uris=[AnyUrl(BACK)],
        token_endpoint_auth_method="none",
        grant_types=["authorization_code"],
    )
    return OAuthClientProvider(f"{place.url}/mcp", about, person, person.agree, person.back)


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_client_that_brings_nothing_finds_the_provider_registers_and_calls_tools_for_its_person(
    behind: Place, mode: Any
) -> None:
    ann = Person("sub-ann")
    async with (
        httpx2.AsyncClient(auth=signing(behind, ann), timeout=PATIENCE) as http,
        Client(streamable_http_client(f"{behind.url}/mcp", http_client=http), mode=mode) as client,
    ):
        said = await client.call_tool("parrot__say", {"text": "hello"})
    assert said.structured_content is not None and said.structured_content["said"] == "hello"
    assert len(ann.sent_to) == 1 and ann.client is not None and ann.client.client_id in behind.provider.clients
    asked = parse_qs(urlsplit(ann.sent_to[0]).query)
    assert asked["resource"] == [f"{behind.url}/mcp"]
    assert asked["scope"] == ["paddock"]
    entries = ask(behind.paddock.home / "run" / "paddock.sock", "GET", "/ledger?type=call.*").body
    assert '"token:ann@example.org"' in json.dumps(entries)


async def test_a_client_whose_person_is_nobody_here_gets_nothing(behind: Place) -> None:
    bob = Person("sub-bob")
    async with httpx2.AsyncClient(auth=signing(behind, bob), timeout=PATIENCE) as http:
        # A client that is refused with a fresh token would begin again and again; one round says it all.
        first = await http.post(f"{behind.url}/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "ping"})
    assert bob.tokens is not None, "the provider gave it one"
    assert (first.status_code, first.json()["error"]["data"]["code"]) == (401, "auth.refused")


def test_what_is_refused_at_the_gateway_says_where_to_get_a_token_and_with_which_scope(behind: Place) -> None:
    resource, metadata = f"{behind.url}/mcp", f"{behind.url}/.well-known/oauth-protected-resource/mcp"
    tokens = {
        "": 'Bearer realm="paddock", ',
        behind.provider.access_token("sub-ann", aud="https://other.example/mcp", scope="paddock"): (
            'Bearer realm="paddock", error="invalid_token", '
        ),
        behind.provider.access_token("sub-ann", aud=resource): ('Bearer realm="paddock", error="insufficient_scope", '),
    }
    for token, begins in tokens.items():
        said = Browser().open(resource, {}, **({"authorization": f"Bearer {token}"} if token else {}))
        assert said.status == (403 if "insufficient" in begins else 401)
        assert said.headers["www-authenticate"] == f'{begins}scope="paddock", resource_metadata="{metadata}"'
