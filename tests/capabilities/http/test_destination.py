"""Which web addresses a plugin may mean, and which addresses they may lead to."""

from __future__ import annotations

import contextlib
import ipaddress
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.all_cases import all_cases
from paddock.core.errors import CallerError, Denied
from paddock.manifest.capability import parse_capability
from paddock.net.web_url import WebEgressPolicy, parse_web_url


@pytest.mark.parametrize(
    ("url", "host", "port", "target"),
    [
        ("https://api.example.com", "api.example.com", 443, "/"),
        ("http://API.Example.com:8080/a?b=c#d", "api.example.com", 8080, "/a?b=c"),
        ("https://93.184.216.34/", "93.184.216.34", 443, "/"),
        ("https://[2606:2800:220:1:0:0:0:1]:8443/", "2606:2800:220:1::1", 8443, "/"),
        ("https://xn--bcher-kva.example/", "xn--bcher-kva.example", 443, "/"),
    ],
)
def test_an_ordinary_address_is_read(url: str, host: str, port: int, target: str) -> None:
    place = parse_web_url(url)
    assert (place.origin.host, place.origin.port, place.target) == (host, port, target)
    assert parse_web_url(place.url) == place


@all_cases(
    "host",
    [
        "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.0.0.1", "0177.0.0.1", "127.0.0.01", "010.0.0.1",
        "1.2.3.4.5", "256.1.1.1", "example.0x7f", "0", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]",
        "[64:ff9b::7f00:1]", "[64:ff9b::8.8.8.8]", "[64:ff9b:1::1]", "[2002:7f00:1::]", "[2001:0:7f00:1::]",
        "[fe80::1%25eth0]", "[::ffff:0:127.0.0.1]",
    ],
)  # fmt: skip
def test_an_address_that_others_read_differently_is_refused(host: str) -> None:
    with pytest.raises((Denied, CallerError)) as refused:
        parse_web_url(f"http://{host}/")
    assert refused.value.error_code in ("http.odd_address", "http.bad_url")


_NUMBERS = st.integers(0, 2**32).flatmap(lambda n: st.sampled_from([f"{n}", f"{n:#x}", f"0{n:o}", f"{n % 256}"]))


@given(st.lists(_NUMBERS, min_size=1, max_size=5).map(".".join))
def test_whatever_the_system_takes_for_an_ipv4_address_is_read_as_the_same_or_refused(host: str) -> None:
    with contextlib.suppress(Denied, CallerError, OSError):
        read = parse_web_url(f"http://{host}/").origin.host
        assert ipaddress.IPv4Address(read).packed == socket.inet_aton(host)


@all_cases(
    "url",
    [
        "", "example.com", "//example.com/", "ftp://example.com/", "file:///etc/passwd", "gopher://example.com/",
        "http://", "http://:80/", "http://user@example.com/", "http://user:secret@example.com/", "http://@example.com/",
        "http://example.com\\@evil.example/", "http://example.com:0/", "http://example.com:65536/",
        "http://example.com:/", "http://example.com:٣/", "http://exa mple.com/", "http://example.com/\r\nHost: x",
        "http://example.com./", "http://.example.com/", "http://a..b/", "http://ex%61mple.com/", "http://bücher.example/",
        "http://①②⑦.⓪.⓪.①/", "http://[::1/", "http://example.com/" + "a" * 9000, "http://-a.example/",
        "http://example.com:secret/",
    ],
)  # fmt: skip
def test_what_is_no_plain_web_address_is_refused_without_being_repeated(url: str) -> None:
    with pytest.raises(CallerError) as refused:
        parse_web_url(url)
    assert refused.value.error_code == "http.bad_url" and "secret" not in refused.value.message


def reach(*granted: str) -> WebEgressPolicy:
    return WebEgressPolicy(parse_capability(text) for text in ("host:http", *granted))


def test_a_plugin_that_names_its_hosts_is_held_to_them() -> None:
    named = reach("net:api.example.com:443", "net:files.example.com:*")
    assert named.allows("api.example.com", 443) and named.allows("files.example.com", 8080)
    assert not named.allows("api.example.com", 80) and not named.allows("example.com", 443)
    assert not named.allows("evil.api.example.com", 443)


def test_a_plugin_that_names_none_may_ask_every_public_host_on_the_ports_of_the_web() -> None:
    anywhere = reach("net:[]")
    assert anywhere.allows("example.com", 443) and anywhere.allows("example.com", 8443)
    assert not anywhere.allows("example.com", 25) and not anywhere.allows("example.com", 22)


@pytest.mark.req("S-13", "never the inside of the network")
@all_cases(
    "address",
    [
        "127.0.0.1", "127.8.8.8", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
        "100.100.100.200", "224.0.0.1", "240.0.0.1", "255.255.255.255", "192.0.0.192", "198.18.0.1", "::1", "::",
        "fe80::1", "fd00:ec2::254", "fc00::1", "ff02::1", "::ffff:10.0.0.1", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8",
        "64:ff9b::a00:1", "2002:808:808::", "2001:0:808:808::", "fec0::1", "2001:db8::1", "::8.8.8.8", "nonsense",
    ],
)  # fmt: skip
def test_no_name_may_lead_inside(address: str) -> None:
    assert not reach().allows_address(address, 443)
    assert not reach("net:*").allows_address(address, 443)


def test_a_public_address_may_be_dialled_and_a_private_one_where_a_person_granted_that_very_address() -> None:
    assert reach().allows_address("93.184.216.34", 443) and reach().allows_address("2606:2800:220:1::1", 443)
    granted = reach("net:10.0.0.5:8080")
    assert granted.allows_address("10.0.0.5", 8080)
    assert not granted.allows_address("10.0.0.5", 8081) and not granted.allows_address("10.0.0.6", 8080)
