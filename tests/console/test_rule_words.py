"""Rules in words, and their text in pieces that lose nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from paddock.http.console.rule_words import difference, matching, parts_of, told_of_all
from paddock.policy.rules import RuleFile, Rules, checked_rules, shipped_file
from paddock.policy.vocabulary import vocabulary

OURS = """
@id("two-for-mail")
@text("Two people look at mail.")
@approval("action") @quorum("2") @four_eyes("yes") @approvers("group:post")
forbid (principal, action == Action::"callUnattended", resource == Callable::"mail.send");
"""


def rules(*texts: str) -> Rules:
    files = [RuleFile(f"/etc/rules/{number}.cedar", text) for number, text in enumerate(texts)]
    return checked_rules([shipped_file(), *files], vocabulary(()))


def test_every_rule_says_what_it_does_and_ones_own_come_first() -> None:
    told = told_of_all(rules(OURS))

    first = told[0]
    assert (first.id, first.verb, first.file, first.own) == ("two-for-mail", "Asks a person", "0.cedar", True)
    assert "It takes 2 people." in first.details
    assert "Who can approve: group:post." in first.details
    assert "Nobody approves their own request." in first.details
    by_id = {one.id: one for one in told}
    assert by_id["members-may-call"].verb == "Allows"
    assert by_id["guests-see-nothing-personal"].verb == "Forbids"
    assert by_id["agents-off-their-whitelist"].fixed


def test_rules_are_found_by_their_words_and_by_what_they_do() -> None:
    told = told_of_all(rules(OURS))

    assert [one.id for one in matching(told, "MAIL two", "")] == ["two-for-mail"]
    assert {one.effect for one in matching(told, "", "forbids")} == {"forbids"}
    assert matching(told, "no such words", "") == []


def test_what_changed_between_two_versions_is_named() -> None:
    before, now = rules(OURS), rules(OURS.replace("Two people", "Both"), OURS.replace("two-for-mail", "another"))

    differs = difference(before, now)

    assert (differs.changed, differs.added, differs.gone) == (("two-for-mail",), ("another",), ())
    assert not difference(now, now)


def test_a_rule_in_pieces_is_the_rule() -> None:
    for rule in rules(OURS).rules:
        kinds = {kind for kind, _ in parts_of(rule.source)}
        assert "".join(text for _, text in parts_of(rule.source)) == rule.source
        assert {"note", "word", "text"} <= kinds


@given(st.text(alphabet='@"\\/:aR \npermitwhen'))
def test_whatever_is_taken_apart_is_whole_when_put_together(source: str) -> None:
    assert "".join(text for _, text in parts_of(source)) == source
