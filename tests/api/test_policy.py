"""The rules over HTTP: what is in force, and what they would decide."""

from __future__ import annotations

from fixtures.daemons import Daemon


def test_the_rules_in_force_are_listed_with_their_source(served: Daemon) -> None:
    policy = served.ask("GET", "/policy").body

    rules = {rule["id"]: rule for rule in policy["rules"]}
    assert (rules["members-may-call"]["origin"], rules["members-may-call"]["effect"]) == ("shipped", "permit")
    assert "permit" in rules["members-may-call"]["source"]
    assert rules["sending-needs-a-yes"]["asks"] == "action"
    assert policy["load_error"] is None


def test_a_call_that_nobody_made_is_decided_and_described(served: Daemon) -> None:
    tried = served.ask("POST", "/policy/try", {"name": "parrot.say", "principal": "role:guest"}).body
    described = served.ask("POST", "/policy/try", {"name": "mail.send", "effects": ["external_send"]}).body

    assert (tried["who"], tried["roles"], tried["target"]["installed"]) == ("somebody", ["guest"], True)
    assert (described["decision"], described["target"]["installed"]) == ("ask", False)
    unknown = served.ask("POST", "/policy/try", {"name": "a.b", "effects": ["extrenal_send"]})
    assert (unknown.body["code"], unknown.body["hint"]) == ("policy.no_word", "did you mean 'external_send'?")


def test_the_principals_of_another_tenant_do_not_exist_for_it(served: Daemon) -> None:
    tried = served.ask("POST", "/policy/try", {"name": "parrot.say", "principal": "acme/user:ann"})

    assert (tried.status, tried.body["code"]) == (404, "person.not_found")
