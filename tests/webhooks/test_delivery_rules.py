"""What leaves, how it is signed, where it may go and when it is tried again: the decisions, without a network."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.webhooks.receiver import signature

from fixtures.all_cases import all_cases
from paddock.config.validators import check_private_networks
from paddock.core.clock import SystemRandom
from paddock.core.errors import Denied, OperatorError
from paddock.core.events.index import EVENT_TYPES
from paddock.core.secret import Secret
from paddock.ledger.entry import LedgerEntry
from paddock.ledger.entry_fields import FACT_FIELDS, PERSONAL_FIELDS
from paddock.queue.schedule import RescheduleAt
from paddock.webhooks.cloud_event import parse_patterns, to_cloud_events
from paddock.webhooks.retry import DeadLettered, DeliveryAttempt, DeliveryRetryPolicy, ReceiverGone, decide_retry
from paddock.webhooks.sender import ReceiverDestinations
from paddock.webhooks.signature import generate_secret, signature_headers

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def entry(kind: str, facts: dict[str, Any], personal: dict[str, Any] | None = None, **more: Any) -> LedgerEntry:
    values: dict[str, Any] = {"plugin": None, "call": None, "request": None, "erased": False, "hash": "00"} | more
    return LedgerEntry("acme", 7, "evt_1", NOW.isoformat(), kind, facts=facts, personal=personal or {}, **values)


@all_cases("kind", sorted(EVENT_TYPES))
def test_of_no_event_anything_personal_leaves_unless_it_was_let(kind: str) -> None:
    facts: dict[str, Any] = dict.fromkeys(map(str, FACT_FIELDS), "fact")
    personal: dict[str, Any] = dict.fromkeys(map(str, PERSONAL_FIELDS), "somebody")
    one = entry(kind, facts, personal, plugin="notes", call="call_1")

    (kept,) = to_cloud_events(one, ("*",), "urn:paddock", personal=False)
    (whole,) = to_cloud_events(one, ("*",), "urn:paddock", personal=True)

    assert "somebody" not in str(kept)
    assert whole["data"]["principal"] == "somebody"
    required = {"specversion", "id", "source", "type"}
    assert required <= kept.keys() and all(isinstance(kept[name], str) for name in kept if name != "data")
    assert all(name.isalnum() and name.islower() for name in kept), "as the specification names attributes"


def test_a_call_that_reached_its_plugin_is_a_tool_that_was_invoked_to_those_who_name_it() -> None:
    facts = {"name": "notes", "method": "add", "duration_ms": 2.5, "success": True}
    reached = entry("call.ended", facts | {"stands_for": ["plugin.method_called"]}, call="call_1")
    denied = entry("call.ended", facts | {"stands_for": []}, call="call_2")

    def types(one: LedgerEntry, *patterns: str) -> list[str]:
        return [
            event["type"].removeprefix("dev.paddock.")
            for event in to_cloud_events(one, patterns, "urn:x", personal=False)
        ]

    assert types(reached, "*") == ["call.ended"]
    assert types(reached, "plugin.*") == ["plugin.tool_invoked"]
    assert types(reached, "call.*", "plugin.tool_invoked") == ["call.ended", "plugin.tool_invoked"]
    assert types(denied, "plugin.*") == []
    ids = [event["id"] for event in to_cloud_events(reached, ("call.*", "plugin.*"), "urn:x", personal=False)]
    assert len(set(ids)) == 2


@pytest.mark.parametrize(
    "word", ["", "call", "call.", "*.ended", "call.*.x", "nothing.*", "call.endet", "dev.paddock."]
)
def test_a_pattern_that_fits_nothing_is_refused(word: str) -> None:
    with pytest.raises(OperatorError):
        parse_patterns([word])


@given(st.binary(), st.integers(0, 2**40))
def test_a_body_is_signed_as_the_specification_says_and_a_changed_one_is_not(body: bytes, at: int) -> None:
    secrets = [generate_secret(SystemRandom()) for _ in range(2)]
    headers = dict(signature_headers("evt_1", at, body, secrets))
    given = headers["webhook-signature"].split(" ")

    assert given == [signature(one.reveal(), "evt_1", str(at), body) for one in secrets]
    assert signature(secrets[0].reveal(), "evt_1", str(at), body + b"x") not in given
    assert signature(secrets[0].reveal(), "evt_1", str(at + 1), body) not in given


def test_a_signature_is_the_one_that_the_specification_shows() -> None:
    """The example of the Standard Webhooks specification."""
    secret = Secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    body = b'{"test": 2432232314}'
    headers = dict(signature_headers("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body, [secret]))
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert len(base64.b64decode(generate_secret(SystemRandom()).reveal().removeprefix("whsec_"))) == 32


@dataclass(frozen=True, slots=True)
class Chance:
    byte: int

    def bytes(self, count: int) -> bytes:
        return bytes([self.byte]) * count


@pytest.mark.parametrize(
    ("attempt", "tried", "verdict"),
    [
        (DeliveryAttempt(410, "status.410"), 1, ReceiverGone()),
        (DeliveryAttempt(500, "status.500"), 5, DeadLettered()),
        (DeliveryAttempt(reason="timeout"), 5, DeadLettered()),
        (DeliveryAttempt(422, "status.422"), 3, DeadLettered()),
    ],
)
def test_what_becomes_of_an_attempt(attempt: DeliveryAttempt, tried: int, verdict: object) -> None:
    assert decide_retry(attempt, tried, NOW, Chance(0), DeliveryRetryPolicy(max_attempts=5)) == verdict


@given(st.integers(1, 13), st.integers(0, 255), st.floats(0, 10**9))
def test_pauses_double_with_some_chance_and_are_no_shorter_than_the_receiver_asks_and_never_endless(
    tried: int, byte: int, wait: float
) -> None:
    verdict = decide_retry(
        DeliveryAttempt(503, "status.503", wait),
        tried,
        NOW,
        Chance(byte),
        DeliveryRetryPolicy(max_attempts=14, first_backoff_s=5),
    )
    assert isinstance(verdict, RescheduleAt)
    seconds = (verdict.due - NOW).total_seconds()
    expected = min(5 * 2 ** (tried - 1), 4 * 3600)
    assert seconds >= min(wait, 86_400) - 0.001
    assert expected - 0.001 <= seconds <= max(expected * 1.2, min(wait, 86_400)) + 0.001


@pytest.mark.parametrize(
    ("private", "url", "code"),
    [
        ([], "https://127.0.0.1/", "webhook.not_allowed"),
        ([], "https://[::ffff:127.0.0.1]/", "http.odd_address"),
        ([], "https://0x7f.1/", "http.odd_address"),
        ([], "https://192.168.1.1/", "webhook.not_allowed"),
        ([], "https://example.com:25/", "webhook.not_allowed"),
        ([], "http://8.8.8.8/", "webhook.not_https"),
        (["10.0.0.0/8"], "https://11.0.0.1:22/", "webhook.not_allowed"),
        (["127.0.0.1:5678"], "http://127.0.0.1:5679/", "webhook.not_allowed"),
        (["10.0.0.0/8"], "http://10.1.2.3:25/", None),
        (["[::1]:80"], "http://[::1]/", None),
        (["127.0.0.1:5678"], "http://127.0.0.1:5678/", None),
        ([], "https://example.com/", None),
    ],
)
def test_where_a_webhook_may_lead(private: list[str], url: str, code: str | None) -> None:
    receivers = ReceiverDestinations(private)
    if code is None:
        assert receivers.validate_url(url).url == url.replace(":443", "")
        return
    with pytest.raises(Denied) as refused:
        receivers.validate_url(url)
    assert refused.value.error_code == code


@pytest.mark.parametrize(
    "written", ["localhost", "10.0.0.1:0", "10.0.0.1:", "[::1]80", "10.0.0.0/33", "10.0.0.1/8", ""]
)
def test_a_private_receiver_is_an_address_or_a_network(written: str) -> None:
    assert check_private_networks([written]) is not None
    assert check_private_networks(["10.0.0.0/8", "127.0.0.1:5678", "::1", "[fd00::]:80", "[fd00::/8]"]) is None
