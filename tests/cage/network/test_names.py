"""The cage's name server: granted names have an address inside, others do not exist, and nothing breaks it."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.cage.network.dns import TTL_S, SyntheticAddresses, answer_query
from paddock.cage.network.relay import NetworkLimits

A, AAAA, TXT = 1, 28, 16
NAMES = {"api.example.com": "127.77.0.2"}


def question(name: str, kind: int = A, *, flags: int = 0x0100, questions: int = 1, internet: int = 1) -> bytes:
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split(".")) + b"\0"
    return struct.pack("!HHHHHH", 0xBEEF, flags, questions, 0, 0, 0) + labels + struct.pack("!HH", kind, internet)


def outcome(data: bytes) -> tuple[int, int, int, int]:
    """Number, response code, questions, answers."""
    number, flags, questions, answers, *_ = struct.unpack_from("!HHHHHH", data)
    assert flags & 0x8000
    return number, flags & 15, questions, answers


@pytest.mark.parametrize("asked", ["api.example.com", "API.Example.COM"])
def test_a_granted_name_has_its_address(asked: str) -> None:
    reply = answer_query(question(asked), NAMES.get)
    assert reply is not None
    assert (reply.name, reply.found) == ("api.example.com", True)
    assert outcome(reply.data) == (0xBEEF, 0, 1, 1)
    assert reply.data.endswith(bytes([127, 77, 0, 2]))


@pytest.mark.parametrize("name", ["c2VjcmV0.evil.example.com", "example.com", "x.api.example.com"])
def test_a_name_that_is_not_granted_does_not_exist(name: str) -> None:
    reply = answer_query(question(name, TXT), NAMES.get)
    assert reply is not None
    assert (reply.name, reply.found) == (name.lower(), False)
    assert outcome(reply.data) == (0xBEEF, 3, 1, 0)


@pytest.mark.parametrize("kind", [AAAA, TXT, 255, 0])
def test_a_granted_name_has_nothing_but_an_ipv4_address(kind: int) -> None:
    reply = answer_query(question("api.example.com", kind), NAMES.get)
    assert reply is not None
    assert outcome(reply.data) == (0xBEEF, 0, 1, 0)


@pytest.mark.parametrize(
    "datagram",
    [
        question("api.example.com", questions=0),
        question("api.example.com", questions=2),
        question("api.example.com")[:-3],
        question("api.example.com")[:12],
        question("bad name.example.com"),
        struct.pack("!HHHHHH", 0xBEEF, 0, 1, 0, 0, 0) + b"\xc0\x0c" + struct.pack("!HH", A, 1),
        question(".".join(["a" * 60] * 6)),
        struct.pack("!HHHHHH", 0xBEEF, 0, 1, 0, 0, 0) + b"\0" + struct.pack("!HH", A, 1),
    ],
    ids=["none", "two", "cut", "no name", "odd letters", "pointer", "too long", "root"],
)
def test_a_question_that_makes_no_sense_is_answered_as_malformed(datagram: bytes) -> None:
    reply = answer_query(datagram, NAMES.get)
    assert reply is not None
    assert outcome(reply.data)[1] == 1
    assert reply.name == ""


def test_answers_and_scraps_are_not_answered_at_all() -> None:
    assert answer_query(question("api.example.com", flags=0x8000), NAMES.get) is None
    assert answer_query(b"\0" * 11, NAMES.get) is None
    assert answer_query(question("api.example.com") + bytes(600), NAMES.get) is None


def test_an_update_is_not_done() -> None:
    reply = answer_query(question("api.example.com", flags=5 << 11), NAMES.get)
    assert reply is not None
    assert outcome(reply.data)[1] == 4


@given(st.binary(max_size=600))
def test_no_datagram_breaks_the_name_server(datagram: bytes) -> None:
    reply = answer_query(datagram, lambda _name: "127.77.0.2")
    assert reply is None or len(reply.data) <= len(datagram) + 16


@given(st.lists(st.sampled_from([f"n{n}.example.com" for n in range(12)])))
def test_a_made_up_address_stands_for_the_name_it_was_given_for_last(names: list[str]) -> None:
    book = SyntheticAddresses("198.18.0.0/15", max_names=5)
    for name in names:
        address = book.address_for(name)
        assert book.name_for(address) == name
        assert book.address_for(name) == address
        assert address.startswith("198.18.0.")
    assert book.name_for("198.19.0.1") is None


def test_an_address_means_nothing_else_while_an_answer_that_gave_it_still_holds() -> None:
    book = SyntheticAddresses("198.18.0.0/15")
    limits = NetworkLimits()
    asked_meanwhile = int(limits.names_a_second * (TTL_S + 1))  # what is saved up at the start counts, too
    for number in range(60_000):
        book.address_for(f"old-{number}.example.com")
    address = book.address_for("old-0.example.com")
    for number in range(asked_meanwhile):
        book.address_for(f"new-{number}.example.com")
    assert book.name_for(address) == "old-0.example.com"


def test_an_address_is_given_out_anew_when_nobody_asked_for_its_name_for_longest() -> None:
    book = SyntheticAddresses("198.18.0.0/15", max_names=2)
    first, second = book.address_for("a"), book.address_for("b")
    assert book.address_for("a") == first
    assert book.address_for("c") == second
    assert (book.name_for(first), book.name_for(second)) == ("a", "c")
