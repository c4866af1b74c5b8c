"""Whoever writes rules learns of every mistake when they are read, with file, line and what was probably meant."""

from __future__ import annotations

import pytest
from tests.policy.rulebook import CALL, policy_of, rule

from paddock.core.errors import Invalid, Problem
from paddock.policy.rules import RuleFile, checked_rules, shipped_rule_file
from paddock.policy.schema import build_vocabulary


def mistakes(*texts: str) -> list[Problem]:
    """All that is wrong with these files beside the shipped one."""
    files = [RuleFile(f"{number}.cedar", text) for number, text in enumerate(texts)]
    with pytest.raises(Invalid) as told:
        checked_rules([shipped_rule_file(), *files], build_vocabulary())
    assert told.value.error_code == "policy.invalid"
    return list(told.value.problems)


def when(condition: str) -> str:
    return f'// a comment\n\n@id("a")\n@text("b; c")\npermit ({CALL})\nwhen {{\n  {condition}\n}};\n'


@pytest.mark.parametrize(
    ("condition", "message", "meant"),
    [
        ('resource.effects.contains(Effect::"external_sendd")', "there is no Effect 'external_sendd'", "external_send"),
        ('resource.tags.contains(Tag::"pii_acess")', "there is no Tag 'pii_acess'", "pii_access"),
        ('resource.kind == Kind::"agnt"', "there is no Kind 'agnt'", "agent"),
        ('resource.tier == Tier::"verifed"', "there is no Tier 'verifed'", "verified"),
        ('resource.signature == Signature::"unsignd"', "there is no Signature 'unsignd'", "unsigned"),
        ('resource.efects.contains(Effect::"db_write")', "Callable has no attribute 'efects'", "effects"),
        ("principal.consent.contains(resource)", "has no attribute 'consent'", "consents"),
        ("context.dryrun", "the context has no attribute 'dryrun'", "dry_run"),
        ('principal in Rolle::"member"', "there is no entity type 'Rolle'", "Role"),
        ('action == Action::"cal"', "there is no action 'cal'", "call"),
    ],
)
def test_a_typing_mistake_fails_at_load_with_its_line_and_what_was_meant(
    condition: str, message: str, meant: str
) -> None:
    found = mistakes(when(condition))

    assert message in found[0].message
    assert f"did you mean '{meant}'?" in found[0].hint
    assert {(one.path, one.line) for one in found} == {("0.cedar", 7)}


def test_what_only_the_context_of_calls_has_is_said_and_no_typing_mistake() -> None:
    (found,) = mistakes('@id("a") @text("b") permit (principal, action, resource)\nwhen { context.background };')
    assert found.message == "the context has no attribute 'background'"
    assert found.hint == 'only calls have it: restrict the rule to them, with action in Action::"anyCall"'


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ('permit(principal is Usr, action, resource);', "there is no entity type 'Usr'", 2),
        ('permit(principal, action == Action::"cll", resource);', "there is no action 'cll'", 2),
        ('permit(principal is User, action == Action::"use", resource);', "it can never apply", 1),
        ('permit(principal, action, resource)', "the rule does not end", 1),
        ('permit(principal, action, resource) when {\n resource.kind == };', "unexpected token", 3),
        ('permit(principal == ?principal, action, resource);', "templates", 2),
        ('permit(principal, action in Action::"anyCall", resource)\nwhen { resource.tags == "x" };', "compatible", 1),
    ],
)  # fmt: skip
def test_what_is_no_rule_is_told_with_its_line(text: str, message: str, line: int) -> None:
    found = mistakes(f'@id("a") @text("b")\n{text}')

    assert [message in one.message for one in found] == [True]
    assert found[0].line == line


def test_a_rule_needs_an_id_and_a_text() -> None:
    bare = f"permit({CALL});"

    assert [one.message for one in mistakes(bare)] == ["the rule has no @id", "the rule has no @text"]
    assert [one.message for one in mistakes(f'@text("t") {bare}')] == ["the rule has no @id"]
    assert [one.message for one in mistakes(f'@id("i") @text(" ") {bare}')] == ["the rule has no @text"]
    assert "is no id" in mistakes(f'@id("Not An Id") @text("t") {bare}')[0].message


def test_two_rules_of_one_id_are_a_mistake_also_in_two_files() -> None:
    one = rule("twice", f"permit({CALL})")

    found = mistakes(one, f"\n{one}")

    assert [(problem.path, problem.line) for problem in found] == [("1.cedar", 2)]
    assert "there is a rule 'twice' already: 0.cedar, line 1" in found[0].message


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        ('@aproval("action")', "there is no annotation @aproval"),
        ('@approval("acton")', "@approval cannot be 'acton'"),
        ('@approval("action") @quorum("0")', "@quorum cannot be '0'"),
        ('@approval("action") @quorum("two")', "@quorum cannot be 'two'"),
        ('@approval("action") @four_eyes("ja")', "@four_eyes cannot be 'ja'"),
        ('@approval("action") @approvers("chief")', "@approvers cannot be 'chief'"),
        ('@approval("action") @remember("always")', "@remember cannot be 'always'"),
        ('@approval("action") @remember("tool")', "@remember has no effect on a request of kind action"),
        ('@approval("consent") @remember("plugin")', "@remember has no effect on a request of kind consent"),
        ('@quorum("2")', "@quorum stands without @approval"),
        ("@fixed", "only shipped rules are @fixed"),
    ],
)
def test_what_a_rule_says_of_approvals_is_checked_too(annotation: str, message: str) -> None:
    found = mistakes(rule("a", 'forbid(principal, action == Action::"callUnattended", resource)', annotation))

    assert [one.message for one in found] == [message]


@pytest.mark.parametrize(
    "scope", [CALL, 'principal, action == Action::"call", resource', "principal, action, resource"]
)
def test_asking_for_an_approval_that_would_help_nothing_is_a_mistake(scope: str) -> None:
    found = mistakes(rule("a", f"forbid({scope})", '@approval("action")'))

    assert found[0].message == "@approval has no effect here"


def test_keeping_the_text_of_a_rule_that_neither_denies_nor_asks_from_people_is_a_mistake() -> None:
    found = mistakes(rule("a", f"permit({CALL})", '@public_text("Something was blocked.")'))

    assert [one.message for one in found] == ["@public_text has no effect here"]


@pytest.mark.parametrize("kind", ["confirmation", "consent"])
@pytest.mark.parametrize("more", ['@quorum("2")', '@four_eyes("yes")', '@approvers("role:auditor")'])
def test_asking_others_in_a_question_to_the_person_the_call_is_for_is_a_mistake(kind: str, more: str) -> None:
    said = 'forbid(principal, action == Action::"callUnattended", resource)'

    found = mistakes(rule("a", said, f'@approval("{kind}") {more}'))

    assert [one.message for one in found] == [f"{more.partition('(')[0]} has no effect on a {kind}"]


@pytest.mark.parametrize("name", ["agents-off-their-allowlist", "agents-never-act-alone"])
def test_what_holds_agents_cannot_be_replaced(name: str) -> None:
    with pytest.raises(Invalid) as refused:
        policy_of(rule(name, f"permit({CALL})"), shipped=True)

    assert refused.value.problems[0].message == f"the shipped rule {name!r} is fixed"


def test_all_mistakes_of_all_files_are_told_at_once() -> None:
    found = mistakes(
        when('resource.effects.contains(Effect::"db_wrte") && resource.tags.contains(Tag::"pii_acess")'),
        f"permit({CALL});\n" + rule("b", "permit(principal, action, resource) when { nonsense }"),
    )

    assert [(one.path, one.line) for one in found] == [
        ("0.cedar", 7),
        ("0.cedar", 7),
        ("1.cedar", 1),
        ("1.cedar", 1),
        ("1.cedar", 3),
    ]


def test_a_tag_of_ones_own_is_known_once_the_setting_names_it() -> None:
    text = rule("a", f'permit({CALL}) when {{ resource.tags.contains(Tag::"house_rules") }}')

    assert "policy.tags" in mistakes(text)[0].hint
    assert policy_of(text, tags=("house_rules",)).rules.by_id.keys() == {"a"}


def test_a_rule_of_ones_own_takes_the_place_of_the_shipped_one_of_its_id() -> None:
    own = rule("guests-may-read", 'permit(principal in Role::"guest", action == Action::"call", resource)')
    before, after = policy_of(shipped=True), policy_of(own, shipped=True)

    assert len(after.rules.rules) == len(before.rules.rules)
    assert after.rules.by_id["guests-may-read"].origin == "own.cedar"
    assert after.version != before.version


def test_a_fixed_rule_cannot_be_replaced() -> None:
    found = mistakes(rule("plugin-wants-a-yes", f"permit({CALL})"))

    assert [one.message for one in found] == ["the shipped rule 'plugin-wants-a-yes' is fixed"]


def test_a_version_is_named_by_what_the_rules_say_and_not_by_their_order_or_place() -> None:
    one, two = rule("one", f"permit({CALL})"), rule("two", f"forbid({CALL}) when {{ context.dry_run }}")

    assert policy_of(one, two).version == policy_of("// first\n", two, "\n\n", one).version
    assert policy_of(one).version != policy_of(one, two).version
    assert policy_of(one).version != policy_of(one, tags=("more",)).version


def test_comments_texts_and_semicolons_are_told_apart() -> None:
    text = (
        '// no rule; "here\n@id("a") @text("one; // two \\" three")\n'
        f'permit({CALL}) // why; "\nwhen {{ // because;\n true }}; // end\n' + rule("b", f"permit({CALL})") + "// last;"
    )

    rules = policy_of(text).rules.rules

    assert [(one.id, one.line) for one in rules] == [("a", 2), ("b", 6)]
    assert rules[0].text == 'one; // two " three'


def test_two_thousand_rules_are_read_and_decide() -> None:
    from tests.policy.rulebook import NOBODY, thing

    from paddock.policy.decision import Allow
    from paddock.policy.request import build_call_request

    many = [
        rule(f"r{number}", f'permit({CALL}) when {{ resource == Callable::"plugin.tool{number}" }}')
        for number in range(2_000)
    ]
    policy = policy_of(*many)

    decision = policy.decide(build_call_request(NOBODY, thing("plugin.tool1999")))

    assert decision == Allow(("r1999",), "The text of r1999.", policy.version)
