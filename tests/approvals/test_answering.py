"""Who may say yes, how many of them it takes, and what a no does."""

from __future__ import annotations

import pytest
from tests.approvals.conftest import ANN, BOB, CLEO, PAYLOAD, SEND, Office, person

from paddock.approvals.answer import RememberChoice
from paddock.approvals.model import ApprovalRequestKind, ApprovalScope, ApprovalState
from paddock.core.call import Principal
from paddock.core.errors import CallerError, Conflict, Denied, NotFound


async def test_a_yes_approves_and_both_are_told(office: Office) -> None:
    approval = await office.asked()

    answered = await office.desk.approve("default", approval.id, ANN, comment="fine")

    assert answered.state is ApprovalState.APPROVED
    assert [(answer.by, answer.comment) for answer in answered.answers] == [("user:ann", "fine")]
    assert office.heard.types() == ["approval.requested", "approval.answered"]


async def test_one_no_ends_it(office: Office) -> None:
    approval = await office.asked(quorum=2)
    await office.desk.approve("default", approval.id, ANN)

    denied = await office.desk.deny("default", approval.id, CLEO, comment="not to her")

    assert denied.state is ApprovalState.DENIED
    with pytest.raises(Conflict, match="was denied: not to her"):
        await office.desk.approve("default", approval.id, person("dan", "approver"))


async def test_a_quorum_counts_people_and_not_answers(office: Office) -> None:
    approval = await office.asked(quorum=2)

    first = await office.desk.approve("default", approval.id, ANN)
    with pytest.raises(Conflict, match="has answered"):
        await office.desk.approve("default", approval.id, ANN)
    second = await office.desk.approve("default", approval.id, CLEO)

    assert (first.state, first.still_needed) == (ApprovalState.PENDING, 1)
    assert second.state is ApprovalState.APPROVED


@pytest.mark.parametrize("kind", ["agent", "adapter", "plugin", "key"])
@pytest.mark.parametrize("asked", list(ApprovalRequestKind))
async def test_nobody_but_a_person_answers_anything(office: Office, kind: str, asked: ApprovalRequestKind) -> None:
    approval = await office.asked(asked)

    with pytest.raises(Denied, match="not a person"):
        await office.desk.approve("default", approval.id, person("bob", "operator", "approver", kind=kind))

    assert (await office.desk.find("default", approval.id)).state is ApprovalState.PENDING


@pytest.mark.parametrize("kind", [ApprovalRequestKind.CONFIRMATION, ApprovalRequestKind.CONSENT])
async def test_only_the_person_a_call_is_for_confirms_it_and_consents(
    office: Office, kind: ApprovalRequestKind
) -> None:
    approval = await office.asked(kind)

    with pytest.raises(Denied, match="only user:bob"):
        await office.desk.approve("default", approval.id, ANN)

    assert (await office.desk.approve("default", approval.id, person("bob"))).state is ApprovalState.APPROVED


@pytest.mark.parametrize("kind", [ApprovalRequestKind.ACTION, ApprovalRequestKind.GATE])
async def test_an_action_takes_a_role_and_a_human_at_a_console(office: Office, kind: ApprovalRequestKind) -> None:
    approval = await office.asked(kind)

    with pytest.raises(Denied, match="may not approve"):
        await office.desk.approve("default", approval.id, person("dan", "member"))
    with pytest.raises(Denied, match="a key cannot"):
        await office.desk.approve("default", approval.id, person("ann", "approver", interactive=False))

    assert (await office.desk.approve("default", approval.id, ANN)).state is ApprovalState.APPROVED


async def test_with_four_eyes_whoever_asked_cannot_answer(office: Office) -> None:
    approval = await office.asked(four_eyes=True)

    with pytest.raises(Denied, match="another person has to answer"):
        await office.desk.approve("default", approval.id, BOB)

    assert (await office.desk.approve("default", approval.id, ANN)).state is ApprovalState.APPROVED


@pytest.mark.parametrize(
    "by", [BOB, person("bob", "member"), person("root", "operator", id="local:root", kind="local")]
)
async def test_whoever_asked_and_may_not_answer_takes_it_back_with_a_no(office: Office, by: Principal) -> None:
    approval = await office.asked(four_eyes=True, context={"request": "req_1", "operator": "root"})

    ended = await office.desk.deny("default", approval.id, by, comment="a mistake")

    assert (ended.state, ended.answers) == (ApprovalState.WITHDRAWN, ())
    assert ended.ended_why == f"{by.id} took it back: a mistake"
    assert office.heard.types() == ["approval.requested", "approval.ended"]


async def test_the_refusal_of_ones_own_request_names_the_ways_out(office: Office) -> None:
    approval = await office.asked(four_eyes=True)

    with pytest.raises(Denied) as refused:
        await office.desk.approve("default", approval.id, BOB)

    for way in ("another approver", '@four_eyes("no")', "deny takes it back"):
        assert way in refused.value.hint


async def test_with_four_eyes_whoever_typed_the_call_in_somebodys_name_cannot_answer(office: Office) -> None:
    approval = await office.asked(four_eyes=True, context={"request": "req_1", "operator": "root"})
    root = person("root", "operator", id="local:root", kind="local")

    with pytest.raises(Denied, match="local:root asked for it, and another person has to answer"):
        await office.desk.approve("default", approval.id, root)

    assert (await office.desk.approve("default", approval.id, ANN)).state is ApprovalState.APPROVED


@pytest.mark.parametrize("kind", [ApprovalRequestKind.ACTION, ApprovalRequestKind.GATE])
async def test_nobody_answers_an_action_as_somebody_else(office: Office, kind: ApprovalRequestKind) -> None:
    approval = await office.asked(kind)

    with pytest.raises(Denied, match="local:root cannot answer this as user:ann"):
        await office.desk.approve("default", approval.id, ANN, through="local:root")
    with pytest.raises(Denied, match="local:root cannot answer this as user:ann"):
        await office.desk.deny("default", approval.id, ANN, through="local:root")

    assert (await office.desk.find("default", approval.id)).answers == ()


async def test_an_answer_that_the_operator_passes_on_is_recorded_as_passed_on(office: Office) -> None:
    approval = await office.asked(ApprovalRequestKind.CONFIRMATION)

    answered = await office.desk.approve("default", approval.id, person("bob"), through="local:root")
    (standing,) = await office.desk.list_standing("default")
    await office.desk.revoke("default", standing.id, person("bob"), through="local:root")

    assert [(one.by, one.operator) for one in answered.answers] == [("user:bob", "local:root")]
    assert (standing.given_by, standing.operator) == ("user:bob", "local:root")
    said = {event.type: getattr(event, "operator", None) for event in office.heard.events}
    assert [said[f"approval.{one}"] for one in ("answered", "standing_given", "standing_revoked")] == ["local:root"] * 3


async def test_without_four_eyes_an_approver_may_answer_their_own(office: Office) -> None:
    approval = await office.asked()

    assert (await office.desk.approve("default", approval.id, BOB)).state is ApprovalState.APPROVED


async def test_another_tenant_sees_and_answers_nothing(office: Office) -> None:
    approval = await office.asked()

    for refused in (
        office.desk.find("other", approval.id),
        office.desk.approve("other", approval.id, ANN),
        office.desk.deny("other", approval.id, ANN),
        office.desk.void("other", approval.id, "mine"),
    ):
        with pytest.raises(NotFound):
            await refused
    assert await office.desk.page("other") == []


async def test_an_edit_makes_a_new_request_that_the_editor_has_approved(office: Office) -> None:
    approval = await office.asked()

    edited = await office.desk.approve("default", approval.id, ANN, payload={**PAYLOAD, "text": "Hello"})

    old = await office.desk.find("default", approval.id)
    assert (edited.state, edited.payload["text"], edited.replaces) == (ApprovalState.APPROVED, "Hello", approval.id)
    assert edited.binding_hash != approval.binding_hash
    assert (old.state, old.ended_why) == (ApprovalState.VOIDED, f"user:ann changed the parameters; see {edited.id}")


async def test_an_edit_does_not_carry_over_what_others_said_of_the_old_parameters(office: Office) -> None:
    approval = await office.asked(quorum=2)
    await office.desk.approve("default", approval.id, CLEO)

    edited = await office.desk.approve("default", approval.id, ANN, payload={"to": "all@example.org"})

    assert (edited.state, edited.still_needed) == (ApprovalState.PENDING, 1)


async def test_with_four_eyes_who_edits_asks_and_another_has_to_say_yes_to_it(office: Office) -> None:
    approval = await office.asked(four_eyes=True)

    edited = await office.desk.approve("default", approval.id, ANN, comment="to me", payload={"to": "ann"})

    old = await office.desk.find("default", approval.id)
    assert (edited.state, edited.answers, edited.binding.editors) == (ApprovalState.PENDING, (), ("user:ann",))
    assert (old.state, old.ended_why) == (
        ApprovalState.VOIDED,
        f"user:ann changed the parameters: to me; see {edited.id}",
    )
    assert office.heard.types() == ["approval.requested", "approval.requested", "approval.ended"]
    for asker in (ANN, BOB):
        with pytest.raises(Denied, match="another person has to answer"):
            await office.desk.approve("default", edited.id, asker)
    assert (await office.desk.approve("default", edited.id, CLEO)).state is ApprovalState.APPROVED


async def test_with_four_eyes_all_who_edited_ask(office: Office) -> None:
    approval = await office.asked(four_eyes=True)
    first = await office.desk.approve("default", approval.id, ANN, payload={"to": "ann"})

    second = await office.desk.approve("default", first.id, CLEO, payload={"to": "cleo"})

    assert second.binding.editors == ("user:ann", "user:cleo")
    for asker in (ANN, CLEO):
        with pytest.raises(Denied, match="another person has to answer"):
            await office.desk.approve("default", second.id, asker)


@pytest.mark.parametrize(
    ("kind", "minutes"),
    [(ApprovalRequestKind.ACTION, 15), (ApprovalRequestKind.CONFIRMATION, 15), (ApprovalRequestKind.GATE, 7 * 24 * 60)],
)
async def test_a_request_expires_by_its_kind(office: Office, kind: ApprovalRequestKind, minutes: int) -> None:
    approval = await office.asked(kind)
    office.clock.pass_time(minutes=minutes - 1)
    assert await office.desk.expire("default") == []
    office.clock.pass_time(minutes=1)

    with pytest.raises(Conflict, match="has expired"):
        await office.desk.approve("default", approval.id, BOB)

    assert [one.id for one in await office.desk.expire("default")] == [approval.id]
    assert (await office.desk.find("default", approval.id)).state is ApprovalState.EXPIRED


async def test_what_is_withdrawn_cannot_be_approved(office: Office) -> None:
    approval = await office.asked()

    await office.desk.withdraw("default", approval.call, "the caller cancelled")

    with pytest.raises(Conflict, match="was withdrawn: the caller cancelled"):
        await office.desk.approve("default", approval.id, ANN)


async def test_a_yes_is_remembered_no_further_than_the_rule_says(office: Office) -> None:
    asked = ApprovalRequestKind.CONFIRMATION
    never, tool = await office.asked(asked, remember="never"), await office.asked(asked, remember="tool")

    with pytest.raises(Denied, match="no standing approval"):
        await office.desk.approve("default", never.id, BOB, remember=RememberChoice("always"))
    with pytest.raises(Denied, match="this tool only"):
        await office.desk.approve("default", tool.id, BOB, remember=RememberChoice("always", "plugin"))
    with pytest.raises(CallerError, match="belongs to no session"):
        await office.desk.approve("default", tool.id, BOB, remember=RememberChoice("session"))
    await office.desk.approve("default", never.id, BOB)

    assert await office.desk.standing_for(SEND, "user:bob", None) is None


@pytest.mark.parametrize("scope", ["session", "always"])
@pytest.mark.parametrize("kind", [ApprovalRequestKind.CONSENT, ApprovalRequestKind.ACTION, ApprovalRequestKind.GATE])
async def test_all_but_a_confirmation_is_approved_for_exactly_its_call(
    office: Office, kind: ApprovalRequestKind, scope: ApprovalScope
) -> None:
    approval = await office.asked(kind, remember="plugin", context={"session": "ses_1"})

    with pytest.raises(Denied, match=f"of kind {kind} is approved for exactly this call, never for others"):
        await office.desk.approve("default", approval.id, BOB, remember=RememberChoice(scope))
    await office.desk.approve("default", approval.id, BOB)

    assert await office.desk.list_standing("default") == []
