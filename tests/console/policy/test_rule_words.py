"""Rules in words, and their text in pieces that lose nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from paddock.console.text.rule_text import diff_rules, filter_rules, summarize_rules, tokenize_rule
from paddock.policy.rules import RuleFile, RuleSet, checked_rules, shipped_rule_file
from paddock.policy.schema import build_vocabulary

OURS = """
@id("two-for-mail")
@text("Two people look at mail.")
@approval("action") @quorum("2") @four_eyes("yes") @approvers("group:post")
forbid (principal, action == Action::"callUnattended", resource == Callable::"mail.send");
"""


def rules(*texts: str) -> RuleSet:
    files = [RuleFile(f"/etc/rules/{number}.cedar", text) for number, text in enumerate(texts)]
    return checked_rules([shipped_rule_file(), *files], build_vocabulary(()))


def test_every_rule_says_what_it_does_and_ones_own_come_first() -> None:
    told = summarize_rules(rules(OURS))

    first = told[0]
    assert (first.id, first.verb, first.file, first.own) == ("two-for-mail", "Asks a person", "0.cedar", True)
    assert "It takes 2 people." in first.details
    assert "Who can approve: group:post." in first.details
    assert "People cannot approve their own requests." in first.details
    by_id = {one.id: one for one in told}
    assert by_id["members-may-call"].verb == "Allows"
    assert by_id["guests-see-nothing-personal"].verb == "Forbids"
    assert by_id["agents-off-their-allowlist"].fixed


def test_rules_are_found_by_their_words_and_by_what_they_do() -> None:
    told = summarize_rules(rules(OURS))

    assert [one.id for one in filter_rules(told, "MAIL two", "")] == ["two-for-mail"]
    assert {one.effect for one in filter_rules(told, "", "forbids")} == {"forbids"}
    assert filter_rules(told, "no such words", "") == []


def test_what_changed_between_two_versions_is_named() -> None:
    before, now = rules(OURS), rules(OURS.replace("Two people", "Both"), OURS.replace("two-for-mail", "another"))

    differs = diff_rules(before, now)

    assert (differs.changed, differs.added, differs.gone) == (("two-for-mail",), ("another",), ())
    assert not diff_rules(now, now)


def test_a_rule_in_pieces_is_the_rule() -> None:
    for rule in rules(OURS).rules:
        kinds = {kind for kind, _ in tokenize_rule(rule.source)}
        assert "".join(text for _, text in tokenize_rule(rule.source)) == rule.source
        assert {"note", "word", "text"} <= kinds


@given(st.text(alphabet='@"\\/:aR \npermitwhen'))
def test_whatever_is_taken_apart_is_whole_when_put_together(source: str) -> None:
    assert "".join(text for _, text in tokenize_rule(source)) == source
