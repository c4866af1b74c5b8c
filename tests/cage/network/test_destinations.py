"""Which host a plugin may mean, and which address may be dialled for it."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.all_cases import all_cases
from paddock.cage.network.relay import DENIAL_WINDOW_S, MAX_DISTINCT_DENIALS, DenialAggregator, NetworkDenial, RatePacer
from paddock.net.egress import NOT_GRANTED, EgressGrant, EgressPolicy, is_public

_PRIVATE = """
0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.127.255.255 127.0.0.1 127.8.9.10 169.254.169.254 172.16.0.1
172.31.255.255 192.0.0.1 192.0.2.1 192.88.99.1 192.168.0.1 198.18.0.1 198.19.255.255 198.51.100.7 203.0.113.7
224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255
:: ::1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 ::ffff:127.0.0.1 ::10.0.0.1 64:ff9b::10.0.0.1 64:ff9b::a9fe:a9fe
64:ff9b:1::1 100::1 2001::1 2001:db8::1 2002:a00:1::1 3fff::1 5f00::1 fc00::1 fd00:ec2::254 fe80::1 fe80::1%eth0
fec0::1 ff02::1
"""
_PUBLIC = """
1.1.1.1 8.8.8.8 100.63.255.255 172.32.0.1 192.0.1.1 198.20.0.1 2606:4700::1111 64:ff9b::8.8.8.8 ::ffff:8.8.8.8
"""
PRIVATE, PUBLIC = _PRIVATE.split(), _PUBLIC.split()


@all_cases("address", PRIVATE)
def test_an_address_that_not_everybody_could_have_is_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_an_address_of_the_internet_is_public(address: str) -> None:
    assert is_public(address)


@given(st.ip_addresses())
def test_nothing_is_public_that_the_standard_library_knows_to_be_special(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    if address.is_private or address.is_loopback or address.is_link_local or address.is_multicast:
        assert not is_public(str(address))


@pytest.mark.parametrize("text", ["", "api.example.com", "127.1", "0x7f.1", "2130706433", "010.0.0.1", "1.2.3.4/8"])
def test_what_is_no_plain_address_is_not_public(text: str) -> None:
    assert not is_public(text)


def test_a_grant_of_one_port_allows_that_port_of_that_host() -> None:
    granted = EgressPolicy([EgressGrant("api.example.com", 443)])
    assert granted.allows("api.example.com", 443)
    assert not granted.allows("api.example.com", 80)
    assert not granted.allows("example.com", 443)
    assert not granted.allows("evil-api.example.com", 443)
    assert granted.allows_name("api.example.com")
    assert not granted.allows_name("example.com")


def test_a_grant_of_all_ports_allows_each_of_that_host_alone() -> None:
    granted = EgressPolicy([EgressGrant("api.example.com", None)])
    assert granted.allows("api.example.com", 1)
    assert granted.allows("api.example.com", 65535)
    assert not granted.allows("other.example.com", 443)


def test_a_grant_of_everything_is_everything_public() -> None:
    granted = EgressPolicy([EgressGrant("*", None)])
    assert granted.allows("any.example.com", 25)
    assert granted.allows_address("8.8.8.8", 25)
    for address in PRIVATE:
        assert not granted.allows_address(address, 80)


def test_no_grant_allows_nothing() -> None:
    granted = EgressPolicy([])
    assert not granted.allows("api.example.com", 443)
    assert not granted.allows_name("localhost")


def test_a_granted_name_opens_no_private_address_and_a_granted_address_opens_itself() -> None:
    granted = EgressPolicy([EgressGrant("db.example.com", 5432), EgressGrant("10.0.0.5", 5432)])
    assert granted.allows_address("10.0.0.5", 5432)
    assert not granted.allows_address("10.0.0.5", 22)
    assert not granted.allows_address("10.0.0.6", 5432)
    assert granted.allows_address("8.8.8.8", 5432)


def test_localhost_is_the_two_addresses_of_loopback_and_no_more() -> None:
    granted = EgressPolicy([EgressGrant("localhost", 8080)])
    assert granted.allows_address("127.0.0.1", 8080)
    assert granted.allows_address("::1", 8080)
    assert not granted.allows_address("127.0.0.2", 8080)
    assert not granted.allows_address("127.0.0.1", 8081)


def test_an_ipv6_grant_is_the_same_in_any_spelling() -> None:
    granted = EgressPolicy([EgressGrant("[FD00:0:0::1]", 80)])
    assert granted.grants_address("fd00::1", 80)


def test_one_thing_tried_often_is_told_at_once_and_then_with_its_number() -> None:
    denials = DenialAggregator()
    evil = NetworkDenial("evil.example.com", None, None, NOT_GRANTED)
    assert list(denials.add(evil, 100.0)) == [(evil, 1)]
    for step in range(50):
        assert list(denials.add(evil, 100.0 + step)) == []
    assert list(denials.add(evil, 100.0 + DENIAL_WINDOW_S)) == [(evil, 50), (evil, 1)]
    assert list(denials.flush()) == []


def test_many_different_things_are_told_up_to_a_bound_and_then_only_counted() -> None:
    denials = DenialAggregator()
    told = [
        one for n in range(5000) for one in denials.add(NetworkDenial(f"x{n}.evil", None, None, NOT_GRANTED), 100.0)
    ]
    assert len(told) == MAX_DISTINCT_DENIALS + 1
    assert list(denials.flush()) == [(NetworkDenial("", None, None, NOT_GRANTED), 5000 - MAX_DISTINCT_DENIALS - 1)]


def test_a_pace_lets_a_burst_through_and_then_one_after_the_other() -> None:
    pace = RatePacer(per_second=10, burst=3)
    assert [round(pace.reserve(5.0), 3) for _ in range(5)] == [0, 0, 0, 0.1, 0.2]
    assert pace.reserve(100.0) == 0
