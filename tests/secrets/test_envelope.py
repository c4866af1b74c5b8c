"""A sealed secret opens in its own place, with its own key, and nowhere else."""

from __future__ import annotations

import copy
import dataclasses
import traceback

import pytest
from msgspec.structs import replace

from paddock.core.clock import SystemRandom
from paddock.core.errors import HostError
from paddock.core.secret import Secret
from paddock.secrets.envelope import Envelope, SecretVersion, WrappingKey, rewrap, seal, unseal

RANDOM = SystemRandom()
ABOUT = SecretVersion("acme", "user:ann", "api_key", 3)
KEY = WrappingKey(RANDOM.bytes(32))
VALUE = "hunter2-ünï\udc80"


@pytest.mark.req("S-29", "encrypted at rest")
def test_a_value_comes_back_as_it_was_and_stands_nowhere_in_the_envelope() -> None:
    envelope = seal(Secret(VALUE), ABOUT, KEY, RANDOM)
    assert unseal(envelope, ABOUT, KEY) == Secret(VALUE)
    assert b"hunter2" not in envelope.sealed + envelope.wrapped
    assert "hunter2" not in repr(envelope)
    assert KEY.raw.hex() not in repr(KEY)


def test_every_version_has_a_data_key_of_its_own() -> None:
    once, again = (seal(Secret(VALUE), ABOUT, KEY, RANDOM) for _ in range(2))
    assert once.sealed != again.sealed
    mixed = Envelope(once.key_id, once.wrapped, again.sealed)
    with pytest.raises(HostError, match="cannot be opened"):
        unseal(mixed, ABOUT, KEY)


@pytest.mark.parametrize(
    "elsewhere",
    [
        replace(ABOUT, tenant="other"),
        replace(ABOUT, owner=""),
        replace(ABOUT, owner="user:bob"),
        replace(ABOUT, name="api_key2"),
        replace(ABOUT, version=4),
        SecretVersion("acme", "user", "ann\x00api_key", 3),
    ],
)
def test_a_row_that_was_copied_elsewhere_does_not_open_there(elsewhere: SecretVersion) -> None:
    envelope = seal(Secret(VALUE), ABOUT, KEY, RANDOM)
    with pytest.raises(HostError) as refused:
        unseal(envelope, elsewhere, KEY)
    assert refused.value.error_code == "secret.unreadable"


@pytest.mark.req("S-29", "encrypted at rest")
def test_no_flipped_bit_goes_unnoticed_and_no_refusal_tells_the_value() -> None:
    envelope = seal(Secret(VALUE), ABOUT, KEY, RANDOM)
    for part in ("wrapped", "sealed"):
        whole = getattr(envelope, part)
        for bit in range(len(whole) * 8):
            changed = bytearray(whole)
            changed[bit // 8] ^= 1 << bit % 8
            with pytest.raises(HostError) as refused:
                unseal(dataclasses.replace(envelope, **{part: bytes(changed)}), ABOUT, KEY)
            assert "hunter2" not in "".join(traceback.format_exception(refused.value))


@pytest.mark.parametrize("part", ["wrapped", "sealed"])
@pytest.mark.parametrize("cut", [b"", b"x", b"x" * 12, b"x" * 28])
def test_what_is_too_short_is_refused_in_the_same_words(part: str, cut: bytes) -> None:
    envelope = seal(Secret(VALUE), ABOUT, KEY, RANDOM)
    with pytest.raises(HostError, match="cannot be opened"):
        unseal(dataclasses.replace(envelope, **{part: cut}), ABOUT, KEY)


def test_another_key_opens_nothing_until_the_data_key_is_wrapped_with_it() -> None:
    other = WrappingKey(RANDOM.bytes(32))
    envelope = seal(Secret(VALUE), ABOUT, KEY, RANDOM)
    with pytest.raises(HostError):
        unseal(envelope, ABOUT, other)

    moved = rewrap(envelope, ABOUT, KEY, other, RANDOM)

    assert moved.sealed == envelope.sealed, "the value itself was not opened"
    assert unseal(moved, ABOUT, other) == Secret(VALUE)
    with pytest.raises(HostError):
        unseal(moved, ABOUT, KEY)


def test_a_key_of_another_length_is_refused() -> None:
    with pytest.raises(HostError, match="32 bytes"):
        WrappingKey(b"short")
    assert copy.copy(KEY).id == KEY.id
