"""Any decision is explained by an id: who, what, which rule, what would have changed it, and what happened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.gate.effects.recovery.test_recovering import count, known, with_plugin
from tests.gate.test_governed_calls import ANN, EVE, Office, held, made_by, outcome

from fixtures.commands import Paddock
from paddock.cli.output.explanation_text import explanation_lines
from paddock.core.action import Action
from paddock.core.call import Principal
from paddock.core.clock import SystemClock, SystemRandom
from paddock.core.errors import Denied, NotFound, PaddockError
from paddock.core.events.capabilities import PluginCapabilityDenied
from paddock.core.events.plugin_runtime import PluginKilled
from paddock.core.ids import PrincipalId
from paddock.host.explain.call_explanation import CallExplanation, DenialExplanation
from paddock.host.host import Host
from paddock.ledger.erase import erase
from paddock.ledger.write.append import TransactionLedger
from paddock.store.database import open_direct

NO_NOTES = (
    '@id("no-notes") @text("Nobody writes notes.")\nforbid (principal, action, resource == Callable::"mail.note");'
)
SECRET = (
    '@id("quiet") @text("The auditors look at notes.") @public_text("Something was blocked.")\n'
    'forbid (principal, action, resource == Callable::"mail.note");'
)
EVE_MAY = '@id("eve-looks") @text("Eve may look.")\npermit (principal == User::"user:eve", action, resource);'


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


def commands(office: Office) -> Paddock:
    return Paddock(office.home)


async def explained(host: Host, name: str, by: Principal = ANN) -> CallExplanation:
    (one,) = await host.policy.explanations.explain(name, by)
    assert isinstance(one, CallExplanation)
    return one


async def denied(host: Host, name: str, by: Principal) -> str:
    """The id of a call that the rules deny."""
    with pytest.raises(Denied) as refused:
        await host.call(name, {}, context=made_by(by))
    assert refused.value.action == Action.of("call.explain", call=refused.value.details["call_id"])
    return refused.value.details["call_id"]


@pytest.mark.req("B-10", "denied")
async def test_a_denial_names_the_rule_and_its_version(office: Office) -> None:
    office.rule(NO_NOTES)
    async with office.open() as host:
        told = await explained(host, await denied(host, "mail.note", ANN))

    assert explanation_lines(told.to_value())[0].startswith("local:ann called mail.note on ")
    assert explanation_lines(told.to_value())[0].endswith(" UTC: it was denied.")
    assert explanation_lines(told.to_value())[1] == "  The rules forbade it."
    assert explanation_lines(told.to_value())[2].startswith("  Nobody writes notes. (rule no-notes, ")
    value: Any = told.to_value()
    assert (value["who"], value["name"], value["decision"]) == ("local:ann", "mail.note", "deny")
    assert [(rule["id"], rule["text"]) for rule in value["rules"]] == [("no-notes", "Nobody writes notes.")]
    assert value["policy_version"].startswith("pol_")
    assert value["error"]["code"] == "policy_denied"
    assert [step["what"].partition(" after ")[0] for step in value["course"]] == ["it was denied"]


@pytest.mark.req("B-10", "denied")
async def test_what_would_have_allowed_it_is_told(office: Office) -> None:
    async with office.open() as host:
        await host.call("mail.look", {}, context=made_by(ANN))
        call = await denied(host, "mail.look", EVE)
        with pytest.raises(NotFound):
            await host.principal("user:eve")  # whom the program made up
        told = await explained(host, call)
        assert "the tenant default has no user 'eve'" in told.today_unknown
        assert explanation_lines(told.to_value())[2].startswith("  The decision under today's rules is unknown: ")

        commands(office).quickly("user", "add", "eve", "--role", "visitor")
        told = await explained(host, call)

    assert told.because == "No rule allowed it, and what no rule allows does not happen."
    assert "  it would have been allowed if user:eve had the role member" in explanation_lines(told.to_value())
    assert {
        "change": "user:eve had the role guest",
        "outcome": "allowed",
        "action": {"kind": "user.role.add", "arguments": {"user": "eve", "role": "guest"}},
    } in told.to_value()["would_change_it"]


@pytest.mark.req("B-10", "by the rules of its day")
async def test_an_old_decision_is_explained_by_the_rules_of_its_day(office: Office) -> None:
    async with office.open() as host:
        commands(office).quickly("user", "add", "eve")
        call = await denied(host, "mail.look", EVE)
        office.rule(EVE_MAY)
        await host.policy.active.reload_if_changed()

        told = await explained(host, call)

    assert told.changed
    assert "Other rules hold now. user:eve may call mail.look." in explanation_lines(told.to_value())
    assert any(line.startswith("  Eve may look. (rule eve-looks, ") for line in explanation_lines(told.to_value()))
    value: Any = told.to_value()
    assert value["would_change_it"] == []
    assert value["today"]["decision"] == "allow"


@pytest.mark.req("B-10", "by the rules of its day")
async def test_rules_that_are_gone_are_told_as_they_were(office: Office) -> None:
    office.rule(NO_NOTES)
    async with office.open() as host:
        call = await denied(host, "mail.note", ANN)
        (office.home / "policies" / "0.cedar").unlink()
        await host.policy.active.reload_if_changed()

        told = await explained(host, call)

    assert [rule.text for rule in told.rules] == ["Nobody writes notes."]
    assert "Other rules hold now. local:ann may call mail.note." in explanation_lines(told.to_value())


async def test_what_changed_is_who_calls_and_not_the_rules(office: Office) -> None:
    async with office.open() as host:
        commands(office).quickly("user", "add", "eve")
        call = await denied(host, "mail.look", EVE)
        commands(office).quickly("user", "role", "add", "eve", "guest")

        told = await explained(host, call)

    assert not told.changed
    assert "Today the same rules come to something else. user:eve may call mail.look." in explanation_lines(
        told.to_value()
    )


@pytest.mark.req("B-10", "asked")
async def test_the_course_of_what_people_were_asked_is_told_for_each_of_its_ids(office: Office) -> None:
    async with office.open() as host:
        waits = await held(host)
        before = await explained(host, waits["call_id"])
        await host.approvals.approve(waits["approval"], ANN, comment="go on")
        await outcome(host, waits["call_id"])

        told = await explained(host, waits["call_id"])
        entries = [step.entry for step in told.timeline.steps]
        for name in (waits["approval"], "req_1", entries[0], entries[-1]):
            assert (await explained(host, name)).to_value() == told.to_value()

    words = [step.words for step in told.timeline.steps]
    assert words[0].startswith(f"a person was asked (action, {waits['approval']}), for an answer until ")
    assert words[1:4] == ["local:ann approved it: go on", "the approval of local:ann was used", "it started"]
    assert words[4].startswith("it succeeded after ")
    assert told.because == "The rules wanted a person asked first."
    assert [rule.id for rule in told.rules] == ["sending-needs-a-yes"]
    assert "  it would be allowed if an approver approves it" in explanation_lines(before.to_value())
    assert (before.timeline.status, told.timeline.status) == ("pending_approval", "succeeded")
    assert told.to_value()["would_change_it"] == []


async def test_what_a_request_came_to_is_what_became_of_its_call(office: Office) -> None:
    async with office.open() as host:
        denied_one, edited = await held(host), await held(host)
        await host.approvals.deny(denied_one["approval"], ANN, comment="not to him")
        await host.approvals.approve(edited["approval"], ANN, payload={"to": "cleo"})
        await outcome(host, edited["call_id"])
        told = await explained(host, denied_one["call_id"])
        after = await explained(host, edited["call_id"])

    assert told.timeline.status == "denied"
    assert explanation_lines(told.to_value())[-2].endswith("local:ann denied it: not to him")
    assert after.timeline.status == "succeeded"
    assert any("local:ann changed the parameters; see apr_" in step.words for step in after.timeline.steps)


async def test_what_a_rule_keeps_from_people_is_told_to_the_operator_alone(office: Office) -> None:
    office.rule(SECRET)
    async with office.open() as host:
        commands(office).quickly("user", "add", "eve", "--role", "member")
        call = await denied(host, "mail.note", await host.principal("user:eve"))
        to_her = await explained(host, call, EVE)
        to_ann = await explained(host, call, ANN)
        with pytest.raises(NotFound):
            await explained(host, call, Principal(PrincipalId("user:bob")))

    assert to_her.because == "Something was blocked."
    assert (to_her.rules, to_her.to_value()["today"]) == ((), None)
    assert not any(
        word in str(to_her.to_value()) + str(explanation_lines(to_her.to_value())) for word in ("auditors", "quiet")
    )
    assert "  The auditors look at notes. (rule quiet, " in "\n".join(explanation_lines(to_ann.to_value()))


async def test_what_the_rules_were_not_asked_about_says_why_it_ended(office: Office) -> None:
    async with office.open(PADDOCK_LIMITS_CALLS_PER_PRINCIPAL="1") as host:
        await host.call("mail.look", {}, context=made_by(ANN))
        with pytest.raises(Exception, match="1 call"):
            await host.call("mail.look", {}, context=made_by(ANN))
        one, other = await host.policy.explanations.explain("req_1", ANN)

    assert isinstance(one, CallExplanation)
    assert isinstance(other, CallExplanation)
    assert (one.timeline.status, one.because) == ("succeeded", "The rules allowed it.")
    assert other.because == "The rules were not asked: it ended before that."
    assert explanation_lines(other.to_value())[-2].endswith("(rate_limited)")


async def test_what_is_erased_of_a_person_is_not_told(office: Office) -> None:
    clock, random = SystemClock(), SystemRandom()
    async with office.open() as host:
        call = await denied(host, "mail.look", EVE)
        await explained(host, call)
        with open_direct(office.home / "data" / "paddock.db") as database:
            database.write(
                lambda tx: erase(tx, "default", "user:eve", by="local:ann", explanation="x", clock=clock, random=random)
            )
        told = await explained(host, call)

    assert explanation_lines(told.to_value())[0].startswith("an erased person called mail.look")
    assert "who made the call was erased" in told.today_unknown


async def test_what_was_in_doubt_is_told_as_it_was_found_out(office: Office) -> None:
    counted = {"counted": lambda idempotency_key, params: {"happened": True, "result": {"done": 1}}}  # noqa: ARG005
    functions = {"count": lambda: {"wrong": True}, **counted}
    async with with_plugin(office, functions, recovery="probe", probe="counted") as host:
        with pytest.raises(PaddockError) as lost:
            await count(host)
        assert await known(host) == {"done": 1}
        told = await explained(host, lost.value.details["call_id"])
    assert explanation_lines(told.to_value())[0].endswith(": it was in doubt; its plugin looked: it has happened.")
    assert (told.to_value()["status"], told.timeline.resolution) == ("succeeded", "its plugin looked: it has happened")
    assert [step.words for step in told.timeline.steps][-2:] == [
        "whether it has happened is not known: the plugin's result does not match its output schema; "
        "its plugin is asked to look",
        "its plugin looked: it has happened",
    ]


@pytest.mark.req("B-10", "a denial of a capability")
async def test_a_denial_at_the_door_back_is_explained_by_its_entry(office: Office) -> None:
    clock, random = SystemClock(), SystemRandom()
    asked = PluginCapabilityDenied("mail", "cache.get", "host:cache", None)
    async with office.open() as host:
        with open_direct(office.home / "data" / "paddock.db") as database:
            for event in (asked, PluginKilled("mail")):
                database.write(lambda tx, event=event: TransactionLedger(tx, clock, random, "default").publish(event))
        by_type = {entry.type: entry.id for entry in office.ledger()}
        (told,) = await host.policy.explanations.explain(by_type[asked.type], ANN)
        with pytest.raises(NotFound, match="no decision has the id") as unknown:
            await host.policy.explanations.explain(by_type["plugin.killed"], ANN)
        with pytest.raises(NotFound) as nothing:
            await host.policy.explanations.explain("call_1", ANN)

    assert isinstance(told, DenialExplanation)
    assert explanation_lines(told.to_value())[0].startswith("mail asked the host for cache.get on ")
    assert told.because == "It was not granted host:cache."
    assert unknown.value.action == Action.of("ledger.show", entry=by_type["plugin.killed"])
    assert nothing.value.action == Action.of("ledger.tail", type="call.*")


@pytest.mark.req("B-10", "allowed")
async def test_a_yes_that_stands_is_named_where_it_let_a_call_start(office: Office) -> None:
    async with office.open() as host:
        waits = await held(host, "mail.odd")
        await host.approvals.approve(waits["approval"], ANN)
        await outcome(host, waits["call_id"])
        first = await explained(host, waits["call_id"])
        await host.call("mail.odd", {}, context=made_by(ANN))
        last: Any = office.calls()[-1]
        (standing,) = await host.approvals.list_standing("default")
        both = await host.policy.explanations.explain("req_1", ANN)

    assert any(
        "made it a standing approval for this tool until the plugin is upgraded" in step.words
        for step in first.timeline.steps
    )
    assert last["approval"] == standing["id"]
    assert f"it started with the standing approval {standing['id']}" in str(both[-1].to_value())
