"""Nothing is allowed by default, what is forbidden stays so, and whatever goes wrong is a no."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.policy.rulebook import ANN, BOB, CALL, NOBODY, policy_of, rule, thing

from fixtures.all_cases import all_cases
from paddock.core.call import Principal, PrincipalKind
from paddock.core.ids import PrincipalId
from paddock.policy.decision import Allow, Ask, Deny
from paddock.policy.principal import PolicyPrincipal, to_policy_principal
from paddock.policy.request import CallEnvironment, build_call_request, build_use_request
from paddock.policy.target import CapabilityTarget

ALL = rule("all", f"permit({CALL})")


@pytest.mark.req("S-22", "nothing by default")
def test_what_no_rule_mentions_is_denied_and_no_rule_is_named() -> None:
    policy = policy_of(rule("members", 'permit(principal in Role::"member", action in Action::"anyCall", resource)'))

    decision = policy.decide(build_call_request(BOB, thing()))

    assert decision == Deny((), "no rule allows it", policy.version, "nothing_allows")


def test_without_any_rule_nothing_is_allowed() -> None:
    assert isinstance(policy_of().decide(build_call_request(ANN, thing())), Deny)


@pytest.mark.req("S-22", "allow, deny or ask")
def test_an_allowed_call_names_the_rule_its_text_and_the_version() -> None:
    policy = policy_of(ALL)

    assert policy.decide(build_call_request(ANN, thing())) == Allow(("all",), "The text of all.", policy.version)


@pytest.mark.req("S-22", "deny wins")
def test_what_one_rule_forbids_stays_forbidden_however_many_permit_it() -> None:
    permits = [rule(f"permit-{number}", f"permit({CALL})") for number in range(20)]
    policy = policy_of(*permits, rule("no", f'forbid({CALL}) when {{ resource.effects.contains(Effect::"db_write") }}'))

    assert isinstance(policy.decide(build_call_request(ANN, thing())), Allow)
    assert policy.decide(build_call_request(ANN, thing("notes.add", "db_write"))).policies == ("no",)


@pytest.mark.req("S-22", "allow, deny or ask")
def test_what_is_forbidden_only_without_a_yes_is_asked_about_as_the_rule_says() -> None:
    said = '@approval("gate") @approvers("role:chief, user:eve") @quorum("2") @four_eyes("yes")'
    policy = policy_of(ALL, rule("ask", 'forbid(principal, action == Action::"callUnattended", resource)', said))

    decision = policy.decide(build_call_request(ANN, thing()))

    assert decision == Ask(("ask",), "The text of ask.", policy.version, "gate", ("role:chief", "user:eve"), True, 2)


def test_what_is_allowed_only_with_a_yes_is_asked_about_too() -> None:
    policy = policy_of(
        rule("ask", 'permit(principal, action == Action::"call", resource)', '@approval("confirmation")')
    )

    decision = policy.decide(build_call_request(ANN, thing()))

    assert isinstance(decision, Ask)
    assert (decision.policies, decision.kind) == (("ask",), "confirmation")


def test_a_yes_helps_nobody_who_is_not_allowed_to_call_it() -> None:
    policy = policy_of(rule("ask", 'forbid(principal, action == Action::"callUnattended", resource)'))

    assert isinstance(policy.decide(build_call_request(ANN, thing())), Deny)


def test_where_several_rules_ask_the_strictest_of_each_holds() -> None:
    unattended = 'forbid(principal, action == Action::"callUnattended", resource)'
    policy = policy_of(
        ALL,
        rule("light", unattended, '@approval("confirmation") @remember("plugin")'),
        rule("heavy", unattended, '@approval("action") @approvers("role:a,role:b") @four_eyes("no")'),
        rule("slow", unattended, '@approval("gate") @approvers("role:b,role:c") @quorum("3") @four_eyes("yes")'),
    )

    decision = policy.decide(build_call_request(ANN, thing()))

    assert isinstance(decision, Ask)
    assert decision.policies == ("heavy", "light", "slow")
    assert (decision.kind, decision.approvers, decision.quorum) == ("gate", ("role:b",), 3)
    assert (decision.four_eyes, decision.remember) == (True, "never")


def test_a_question_to_the_person_the_call_is_for_says_nothing_about_four_eyes() -> None:
    unattended = 'forbid(principal, action == Action::"callUnattended", resource)'
    light = rule("light", unattended, '@approval("confirmation")')
    heavy = rule("heavy", unattended, '@approval("action") @four_eyes("no")')

    alone, both = (
        policy_of(ALL, *some).decide(build_call_request(ANN, thing())) for some in ((light,), (light, heavy))
    )

    assert isinstance(alone, Ask) and isinstance(both, Ask)
    assert (alone.four_eyes, both.four_eyes) == (False, False)


def test_where_one_of_the_rules_that_ask_keeps_its_text_from_people_they_are_told_of_none() -> None:
    unattended = 'forbid(principal, action == Action::"callUnattended", resource)'
    policy = policy_of(
        ALL, rule("open", unattended), rule("quiet", unattended, '@public_text("Somebody is asked first.")')
    )

    decision = policy.decide(build_call_request(ANN, thing()))

    assert isinstance(decision, Ask)
    assert (decision.reason, decision.caller_reason) == (
        "The text of open. The text of quiet.",
        "Somebody is asked first.",
    )
    alone = policy_of(ALL, rule("open", unattended)).decide(build_call_request(ANN, thing()))
    assert isinstance(alone, Ask) and alone.caller_reason == "The text of open."


def test_rules_whose_approvers_have_nobody_in_common_deny() -> None:
    unattended = 'forbid(principal, action == Action::"callUnattended", resource)'
    policy = policy_of(
        ALL,
        rule("one", unattended, '@approval("action") @approvers("role:a")'),
        rule("two", unattended, '@approval("action") @approvers("role:b")'),
    )

    decision = policy.decide(build_call_request(ANN, thing()))

    assert isinstance(decision, Deny)
    assert "no approver in common" in decision.reason


@pytest.mark.parametrize(
    "condition",
    [
        'User::"user:eve".scopes.contains("x")',  # somebody whom the request knows nothing of
        "9223372036854775807 + 1 > 0",  # larger than numbers get
    ],
)
def test_a_rule_that_forbids_and_cannot_be_evaluated_denies(condition: str) -> None:
    policy = policy_of(ALL, rule("broken", f"forbid({CALL}) when {{ {condition} }}"))

    decision = policy.decide(build_call_request(ANN, thing()))

    assert isinstance(decision, Deny)
    assert decision.cause == "error"
    assert "broken" in decision.reason
    assert "broken" not in decision.caller_reason


def test_a_rule_that_only_the_second_question_reaches_denies_as_well_when_it_cannot_be_evaluated() -> None:
    attended = 'permit(principal, action == Action::"call", resource)'
    policy = policy_of(
        rule("ask", attended),
        rule("broken", 'forbid(principal, action == Action::"call", resource) when { User::"eve".interactive }'),
    )

    decision = policy.decide(build_call_request(ANN, thing()))

    assert isinstance(decision, Deny)
    assert decision.cause == "error"


@pytest.mark.parametrize(
    "target",
    [thing("notes.add", "db_wrte"), thing(kind="wizard"), thing(tier="best"), thing(signature="scribbled")],
)
def test_a_target_that_does_not_fit_the_schema_is_denied(target: object) -> None:
    decision = policy_of(ALL).decide(build_call_request(ANN, target))  # type: ignore[arg-type]

    assert isinstance(decision, Deny)
    assert decision.cause == "error"


def test_a_question_that_makes_no_sense_is_denied() -> None:
    decision = policy_of(ALL).decide(
        build_use_request(ANN, CapabilityTarget("host:cache", "cache"), method="x", granted=True)
    )

    assert isinstance(decision, Deny)
    assert decision.cause == "error"


@pytest.mark.req("S-22", "allow, deny or ask")
@pytest.mark.parametrize(
    ("kind", "type_"),
    [
        ("person", "User"),
        ("local", "User"),
        ("key", "ApiKey"),
        ("agent", "Agent"),
        ("adapter", "Adapter"),
        ("plugin", "Plugin"),
    ],
)
def test_rules_can_speak_of_every_kind_of_subject(kind: PrincipalKind, type_: str) -> None:
    policy = policy_of(rule("kind", f"permit(principal is {type_}, action, resource is Callable)"))
    principal = Principal(PrincipalId(f"{kind}:x"), kind=kind)

    assert isinstance(policy.decide(build_call_request(to_policy_principal(principal), thing())), Allow)


@all_cases(
    "condition",
    [
        'principal in Group::"crew"',
        'principal in Role::"cook"',
        'principal == User::"user:zoe"',
        'principal.tenant == "acme"',
        'principal.scopes.contains("mail")',
        'principal.consents.contains(Callable::"notes.add")',
        "principal.interactive",
        'resource in Plugin::"notes"',
        'resource == Callable::"notes.add"',
        'resource.kind == Kind::"operator"',
        'resource.tier == Tier::"community"',
        'resource.signature == Signature::"community-signed"',
        'resource.tags.contains(Tag::"pii_access")',
        'resource.effects.contains(Effect::"db_write")',
        "context.background",
        "context.dry_run",
        'context has project && context.project == "house"',
        'context has agent_path && context.agent_path like "team/*"',
    ],
)
def test_rules_can_ask_about_everything_that_is_known(condition: str) -> None:
    zoe = PolicyPrincipal(
        "User",
        "user:zoe",
        "acme",
        frozenset({"cook"}),
        frozenset({"crew"}),
        frozenset({"mail"}),
        frozenset({"notes.add"}),
        interactive=True,
    )
    target = thing(
        "notes.add", "db_write", tags=("pii_access",), kind="operator", tier="community", signature="community-signed"
    )
    policy = policy_of(rule("it", f"permit({CALL}) when {{ {condition} }}"))

    assert isinstance(
        policy.decide(build_call_request(zoe, target, CallEnvironment(True, True, "house", "team/x"))), Allow
    )
    assert isinstance(policy.decide(build_call_request(NOBODY, thing("files.read"))), Deny)


def test_a_tag_that_no_rule_can_name_does_no_harm() -> None:
    assert isinstance(policy_of(ALL).decide(build_call_request(ANN, thing(tags=("invented_by_a_plugin",)))), Allow)


def test_names_may_hold_whatever_names_hold() -> None:
    policy = policy_of(ALL)
    strange = 'a"b\\c\nd::é"'

    decision = policy.decide(
        build_call_request(PolicyPrincipal("User", strange, strange, frozenset({strange})), thing(strange))
    )

    assert isinstance(decision, Allow)


def test_a_pin_changes_with_its_rule_and_with_nothing_else() -> None:
    before, beside = policy_of(ALL), policy_of(ALL, rule("more", f"forbid({CALL}) when {{ context.dry_run }}"))
    after = policy_of(rule("all", f"permit({CALL}) unless {{ context.dry_run }}"))
    request = build_call_request(ANN, thing())

    pins = [policy.rule_pins(policy.decide(request)) for policy in (before, beside, after)]

    assert pins[0] == pins[1] != pins[2]
    assert pins[0][0].startswith("all@")


def test_loading_the_engine_leaves_the_whole_library_to_others_in_the_process() -> None:
    program = (
        "import sys, paddock.policy.cedar; assert 'cedarpy.pst' not in sys.modules\n"
        "from cedarpy import pst\n"
        "import cedarpy\n"
        "text = 'permit (principal, action, resource);'\n"
        "assert isinstance(cedarpy.policies_to_pst(text), pst.PolicySet)\n"
    )

    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
