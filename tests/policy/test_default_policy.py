"""The shipped rules say what the shipped table of cases says they do."""

from __future__ import annotations

import pytest
from tests.policy.rulebook import ANN, policy_of, rule, thing

from fixtures.all_cases import all_cases
from paddock.cli.output.explanation_text import decision_lines
from paddock.host.policy.rule_change import newly_failed_cases
from paddock.manifest.capability import HostService
from paddock.policy.cases import PolicyCase, find_failed_cases, parse_cases, read_case_file, read_cases
from paddock.policy.decision import Ask, Deny
from paddock.policy.explain import explain
from paddock.policy.principal import PolicyPrincipal
from paddock.policy.request import build_call_request, build_use_request
from paddock.policy.rules import DEFAULT_RULES
from paddock.policy.schema import build_vocabulary
from paddock.policy.target import capability_target

POLICY = policy_of(shipped=True)
CASES = read_cases(read_case_file(), build_vocabulary())


@pytest.mark.req("K-15", "by tags")
@pytest.mark.req("K-15", "by effects")
@pytest.mark.req("K-15", "the documented policy is the default")
@all_cases("case", CASES, ids=lambda case: f"{case.name} ({case.request.target})")
def test_each_shipped_case_comes_out_as_the_table_says(case: PolicyCase) -> None:
    assert find_failed_cases(POLICY, [case]) == []


def test_every_shipped_rule_decides_a_case_by_itself_or_with_others() -> None:
    deciding = {rule for case in CASES for rule in POLICY.decide(case.request).policies}

    assert deciding == POLICY.rules.by_id.keys()


@pytest.mark.req("K-01", "an agent has no effect and writes nothing")
@pytest.mark.req("K-01", "a tool writes nothing and reads through the host")
@pytest.mark.req("K-01", "an adapter never writes")
@all_cases("effect", ["db_write", "external_send", "temp_write", "final_write", "memory_write"])
@all_cases("kind", ["agent", "tool", "adapter"])
def test_nobody_gets_a_plugin_to_act_whose_kind_does_not_act(kind: str, effect: str) -> None:
    everything = PolicyPrincipal("User", "user:eve", "default", frozenset({"operator", "member", "approver"}))

    assert isinstance(POLICY.decide(build_call_request(everything, thing("it", effect, kind=kind))), Deny)


def test_an_agent_is_denied_what_is_not_on_its_allowlist_whatever_roles_it_has() -> None:
    agent = PolicyPrincipal("Agent", "agent:x", "default", frozenset({"operator"}), may_call=frozenset({"notes.list"}))

    assert POLICY.decide(build_call_request(agent, thing("notes.add"))).policies == ("agents-off-their-allowlist",)


@pytest.mark.req("S-34", "the stricter decides")
def test_of_a_plugins_wish_and_the_rules_the_stricter_decides() -> None:
    from msgspec.structs import replace

    wanted = replace(thing("mail.mark", "unknown"), requires_approval=True)

    decision = POLICY.decide(build_call_request(ANN, wanted))

    assert isinstance(decision, Ask)
    assert (decision.kind, decision.remember) == ("action", "never")


@pytest.mark.req("O-20", "blocked")
def test_of_a_constitutional_violation_users_learn_that_something_was_blocked_and_admins_what() -> None:
    plugin = PolicyPrincipal("Plugin", "sly", "default")
    vault = capability_target(HostService("vault", "write"), writes=True)
    request = build_use_request(plugin, vault, method="vault.write", granted=True, call_effects=["read_only"])

    decision = POLICY.decide(request)

    assert isinstance(decision, Deny)
    assert decision.caller_reason == "Something was blocked."
    assert "remembered about a person" in decision.reason
    assert decision_lines(explain(POLICY, request, withhold=True).to_value()) == [
        "sly may not use host:vault:write.",
        "  Something was blocked.",
    ]
    assert "constitution-user-sovereignty" in "\n".join(decision_lines(explain(POLICY, request).to_value()))


def test_the_stricter_examples_are_rules_once_the_slashes_are_gone() -> None:
    commented = DEFAULT_RULES.read_text().partition("Copy into a file of your own")[2].splitlines()[1:]
    policy = policy_of("\n".join(line.removeprefix("//") for line in commented), shipped=True)

    sending = thing("post.card", "external_send")
    final = policy.decide(build_call_request(ANN, thing("files.publish", "final_write")))

    assert policy.decide(build_call_request(ANN, sending)).policies == ("unsigned-plugins-send-nothing",)
    assert isinstance(final, Ask)
    assert (final.quorum, final.four_eyes) == (2, True)


def test_a_case_that_newly_fails_is_not_hidden_by_one_of_the_same_name_that_failed_before() -> None:
    name = "a member reads unattended"  # a shipped one, which fails already
    nothing_of_notes = rule(
        "no-notes", 'forbid (principal, action in Action::"anyCall", resource == Callable::"notes.list")'
    )
    nothing = rule("nothing", 'forbid (principal, action in Action::"anyCall", resource)')
    text = f"cases:\n  - {{name: {name}, who: member, what: parrot.say, expect: allow}}\n"
    own = read_cases(parse_cases(text), build_vocabulary())

    before, after = (policy_of(one, shipped=True) for one in (nothing_of_notes, nothing))
    assert name in [one.case.name for one in find_failed_cases(before, CASES)]
    newly = [one.name for one in newly_failed_cases(before, after, own)[1]]
    assert newly.count(name) == 1, "the shipped one does not fail newly"
