"""Every form of a net grant has its place in the cage's own network."""

from __future__ import annotations

import ipaddress

from hypothesis import given
from hypothesis import strategies as st

from paddock.cage.network.dns import SyntheticAddresses
from paddock.cage.plan.network_plan import (
    LOOPBACK,
    SYNTHETIC_PREFIX,
    NetworkPlan,
    PlannedListener,
    etc_file_contents,
    plan_network,
)
from paddock.net.egress import EgressGrant, is_public


def test_without_a_grant_there_is_nothing_to_prepare_and_no_name_resolves() -> None:
    plan = plan_network([])
    assert plan == NetworkPlan() and plan.is_empty
    files = etc_file_contents(plan)
    assert files["/etc/resolv.conf"] == ""
    assert "dns" not in files["/etc/nsswitch.conf"]
    assert files["/etc/hosts"] == "127.0.0.1 localhost cage\n"


def test_a_host_and_port_is_one_listener_that_the_host_name_leads_to() -> None:
    plan = plan_network(
        [EgressGrant("api.example.com", 443), EgressGrant("api.example.com", 80), EgressGrant("other.example", 443)]
    )
    assert plan.listeners == (
        PlannedListener("30.77.0.2", 443, "api.example.com"),
        PlannedListener("30.77.0.2", 80, "api.example.com"),
        PlannedListener("30.77.0.3", 443, "other.example"),
    )
    assert (plan.redirect, plan.routes) == ((), ("30.77.0.2/32", "30.77.0.3/32"))
    assert "30.77.0.3 other.example\n" in etc_file_contents(plan)["/etc/hosts"]


def test_an_address_that_stands_for_a_name_looks_public_and_is_nobody_elses() -> None:
    # Servers that fetch pages refuse names whose address is private, by rules of their own.
    plan = plan_network([EgressGrant("api.example.com", 443), EgressGrant("30.77.0.2", 443), EgressGrant("b.test", 1)])
    assert plan.names == {"api.example.com": "30.77.0.3", "30.77.0.2": "30.77.0.2", "b.test": "30.77.0.4"}
    for address in (plan.names["api.example.com"], SyntheticAddresses(SYNTHETIC_PREFIX).address_for("c.test")):
        assert is_public(address)
        assert ipaddress.ip_address(address).is_global


def test_all_ports_of_a_host_are_redirected_to_one_listener() -> None:
    plan = plan_network([EgressGrant("db.example", None)])
    assert (plan.listeners, plan.redirect, plan.redirect_port) == ((), ("30.77.0.2/32",), 1)
    assert plan.host_for("30.77.0.2") == "db.example"
    assert plan.host_for("30.77.0.9") is None


def test_an_address_stands_for_itself_and_is_made_local() -> None:
    plan = plan_network([EgressGrant("10.0.0.5", 5432), EgressGrant("[2001:db8::1]", None)])
    assert plan.listeners == (PlannedListener("10.0.0.5", 5432, "10.0.0.5"),)
    assert plan.routes == ("10.0.0.5/32", "2001:db8::1/128")
    assert plan.redirect == ("2001:db8::1/128",)


def test_localhost_and_its_address_are_one_place_and_need_no_route() -> None:
    plan = plan_network([EgressGrant("localhost", 8080), EgressGrant("127.0.0.1", 8080), EgressGrant("[::1]", 80)])
    assert plan.listeners == (PlannedListener(LOOPBACK, 8080, "localhost"), PlannedListener("::1", 80, "[::1]"))
    assert plan.routes == ()
    # A client tries every address of a name in turn: one that nobody listens on would only be in the way.
    assert etc_file_contents(plan)["/etc/hosts"].splitlines() == ["127.0.0.1 localhost cage"]


def test_everything_is_redirected_but_the_cages_own_loopback() -> None:
    plan = plan_network([EgressGrant("*", None), EgressGrant("api.example.com", 443), EgressGrant("localhost", 1)])
    assert plan.unrestricted and plan.dns
    assert plan.redirect == ("!127.0.0.0/8",)
    assert plan.routes == ("0.0.0.0/0",)
    # Named hosts are reached like all others; the host's loopback only where it was named, never by `net:*`.
    assert plan.listeners == (PlannedListener(LOOPBACK, 1, "localhost"),)
    assert plan.redirect_port == 2, "port 1 is taken by the grant"


def test_an_address_that_nobody_can_be_reached_at_gets_no_listener() -> None:
    assert (
        plan_network([EgressGrant("0.0.0.0", 80), EgressGrant("[::]", 80), EgressGrant("224.0.0.1", 80)]).listeners
        == ()
    )


hosts = st.sampled_from(["a.example", "b.example", "localhost", "127.0.0.1", "10.1.2.3", "[::1]", "*", "8.8.8.8"])
grants = st.lists(st.builds(EgressGrant, hosts, st.none() | st.integers(1, 65535)), max_size=8)


@given(grants)
def test_no_two_hosts_share_an_address_unless_they_are_one_place(network: list[EgressGrant]) -> None:
    plan = plan_network(network)
    assert plan_network(network) == plan
    shared: dict[str, set[str]] = {}
    for host, address in plan.names.items():
        shared.setdefault(address, set()).add(host)
    assert all(names == {next(iter(names))} or names == {"localhost", "127.0.0.1"} for names in shared.values())
    places = [(listen.address, listen.port) for listen in plan.listeners]
    assert len(places) == len(set(places))
    assert (LOOPBACK, plan.redirect_port) not in places
    for prefix in plan.routes:
        assert prefix == "0.0.0.0/0" or not ipaddress.ip_network(prefix).is_loopback
