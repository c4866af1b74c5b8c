"""A decision can be explained: who, what, which rule, and what would have let it happen."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.policy.rulebook import ANN, BOB, policy_of, rule, thing

from paddock.cli.output.explanation_text import decision_lines
from paddock.core.action import Action
from paddock.manifest.capability import StorageAccess
from paddock.policy.explain import Remedy, explain
from paddock.policy.principal import PolicyPrincipal
from paddock.policy.request import build_call_request, build_use_request
from paddock.policy.target import capability_target

POLICY = policy_of(shipped=True)


def ways(subject: PolicyPrincipal, target: object) -> list[tuple[str, str]]:
    explained = explain(POLICY, build_call_request(subject, target))  # type: ignore[arg-type]
    return [(way.change, way.outcome) for way in explained.ways]


def test_a_denial_tells_who_what_which_rule_and_what_would_have_allowed_it() -> None:
    explained = explain(POLICY, build_call_request(BOB, thing("people.find", tags=("pii_access",))))

    assert decision_lines(explained.to_value()) == [
        "user:bob may not call people.find.",
        "  Guests may not call what touches personal data. (rule guests-see-nothing-personal, shipped, "
        f"line {POLICY.rules.by_id['guests-see-nothing-personal'].line})",
        "  it would be allowed if it had not the tag pii_access",
    ]


def test_a_missing_role_is_found() -> None:
    assert ways(BOB, thing("notes.add", "db_write")) == [
        ("user:bob had the role operator", "allowed"),
        ("user:bob had the role member", "allowed"),
    ]


def test_a_role_that_is_in_the_way_is_found() -> None:
    both = replace(ANN, roles=frozenset({"guest", "member"}))

    assert ("user:ann did not have the role guest", "allowed") in ways(both, thing("x.y", tags=("pii_access",)))


def test_a_group_that_is_in_the_way_is_found_with_the_command_that_leaves_it() -> None:
    strict = policy_of(rule("quiet", 'forbid(principal in Group::"night", action, resource)'), shipped=True)
    gus = replace(ANN, id="user:gus", groups=frozenset({"day", "night"}))

    found = explain(strict, build_call_request(gus, thing())).ways

    leave = Action.of("group.member.remove", user="gus", group="night")
    assert found == (Remedy("user:gus were not in the group night", "allowed", leave),)
    elsewhere = explain(strict, build_call_request(replace(gus, tenant="acme"), thing()))
    assert decision_lines(elsewhere.to_value())[-1] == "      → paddock group member remove night gus --tenant acme"


def test_a_missing_role_is_told_with_the_command_that_gives_it() -> None:
    explained = explain(POLICY, build_call_request(BOB, thing("notes.add", "db_write")))

    assert decision_lines(explained.to_value())[-2:] == [
        "  it would be allowed if user:bob had the role member",
        "      → paddock user role add bob member",
    ]
    assert explained.to_value()["would_change_it"][-1].get("action") == {
        "kind": "user.role.add",
        "arguments": {"user": "bob", "role": "member"},
    }


def test_no_command_is_told_about_somebody_made_up() -> None:
    explained = explain(POLICY, build_call_request(BOB, thing("notes.add", "db_write")), described=True)

    assert [way.action for way in explained.ways] == [None, None]


@pytest.mark.parametrize("name", ["local:bob", "user:a;reboot", "user:a b"])
def test_no_command_is_made_of_names_that_nobody_could_have_been_added_with(name: str) -> None:
    explained = explain(POLICY, build_call_request(replace(BOB, id=name), thing("notes.add", "db_write")))

    assert [way.action for way in explained.ways] == [None, None]


def test_a_missing_consent_is_found_and_that_a_person_would_still_be_asked() -> None:
    assert ways(ANN, thing("Gmail.SendEmail", "external_send", kind="operator")) == [
        ("user:ann had enabled it and consented to it", "asked")
    ]


def test_an_agents_allowlist_is_found() -> None:
    agent = PolicyPrincipal("Agent", "agent:x", "default")

    assert ways(agent, thing()) == [("it were on the allowlist of agent:x", "allowed")]


def test_a_missing_approval_is_told() -> None:
    assert ways(ANN, thing("post.card", "external_send")) == [("an approver approves it", "allowed")]


def test_a_missing_grant_is_found() -> None:
    tables = capability_target(StorageAccess("write"), writes=True)
    request = build_use_request(
        PolicyPrincipal("Plugin", "notes", "default"), tables, method="storage.exec", granted=False
    )

    assert explain(POLICY, request).ways == (Remedy("storage:write were granted to notes", "allowed"),)


def test_a_missing_signature_is_found() -> None:
    strict = policy_of(
        '@id("signed") @text("Signed.") forbid(principal, action in Action::"anyCall", resource) '
        'unless { resource.signature == Signature::"verified" };',
        shipped=True,
    )

    found = explain(strict, build_call_request(ANN, thing())).ways

    assert found == (Remedy("a trusted key had signed it", "allowed"),)


def test_what_is_allowed_needs_no_way_out() -> None:
    explained = explain(POLICY, build_call_request(ANN, thing()))

    assert explained.ways == ()
    assert explained.to_value()["decision"] == "allow"
    assert explained.to_value()["policy_version"] == POLICY.version


def test_a_strangers_name_cannot_write_on_the_terminal() -> None:
    strange = PolicyPrincipal("User", "user:\x1b[2Jx", "default")

    assert "\x1b" not in "".join(
        decision_lines(explain(POLICY, build_call_request(strange, thing("a.\x1b"))).to_value())
    )
