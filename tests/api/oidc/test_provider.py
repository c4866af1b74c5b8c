"""A provider that changes its keys, goes away, or is another one than it says."""

from __future__ import annotations

import asyncio
import socket
import time
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from fixtures.identity_provider import IdentityProvider
from paddock.core.errors import Denied, Unreachable
from paddock.web.oidc.provider import FRESH_S, MAX_STALE_S, REFETCH_INTERVAL_S
from paddock.web.oidc.provider import IdentityProvider as Provider
from paddock.web.oidc.tokens import UnknownSigningKey


@dataclass
class LaterClock:
    """The real time, and as much later as a test says."""

    later: float = 0.0

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic() + self.later


async def test_what_it_publishes_is_fetched_once_for_many_tokens(provider: IdentityProvider) -> None:
    asked = Provider(provider.issuer, LaterClock())
    for _ in range(5):
        _, claims = await asked.verify_token(provider.access_token("sub-ann"))
        assert claims["sub"] == "sub-ann"
    assert provider.asked == ["/.well-known/openid-configuration", "/jwks"]


async def test_a_new_key_is_looked_for_once_and_made_up_ones_make_nobody_look(provider: IdentityProvider) -> None:
    clock = LaterClock()
    asked = Provider(provider.issuer, clock)
    await asked.verify_token(old := provider.access_token("sub-ann"))
    provider.rotate()
    clock.later = REFETCH_INTERVAL_S + 1
    await asked.verify_token(provider.access_token("sub-ann"))
    assert provider.asked.count("/jwks") == 2
    for _ in range(20):
        with pytest.raises(UnknownSigningKey):
            await asked.verify_token(old)  # signed with what is not published any more
    assert provider.asked.count("/jwks") == 2
    clock.later += REFETCH_INTERVAL_S + 1
    with pytest.raises(UnknownSigningKey):
        await asked.verify_token(old)
    assert provider.asked.count("/jwks") == 3


async def test_what_it_said_counts_for_a_day_while_it_does_not_answer(provider: IdentityProvider) -> None:
    clock = LaterClock()
    asked = Provider(provider.issuer, clock)
    token = provider.access_token("sub-ann")
    await asked.verify_token(token)
    provider.about["jwks_uri"] = f"{provider.issuer}/nothing-there"
    clock.later = FRESH_S + 1
    await asked.verify_token(token)
    assert provider.asked.count("/nothing-there") == 1
    clock.later = MAX_STALE_S + 1
    with pytest.raises(Unreachable):
        await asked.verify_token(token)


async def test_while_one_asks_a_provider_that_hangs_all_others_go_on_with_what_it_said(
    provider: IdentityProvider,
) -> None:
    clock = LaterClock()
    asked = Provider(provider.issuer, clock)
    token = provider.access_token("sub-ann")
    await asked.verify_token(token)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        provider.about["jwks_uri"] = f"http://127.0.0.1:{silent.getsockname()[1]}/jwks"
        clock.later = FRESH_S + 1
        first = asyncio.ensure_future(asked.verify_token(token))
        silent.settimeout(5)
        connection, _ = await asyncio.to_thread(silent.accept)
        async with asyncio.timeout(1):
            _, claims = await asked.verify_token(token)
        assert claims["sub"] == "sub-ann" and not first.done()
        connection.close()
        await first


async def test_a_provider_that_cannot_be_reached_is_not_tried_again_for_everybody() -> None:
    asked = Provider("http://127.0.0.1:9", LaterClock())
    with pytest.raises(Unreachable) as first:
        await asked.metadata()
    with pytest.raises(Unreachable) as second:
        await asked.metadata()
    assert second.value is first.value
    assert first.value.error_code == "oidc.unusable"


@pytest.mark.parametrize(
    ("odd", "words"),
    [
        ({"issuer": "https://other.example"}, "calls itself https://other.example"),
        ({"id_token_signing_alg_values_supported": ["HS256", "none"]}, "signs with nothing"),
        ({"code_challenge_methods_supported": ["plain"]}, "PKCE"),
        ({"token_endpoint": "http://other.example/token"}, "no token_endpoint over https"),
        ({"jwks_uri": "file:///etc/passwd"}, "no jwks_uri over https"),
        ({"authorization_endpoint": None}, "no authorization_endpoint"),
    ],
)
async def test_a_provider_that_describes_itself_oddly_is_not_used(
    provider: IdentityProvider, odd: dict[str, object], words: str
) -> None:
    provider.about |= odd
    with pytest.raises(Unreachable, match=words):
        await Provider(provider.issuer, LaterClock()).metadata()


async def test_a_code_that_the_provider_does_not_know_is_refused(provider: IdentityProvider) -> None:
    with pytest.raises(Denied) as refused:
        await Provider(provider.issuer, LaterClock()).exchange_code(
            "made-up", "v" * 43, redirect_uri="http://127.0.0.1/", client_id="paddock", secret=None
        )
    assert refused.value.error_code == "sign_in.code_refused"
    assert "made-up" not in str(refused.value)
