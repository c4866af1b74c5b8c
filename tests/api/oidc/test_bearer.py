"""Access tokens of a real provider, brought to a real daemon."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.mcp.odd_http import odd_server

from fixtures.commands import Paddock
from fixtures.daemons import Answer, Daemon, LocalConnection, daemon, eventually
from fixtures.identity_provider import IdentityProvider, identity_provider
from fixtures.packages import write_file, write_json
from fixtures.parrot import parrot

PUBLIC = "https://paddock.example.org"
RESOURCE = f"{PUBLIC}/mcp"
METADATA = f"{PUBLIC}/.well-known/oauth-protected-resource/mcp"
KEPT = """
def run(call):
    return {"status": "succeeded", "result": {"as": call["auth_context"]["scopes"]}}
"""


@dataclass(frozen=True, slots=True)
class Protected:
    """A daemon that takes the tokens of a provider."""

    daemon: Daemon
    provider: IdentityProvider

    def ask(self, token: str, method: str, path: str, body: Any = None) -> Answer:
        return self.daemon.ask(method, path, body, authorization=f"Bearer {token}")

    def token(self, user: str = "sub-ann", **claims: Any) -> str:
        return self.provider.access_token(user, **{"aud": RESOURCE, "scope": "paddock", **claims})


def kept_to_a_scope(folder: Path) -> Path:
    about = {"name": "kept", "type": "operator", "version": "1.0.0", "description": "x", "owner": "us", "effects": []}
    write_json(folder / "manifest.json", about | {"scopes": ["email:send"], "idempotent": True})
    write_json(folder / "paddock.yaml", {"paddock": 1, "runtime": {"module": "thing:run"}})
    write_file(folder / "thing.py", KEPT)
    return folder


@pytest.fixture(scope="module")
def protected(tmp_path_factory: pytest.TempPathFactory) -> Generator[Protected, None, None]:
    folder = tmp_path_factory.mktemp("protected")
    with identity_provider() as provider:
        settings = {
            "PADDOCK_OIDC_ISSUER": provider.issuer,
            "PADDOCK_HTTP_PUBLIC_URL": PUBLIC,
            "PADDOCK_OIDC_NAME_CLAIM": "email",
            "PADDOCK_OIDC_REQUIRED_SCOPE": "paddock",
            "PADDOCK_OIDC_TOKEN_SCOPES": "mail=email:send,ops=role:operator",
        }
        paddock = Paddock(folder / "home", more=settings)
        for package in (parrot(folder / "parrot"), kept_to_a_scope(folder / "kept")):
            paddock.quickly("plugin", "install", package, "--yes")
            paddock.quickly("plugin", "enable", package.name)
        for name, subject in (("ann", "sub-ann"), ("olga", "sub-olga"), ("dora", "sub-dora")):
            paddock.quickly("user", "add", name, *(["--role", "operator"] if name == "olga" else []))
            paddock.quickly("user", "identity", "add", name, "--subject", subject)
        paddock.quickly("user", "scope", "add", "ann", "email:send")
        paddock.quickly("user", "disable", "dora")
        with daemon(paddock) as started:
            yield Protected(started, provider)


def test_where_to_ask_for_a_token_is_told_to_whoever_brings_none(protected: Protected) -> None:
    for path in ("/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"):
        connection = LocalConnection(protected.daemon.socket)
        connection.request("GET", path)
        told = json.loads(connection.getresponse().read())
        connection.close()
        assert told["resource"] == RESOURCE
        assert told["authorization_servers"] == [protected.provider.issuer]
        assert told["scopes_supported"] == ["paddock", "mail", "ops"]
    said = protected.ask("made.up.token", "GET", "/plugins")
    assert said.status == 401
    assert said.headers["www-authenticate"] == (
        f'Bearer realm="paddock", error="invalid_token", scope="paddock", resource_metadata="{METADATA}"'
    )


def test_a_token_for_this_host_acts_for_its_person(protected: Protected) -> None:
    said = protected.ask(protected.token(), "POST", "/plugins/parrot/call/say", {"text": "hello"})
    assert (said.status, said.body["result"]["said"]) == (200, "hello")
    assert said.body["result"]["operator"] is None
    entries = json.dumps(protected.daemon.ask("GET", "/ledger?type=call.*").body)
    assert '"token:ann"' in entries and '"user:ann"' in entries


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"aud": "https://paddock.example.org"}, "audience"),
        ({"aud": "https://other.example/mcp"}, "audience"),
        ({"aud": "paddock"}, "audience"),
        ({"aud": None}, "audience"),
        ({"iss": "https://other.example"}, "issuer"),
        ({"exp": 1}, "expired"),
        ({"nbf": 32_503_680_000}, "not_yet_valid"),
        ({"sub": None}, "subject"),
        ({"at_hash": "MTIzNDU2Nzg5MDEyMzQ1Ng"}, "type"),
        ({"c_hash": "MTIzNDU2Nzg5MDEyMzQ1Ng"}, "type"),
        ({"typ": "ID"}, "type"),
        ({"token_use": "id"}, "type"),
    ],
)
def test_a_token_that_is_not_for_this_host_and_now_is_refused_and_says_why(
    protected: Protected, claims: dict[str, Any], reason: str
) -> None:
    said = protected.ask(protected.token(**claims), "GET", "/plugins")
    assert (said.status, said.body["code"], said.body["details"]) == (401, "auth.refused", {"reason": reason})


def test_a_client_that_is_called_like_what_tokens_are_for_is_refused_at_the_start(
    protected: Protected, tmp_path: Path
) -> None:
    """The provider's ID tokens are for the client: anybody whom one was given to could bring it as an access token."""
    settings = {"OIDC_ISSUER": protected.provider.issuer, "HTTP_PUBLIC_URL": PUBLIC, "OIDC_CLIENT_ID": RESOURCE}
    paddock = Paddock(tmp_path / "home", more={f"PADDOCK_{name}": value for name, value in settings.items()})

    said = paddock("serve", "--json", code=6)

    assert said.error["code"] == "oidc.client_is_resource"
    assert "oidc.client_id" in said.error["hint"]


def test_an_opaque_token_is_refused_with_what_to_bring_instead(protected: Protected) -> None:
    said = protected.ask("2YotnFZFEjr1zCsicMWpAA", "GET", "/plugins")
    assert (said.status, said.body["code"]) == (401, "auth.refused")
    assert "JWT" in said.body["hint"] and RESOURCE in said.body["hint"]


def test_a_token_of_nobody_here_or_of_somebody_disabled_is_refused(protected: Protected) -> None:
    for user in ("sub-nobody", "sub-dora"):
        said = protected.ask(protected.token(user), "GET", "/plugins")
        assert (said.status, said.body["code"]) == (401, "auth.refused")


def test_a_token_without_a_scope_that_is_needed_is_told_which(protected: Protected) -> None:
    said = protected.ask(protected.token(scope="mail"), "GET", "/plugins")
    assert (said.status, said.body["code"]) == (403, "auth.insufficient_scope")
    assert said.headers["www-authenticate"] == (
        f'Bearer realm="paddock", error="insufficient_scope", scope="paddock", resource_metadata="{METADATA}"'
    )
    narrow = protected.ask(protected.token(), "POST", "/plugins/kept/execute", {"params": {}})
    assert narrow.status == 403
    assert 'error="insufficient_scope", scope="mail"' in narrow.headers["www-authenticate"]
    wide = protected.ask(protected.token(scope="paddock mail"), "POST", "/plugins/kept/execute", {"params": {}})
    assert (wide.status, "email:send" in str(wide.body)) == (200, True)


def test_a_token_is_an_operators_only_where_its_scopes_say_so(protected: Protected) -> None:
    plain, named = protected.token("sub-olga"), protected.token("sub-olga", scope="paddock ops")
    assert protected.ask(plain, "GET", "/status").status == 403
    assert protected.ask(named, "GET", "/status").status == 200
    assert protected.ask(protected.token(scope="paddock ops"), "GET", "/status").status == 403, "ann is none"


def test_a_token_acts_as_nobody_else(protected: Protected) -> None:
    said = protected.daemon.ask(
        "POST",
        "/plugins/parrot/call/say",
        {"text": "x"},
        authorization=f"Bearer {protected.token()}",
        paddock_as="user:olga",
    )
    assert (said.status, said.body["code"]) == (403, "principal.not_yours")


def test_a_token_stops_with_its_person(protected: Protected) -> None:
    token, paddock = protected.token(), protected.daemon.paddock
    assert protected.ask(token, "GET", "/plugins").status == 200
    paddock("user", "disable", "ann")
    try:
        assert protected.ask(token, "GET", "/plugins").status == 401
    finally:
        paddock("user", "enable", "ann")
    assert protected.ask(token, "GET", "/plugins").status == 200


async def test_no_token_reaches_a_server_behind_this_host(protected: Protected, tmp_path: Path) -> None:
    token, paddock = protected.token(), protected.daemon.paddock
    async with odd_server() as odd:
        source = write_json(tmp_path / "mcp.json", {"mcpServers": {"behind": {"url": odd.url}}})

        def drive() -> None:
            paddock("import", source, "--yes")
            paddock("plugin", "enable", "behind")
            held = protected.ask(token, "POST", "/plugins/behind/call/echo", {"text": "hello"})
            assert held.status == 202, "nobody knows what the server does, so its person is asked"
            approve = f"/approvals/{held.body['approval']['approval']}/approve"
            own = protected.ask(token, "POST", approve, {})
            assert (own.status, own.body["code"]) == (403, "approval.not_yours"), "no program says its own yes"
            assert protected.daemon.ask("POST", approve, {}, paddock_as="user:ann").status == 200
            path = f"/calls/{held.body['call_id']}"
            eventually(lambda: protected.ask(token, "GET", path).body["status"] == "succeeded", "no answer")

        await asyncio.to_thread(drive)
        assert odd.asked("tools/call")
        for request in odd.requests:
            assert "authorization" not in request.headers
            sent = json.dumps([request.target, request.headers, request.message])
            assert token not in sent and token.split(".")[2] not in sent
        await asyncio.to_thread(paddock, "plugin", "remove", "behind", "--yes")
