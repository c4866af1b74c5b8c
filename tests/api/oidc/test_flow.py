"""What a browser keeps of a sign-in, and where it goes afterwards."""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64encode

import pytest

from fixtures.all_cases import all_cases
from paddock.core.clock import SystemRandom
from paddock.core.secret import Secret
from paddock.web.oidc.sign_in_flow import (
    FLOW_TTL_S,
    flow_sealing_key,
    new_flow,
    safe_redirect_path,
    seal_flow,
    unseal_flow,
)

NOW = 1_900_000_000.0
RANDOM = SystemRandom()
KEY = flow_sealing_key(None, RANDOM)


def test_a_flow_comes_back_as_it_was_sealed_and_says_nothing_in_between() -> None:
    flow = new_flow(RANDOM, "/plugins", NOW)
    cookie = seal_flow(flow, KEY, RANDOM)
    assert unseal_flow(cookie, KEY, NOW) == flow
    assert flow.state not in cookie
    assert flow.verifier not in cookie
    assert cookie != seal_flow(flow, KEY, RANDOM)


def test_the_challenge_is_the_verifiers_hash() -> None:
    flow = new_flow(RANDOM, "/", NOW)
    digest = urlsafe_b64encode(hashlib.sha256(flow.verifier.encode()).digest()).decode().rstrip("=")
    assert flow.pkce_challenge == digest
    assert len(flow.verifier) >= 43  # RFC 7636


def test_what_is_over_changed_or_of_another_host_is_no_flow() -> None:
    flow = new_flow(RANDOM, "/", NOW)
    cookie = seal_flow(flow, KEY, RANDOM)
    assert unseal_flow(cookie, KEY, NOW + FLOW_TTL_S + 1) is None
    assert unseal_flow(cookie, flow_sealing_key(None, RANDOM), NOW) is None
    assert unseal_flow(cookie[:-4] + "AAAA", KEY, NOW) is None
    for junk in ("", "a", "é", "=" * 9, "A" * 20, "!" * 90):
        assert unseal_flow(junk, KEY, NOW) is None


def test_a_flow_of_another_version_is_none() -> None:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = RANDOM.bytes(12)
    other = urlsafe_b64encode(nonce + AESGCM(KEY).encrypt(nonce, b'{"state": "x"}', b"paddock sign-in")).decode()
    assert unseal_flow(other, KEY, NOW) is None


def test_hosts_with_the_same_client_secret_open_each_others_flows() -> None:
    one, other = (flow_sealing_key(Secret("shared"), RANDOM) for _ in range(2))
    assert unseal_flow(seal_flow(new_flow(RANDOM, "/", NOW), one, RANDOM), other, NOW) is not None


def test_a_state_is_compared_whole() -> None:
    flow = new_flow(RANDOM, "/", NOW)
    assert flow.matches_state(flow.state)
    for other in ("", flow.state[:-1], flow.state + "x", "\udc80"):
        assert not flow.matches_state(other)


@pytest.mark.parametrize("wanted", ["/", "/plugins", "/calls/call_1?tab=events", "/a//b", "/a?next=https://b.example"])
def test_a_place_on_this_host_is_gone_back_to(wanted: str) -> None:
    assert safe_redirect_path(wanted) == wanted


@all_cases(
    "wanted",
    [
        None,
        "",
        "plugins",
        "https://evil.example/",
        "//evil.example",
        "///evil.example",
        "/\\evil.example",
        "\\\\evil.example",
        "/\t/evil.example",
        "/a\r\nset-cookie: x=y",
        "/ /evil.example",
        "javascript:alert(1)",
        "/é",
        "/" + "a" * 1024,
    ],
)
def test_whatever_a_browser_could_take_for_another_host_leads_to_the_front_door(wanted: str | None) -> None:
    assert safe_redirect_path(wanted) == "/"
