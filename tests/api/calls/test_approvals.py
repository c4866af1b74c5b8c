"""People's answers over HTTP: what waits is listed and answered, and what is answered wrongly says why."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from fixtures.commands import Paddock
from fixtures.daemons import Daemon, daemon, eventually
from fixtures.mail import mail


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Daemon, None, None]:
    folder = tmp_path_factory.mktemp("approvals")
    paddock = Paddock(folder / "home")
    paddock.quickly("plugin", "install", mail(folder / "mail"), "--yes")
    paddock.quickly("plugin", "enable", "mail", "--no-start")
    for person, role in (("ann", "member"), ("chief", "member"), ("eve", "visitor")):
        paddock.quickly("user", "add", person, "--role", role)
    with daemon(paddock) as started:
        yield started


def waiting(served: Daemon, tool: str = "send", **headers: str) -> dict[str, Any]:
    """A call that waits for a person, as whoever made it is told."""
    made = served.ask("POST", f"/plugins/mail/call/{tool}", {"to": "bob"} if tool == "send" else {}, **headers)
    assert (made.status, made.body["status"]) == (202, "pending_approval"), made.body
    assert made.headers["location"] == f"/api/v1/calls/{made.body['call_id']}"
    return made.body


def answered(served: Daemon, approval: str, verdict: str = "approve", body: Any = None, **headers: str) -> Any:
    return served.ask("POST", f"/approvals/{approval}/{verdict}", {} if body is None else body, **headers)


def ended(served: Daemon, call: str) -> Any:
    over = ("succeeded", "failed", "cancelled")
    eventually(lambda: served.ask("GET", f"/calls/{call}").body["status"] in over, "it never ended")
    return served.ask("GET", f"/calls/{call}").body


def test_a_call_that_waits_is_found_approved_and_made(served: Daemon) -> None:
    made = waiting(served)
    approval = made["approval"]["approval"]

    assert made["approval"]["preview"]["params"] == {"to": "bob"}
    assert served.ask("GET", f"/approvals/{approval}").body["state"] == "pending"
    assert approval in [one["id"] for one in served.ask("GET", "/approvals").body["approvals"]]
    said = answered(served, approval, body={"comment": "fine"})

    assert (said.status, said.body["answers"][0]["comment"]) == (200, "fine")
    assert ended(served, made["call_id"])["result"] == {"sent": "bob"}
    assert approval not in [one["id"] for one in served.ask("GET", "/approvals").body["approvals"]]
    listed = {one["id"]: one["state"] for one in served.ask("GET", "/approvals?all=1").body["approvals"]}
    assert listed[approval] == "consumed"
    again = answered(served, approval)
    assert (again.status, again.body["code"]) == (409, "approval.consumed")


@pytest.mark.req("S-33", "cannot be guessed")
def test_the_token_is_told_to_whoever_asked_and_to_nobody_else(served: Daemon) -> None:
    made = waiting(served)
    token = made["approval"]["token"]

    assert len(token) >= 43  # 256 bits
    for path in (
        f"/calls/{made['call_id']}",
        "/calls",
        "/approvals?all=1",
        f"/approvals/{made['approval']['approval']}",
    ):
        assert token not in str(served.ask("GET", path).body)
    answered(served, made["approval"]["approval"], "deny")


@pytest.mark.req("S-33", "works once")
def test_the_token_brings_whoever_asked_back_to_their_call_once(served: Daemon) -> None:
    made = waiting(served)
    again = {"name": "mail.send", "params": {"to": "bob"}, "approval_token": made["approval"]["token"]}
    early = served.ask("POST", "/calls", again)
    assert (early.status, early.body["call_id"], early.body["status"]) == (202, made["call_id"], "pending_approval")
    answered(served, made["approval"]["approval"])

    stolen = served.ask("POST", "/calls", again, Paddock_As="user:ann")
    came = served.ask("POST", "/calls", again)
    once_more = served.ask("POST", "/calls", again)

    assert (came.status, came.body["call_id"], came.body["result"]) == (200, made["call_id"], {"sent": "bob"})
    assert {(one.status, one.body["code"]) for one in (stolen, once_more)} == {(403, "approval.token")}


@pytest.mark.req("S-21", "listed by policy")
@pytest.mark.req("S-21", "ok and error")
def test_actions_are_listed_for_who_may_perform_them_and_performed_in_their_own_words(served: Daemon) -> None:
    def listed(**headers: str) -> dict[str, bool]:
        actions = served.ask("GET", "/plugins/mail/actions", **headers).body["actions"]
        return {one["name"]: one["requires_approval"] for one in actions}

    assert listed()["send"] is True
    assert listed(Paddock_As="user:eve") == {}, "no rule allows a visitor anything"
    made = served.ask("POST", "/plugins/mail/actions/send", {"args": {"to": "bob"}})
    assert (made.status, made.body["status"]) == (202, "pending_approval")
    assert made.body["preview"]["params"] == {"to": "bob"}
    answered(served, made.body["approval"])

    claim = {"args": {"to": "bob"}, "approval_token": made.body["approval_token"]}
    done = served.ask("POST", "/plugins/mail/actions/send", claim)
    assert (done.status, done.body) == (
        200,
        {"status": "ok", "action_id": made.body["action_id"], "result": {"sent": "bob"}},
    )
    wrong = served.ask("POST", "/plugins/mail/actions/send", {"args": {}})
    assert (wrong.status, wrong.body["status"], wrong.body["error"]["code"]) == (400, "error", "invalid_params")


def test_in_another_tenant_a_token_works_the_same_and_addresses_name_the_tenant(served: Daemon) -> None:
    served.paddock.quickly("tenant", "add", "acme")
    served.paddock.quickly("plugin", "enable", "mail", "--tenant", "acme", "--yes")
    args = {"args": {"to": "bob"}}
    eventually(lambda: served.ask("GET", "/plugins/mail/actions?tenant=acme").status == 200, "it is not there")

    made = served.ask("POST", "/plugins/mail/actions/send?tenant=acme", args).body
    claim = args | {"approval_token": made["approval_token"]}
    early = served.ask("POST", "/plugins/mail/actions/send?tenant=acme", claim)
    said = served.ask("POST", f"/approvals/{made['approval']}/approve?tenant=acme", {})
    elsewhere = served.ask("POST", "/plugins/mail/actions/send", claim)
    done = served.ask("POST", "/plugins/mail/actions/send?tenant=acme", claim)

    assert (early.status, early.body["action_id"], said.status) == (202, made["action_id"], 200)
    assert (elsewhere.body["code"], done.status, done.body["result"]) == ("approval.token", 200, {"sent": "bob"})
    for answer in (early, done):
        assert answer.headers["location"] == f"/api/v1/calls/{made['action_id']}?tenant=acme"
    assert served.ask("GET", done.headers["location"].removeprefix("/api/v1")).body["status"] == "succeeded"


def test_a_no_is_what_whoever_looks_for_the_call_finds(served: Daemon) -> None:
    made = waiting(served)
    answered(served, made["approval"]["approval"], "deny", {"comment": "not to him"})

    error = ended(served, made["call_id"])["error"]
    assert (error["code"], error["message"].partition(": ")[2]) == ("approval.denied", "not to him")


def test_the_events_of_a_call_tell_that_it_waits_and_how_it_went_on(served: Daemon) -> None:
    made = waiting(served)
    with served.following(f"/calls/{made['call_id']}/events") as events:
        first = next(events)
        assert (first["event"], first["data"]["approval"]) == ("approval", made["approval"]["approval"])
        assert "token" not in first["data"]
        answered(served, made["approval"]["approval"])
        last = next(events)
    assert (last["event"], last["data"]["result"]) == ("end", {"sent": "bob"})


def test_only_who_may_answers_and_nobody_for_themselves_where_there_are_others(served: Daemon) -> None:
    served.paddock.quickly("user", "role", "add", "chief", "approver")
    mine, made = waiting(served), waiting(served, Paddock_As="user:ann")
    approval = made["approval"]["approval"]

    assert answered(served, mine["approval"]["approval"]).body["code"] == "approval.not_yours"
    # Naming the chief does not prove that they sit there: what changes the world takes a human at a terminal. And
    # whoever typed the call in Ann's name asks for it themselves.
    for who in ({"Paddock_As": name} for name in ("user:ann", "user:eve", "user:chief", "agent:planner")):
        refused = answered(served, approval, **who)
        assert (refused.status, refused.body["code"]) == (403, "approval.not_yours"), who
    typed = answered(served, approval)
    assert (typed.status, typed.body["code"]) == (403, "approval.not_yours")
    assert "asked for it, and another person has to answer" in typed.body["message"]

    # Whoever asks may stop asking.
    for one in (mine, made):
        taken_back = served.ask("POST", f"/approvals/{one['approval']['approval']}/deny", {})
        assert (taken_back.status, taken_back.body["state"]) == (200, "withdrawn")
        assert ended(served, one["call_id"])["status"] == "cancelled"
    served.paddock.quickly("user", "role", "remove", "chief", "approver")


def test_a_confirmation_is_for_the_person_whose_call_it_is(served: Daemon) -> None:
    made = waiting(served, "odd", Paddock_As="user:ann")
    approval = made["approval"]["approval"]

    assert made["approval"]["kind"] == "confirmation"
    assert answered(served, approval).body["code"] == "approval.not_yours"
    earlier = waiting(served, "odd", Paddock_As="user:ann")
    said = answered(served, approval, Paddock_As="user:ann")
    given = said.body["answers"][0]
    assert (said.status, given["by"], given["operator"].partition(":")[0]) == (200, "user:ann", "local")
    course = served.ask("GET", f"/calls/{made['call_id']}/explanation").body["calls"][0]["course"]
    assert f"{given['operator']}, as user:ann, approved it" in [step["what"] for step in course]
    assert ended(served, made["call_id"])["status"] == "succeeded"
    assert ended(served, earlier["call_id"])["status"] == "succeeded"
    assert said.body["also_approved"] == [{"id": earlier["approval"]["approval"], "call_id": earlier["call_id"]}]
    assert served.ask("POST", "/plugins/mail/call/odd", {}, Paddock_As="user:ann").status == 200
    waiting(served, "odd", Paddock_As="user:chief")  # it is hers alone

    (standing,) = served.ask("GET", "/approvals/standing").body["standing"]
    assert (standing["holder"], standing["callable"], standing["scope"]) == ("user:ann", "odd", "always")
    assert served.ask("POST", f"/approvals/standing/{standing['id']}/revoke", {"all": True}).status == 400
    assert served.ask("POST", f"/approvals/standing/{standing['id']}/revoke", {}).status == 200
    assert served.ask("GET", "/approvals/standing").body["standing"] == []
    waiting(served, "odd", Paddock_As="user:ann")


@pytest.mark.parametrize(
    ("verdict", "body", "status", "code"),
    [
        ("approve", {"scope": "for ever"}, 400, "invalid_params"),
        ("approve", {"scope": "always", "reach": "world"}, 400, "invalid_params"),
        ("approve", {"reach": "plugin"}, 400, "invalid_params"),
        ("approve", {"comment": 7}, 400, "invalid_params"),
        ("approve", {"params": []}, 400, "invalid_params"),
        ("approve", {"principal": "user:chief"}, 400, "invalid_params"),
        ("approve", b"[1]", 400, "invalid_request"),
        ("approve", b"{", 400, "invalid_request"),
        ("approve", {"scope": "session"}, 403, "approval.not_rememberable"),
        ("approve", {"scope": "always"}, 403, "approval.not_rememberable"),
        ("approve", {"scope": "always", "reach": "plugin"}, 403, "approval.not_rememberable"),
        ("deny", {"scope": "always"}, 400, "invalid_params"),
    ],
)
def test_a_wrong_answer_says_why_and_answers_nothing(
    served: Daemon, verdict: str, body: Any, status: int, code: str
) -> None:
    made = waiting(served)
    approval = made["approval"]["approval"]

    refused = answered(served, approval, verdict, body)

    assert (refused.status, refused.body["code"]) == (status, code), refused.body
    assert served.ask("GET", f"/approvals/{approval}").body["state"] == "pending"
    answered(served, approval, "deny")


def test_what_waits_is_listed_in_pages_newest_first_and_without_parameters(served: Daemon) -> None:
    made = [waiting(served)["approval"]["approval"] for _ in range(3)]

    first = served.ask("GET", "/approvals?limit=2").body
    second = served.ask("GET", f"/approvals?limit=1&before={first['next']}").body

    assert [one["id"] for one in (*first["approvals"], *second["approvals"])] == made[::-1]
    assert "params" not in str(first)
    assert served.ask("GET", "/approvals?limit=0").status == 400
    assert served.ask("GET", "/approvals?before=apr_0").status == 404
    for approval in made:
        answered(served, approval, "deny")


def test_what_is_not_there_is_not_found(served: Daemon) -> None:
    for method, path in (
        ("GET", "/approvals/apr_0"),
        ("POST", "/approvals/apr_0/approve"),
        ("POST", "/approvals/apr_0/deny"),
        ("POST", "/approvals/standing/sta_0/revoke"),
        ("GET", "/calls/call_0/explanation"),
    ):
        missing = served.ask(method, path, {} if method == "POST" else None)
        assert (missing.status, missing.body["code"].rpartition(".")[2]) in ((404, "not_found"), (404, "unknown")), path


@pytest.mark.req("B-10", "asked")
def test_a_call_is_explained_by_its_course(served: Daemon) -> None:
    made = waiting(served)
    before = served.ask("GET", f"/calls/{made['call_id']}/explanation").body["calls"][0]
    answered(served, made["approval"]["approval"], body={"params": {"to": "cleo"}})
    ended(served, made["call_id"])

    (after,) = served.ask("GET", f"/calls/{made['approval']['approval']}/explanation").body["calls"]

    assert (before["status"], before["decision"], after["status"]) == ("pending_approval", "ask", "succeeded")
    assert before["would_change_it"] == [{"change": "an approver approves it", "outcome": "allowed"}]
    assert [rule["id"] for rule in after["rules"]] == ["sending-needs-a-yes"]
    said = [step["what"] for step in after["course"]]
    assert sum(step.startswith("a person was asked") for step in said) == 2  # the edited request is another one
    assert "it started" in said
