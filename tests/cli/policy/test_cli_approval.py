"""`paddock approval`, and calls that wait for a person: asked at the terminal, left without one, and gone on with."""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from contextlib import ExitStack
from typing import Any

import pytest

from fixtures.commands import INTERRUPT, PATIENCE, Paddock
from fixtures.daemons import ask, daemon, eventually
from fixtures.mail import mail
from paddock.config.directories import user_name

# Without a daemon it is the same story again, except where a test says so.
both_ways = pytest.mark.parametrize("way", [pytest.param("alone", marks=pytest.mark.slow), "served"])
TO_BOB = ("call", "mail.send", "-p", '{"to": "bob"}')
ODD = ("call", "mail.odd")
PROMPT = "later > "


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Generator[dict[str, Paddock], None, None]:
    """Two homes with the plugin enabled; in one of them a daemon runs."""
    folder = tmp_path_factory.mktemp("approvals")
    found = {way: Paddock(folder / way / "home", more={"NO_COLOR": "1"}) for way in ("alone", "served")}
    for way, paddock in found.items():
        (folder / way).mkdir()
        paddock.quickly("plugin", "install", mail(folder / way / "mail"), "--yes")
        paddock.quickly("plugin", "enable", "mail", "--no-start")
    with ExitStack() as running:
        running.enter_context(daemon(found["served"]))
        yield found


@pytest.fixture
def caller(homes: dict[str, Paddock], way: str) -> Paddock:
    return homes[way]


@pytest.fixture
def alone(homes: dict[str, Paddock]) -> Paddock:
    return homes["alone"]


@pytest.fixture
def served(homes: dict[str, Paddock]) -> Paddock:
    return homes["served"]


def held(paddock: Paddock, *words: object) -> dict[str, Any]:
    """A call that is left for somebody, as a script is told of it."""
    return paddock(*(words or TO_BOB), "--json", code=4).error["details"]


def state(paddock: Paddock, approval: str) -> str:
    return paddock("approval", "show", approval, "--json").json["state"]


# --- without a terminal ---------------------------------------------------------------------------------------------


@both_ways
def test_a_call_that_needs_a_yes_is_left_with_its_id_and_the_line_that_approves_it(caller: Paddock, way: str) -> None:
    said = caller(*TO_BOB, "--json", code=4)

    waits = said.error["details"]
    assert said.error["code"] == "approval_required"
    assert (waits["preview"]["params"], waits["preview"]["says"]) == ({"to": "bob"}, "Does send")
    assert f"→ approve it: paddock approval approve {waits['approval']}" in said.err
    then = f"paddock call follow {waits['call_id']}" if way == "served" else "makes the call and prints its result"
    assert then in said.err
    assert "token" not in str(waits)


@both_ways
def test_what_waits_is_listed_shown_and_denied(caller: Paddock) -> None:
    waits = held(caller)

    (line,) = (line for line in caller("approval", "list").out.splitlines() if waits["approval"] in line)
    assert line.split()[1:5] == ["pending", "action", "mail", "send"]
    shown = caller("approval", "show", waits["approval"])
    assert "it sends messages to the outside" in shown.err
    assert "it says of itself  Does send" in shown.err
    assert '"to": "bob"' in shown.err
    assert "1 of role:approver or role:operator" in shown.err
    assert waits["approval"] in [one["id"] for one in caller("approval", "list", "--json").json["approvals"]]

    assert "--yes" in caller("approval", "deny", waits["approval"], code=4).err
    said = caller("approval", "deny", waits["approval"], "-y", "-m", "not to him")
    assert f"denied {waits['approval']}" in said.err
    assert waits["approval"] not in caller("approval", "list").out
    everything = caller("approval", "list", "--all", "--json").json["approvals"]
    (ended,) = (one for one in everything if one["id"] == waits["approval"])
    assert (ended["state"], ended["answers"][0]["comment"]) == ("denied", "not to him")
    assert "denied it: not to him" in caller("approval", "show", waits["approval"]).err


def test_approving_without_a_daemon_makes_the_call_and_prints_its_result(alone: Paddock) -> None:
    waits = held(alone)

    said = alone("approval", "approve", waits["approval"], "-y", "-m", "fine")

    assert said.json == {"sent": "bob"}
    assert f"the call was made: paddock explain {waits['call_id']}" in said.err
    assert alone("approval", "approve", waits["approval"], "-y", "--json", code=1).error["code"] == "approval.consumed"
    told = alone("explain", waits["call_id"]).out
    assert told.startswith(f"local:{user_name(os.geteuid())} called mail.send on ")
    assert "approved it: fine" in told
    assert "(rule sending-needs-a-yes, shipped, line " in told


@pytest.mark.slow
def test_with_json_the_answer_is_one_document_with_the_call_in_it(alone: Paddock) -> None:
    waits = held(alone)

    said = alone("approval", "approve", waits["approval"], "-y", "--params", '{"to": "cleo"}', "--json").json

    assert (said["state"], said["replaces"]) == ("consumed", waits["approval"])
    assert said["call"]["result"] == {"sent": "cleo"}
    assert state(alone, waits["approval"]) == "voided"


def test_a_call_that_fails_after_the_yes_is_told_as_any_failure(alone: Paddock) -> None:
    waits = held(alone, "call", "mail.send", "-p", '{"to": "nobody"}')

    said = alone("approval", "approve", waits["approval"], "-y", "--json", code=7)

    assert said.json["call"]["error"]["category"] == "plugin"
    assert "and the call failed" in said.err
    assert "mail failed (ValueError)" in said.err


@both_ways
def test_parameters_that_do_not_fit_are_told_and_the_request_waits_on(caller: Paddock) -> None:
    waits = held(caller)

    said = caller("approval", "approve", waits["approval"], "-y", "-p", '{"to": 7}', "--json", code=6)

    assert said.error["code"] == "invalid_params"
    assert "to: expected string, found integer" in said.err
    assert state(caller, waits["approval"]) == "pending"
    edited = caller("approval", "approve", waits["approval"], "-y", "-p", '{"to": "cleo"}').err
    assert f"with your parameters, replaced {waits['approval']}" in edited
    assert state(caller, waits["approval"]) == "voided"


@both_ways
def test_with_a_second_approver_a_call_says_that_another_has_to_answer_and_is_taken_back(caller: Paddock) -> None:
    told = caller.quickly("user", "add", "second", "--role", "approver").err
    waits = caller(*TO_BOB, "--json", code=4)
    approval = waits.error["details"]["approval"]
    refused = caller("approval", "approve", approval, "-y", code=5).err
    taken_back = caller("approval", "deny", approval, "-y").err
    removed = caller.quickly("user", "role", "remove", "second", "approver").err

    assert "nobody approves what they asked for" in told
    assert "nobody approves" not in removed
    assert f"another person has to approve it; to withdraw it: paddock approval deny {approval}" in waits.err
    assert "approve it:" not in waits.err
    assert '@four_eyes("no")' in refused
    assert f"you withdrew {approval}; the call is not made" in taken_back
    assert state(caller, approval) == "withdrawn"
    caller.quickly("user", "remove", "second", "--yes")


@both_ways
def test_what_is_confirmed_once_is_not_asked_again_until_it_is_revoked(caller: Paddock) -> None:
    earlier, waits = held(caller, *ODD, "-p", '{"turn": 1}'), held(caller, *ODD)
    given = caller("approval", "approve", waits["approval"], "-y").err
    for one in (waits, earlier):
        eventually(lambda one=one: state(caller, one["approval"]) == "consumed", "it was never made")

    assert caller(*ODD).json == {"odd": True}
    (standing,) = caller("approval", "standing", "list", "--json").json["standing"]
    assert "it holds for all calls of the tool, until the plugin is upgraded" in given
    assert f"to end that: paddock approval standing remove {standing['id']}" in given
    assert f"it waited for the same, and is approved too: {earlier['approval']}" in given
    shown = caller("approval", "show", earlier["approval"]).err
    assert f"until the plugin is upgraded, with the standing approval {standing['id']}" in shown
    assert f"approved it, with the standing approval {standing['id']}" in caller("explain", earlier["call_id"]).out
    (line,) = (line for line in caller("approval", "standing", "list").out.splitlines() if standing["id"] in line)
    assert line.split()[2:6] == ["mail", "odd", "tool", "always"]
    assert (
        f"made it a standing approval for this tool until the plugin is upgraded ({standing['id']})"
        in caller("explain", standing["id"]).out
    )
    assert "removed the standing approval for" in caller("approval", "standing", "remove", standing["id"]).err
    assert "was revoked already, at 20" in caller("approval", "standing", "remove", standing["id"]).err
    assert "no standing approvals" in caller("approval", "standing", "list").err
    everything = caller("approval", "standing", "list", "--all")
    assert "REVOKED" in everything.out
    assert standing["id"] in everything.out
    again = held(caller, *ODD)
    once = caller("approval", "approve", again["approval"], "--once", "-y").err
    assert "it holds for this call alone; the next one asks again" in once
    caller("approval", "deny", held(caller, *ODD)["approval"], "-y")


def test_the_line_to_type_without_a_terminal_says_all_that_was_typed(served: Paddock) -> None:
    approval = held(served)["approval"]
    choices = ("--once", "--params", '{"to": "eve"}', "-m", "not to Bob")
    refused = served("approval", "approve", approval, *choices, code=4)
    typed = f"""paddock approval approve {approval} --once --params '{{"to": "eve"}}' --comment 'not to Bob' --yes"""
    assert typed in refused.err
    assert state(served, approval) == "pending"
    served("approval", "deny", approval, "--yes")


@both_ways
def test_what_cannot_be_answered_so_says_why(caller: Paddock) -> None:
    waits = held(caller)

    always = caller("approval", "approve", waits["approval"], "--always", "-y", "--json", code=5)
    session = caller("approval", "approve", waits["approval"], "--session", "--always", "-y", code=2)
    plugin = caller("approval", "approve", waits["approval"], "--plugin", "-y", code=2)
    assert "--session or --always" in plugin.err
    assert always.error["code"] == "approval.not_rememberable"
    assert "is approved for exactly this call, never for others" in always.err
    assert "approve it once" in always.err
    assert "one of --session and --always" in session.err
    for words in (
        ("show", "apr_0"),
        ("approve", "apr_0", "-y"),
        ("deny", "apr_0", "-y"),
        ("standing", "remove", "sta_0"),
    ):
        assert caller("approval", *words, "--json", code=3).error["code"] == "approval.not_found"
    assert state(caller, waits["approval"]) == "pending"
    caller("approval", "deny", waits["approval"], "-y")
    waits = held(caller, *ODD)
    assert (
        "approve the tool alone"
        in caller("approval", "approve", waits["approval"], "--always", "--plugin", "-y", code=5).err
    )
    caller("approval", "deny", waits["approval"], "-y")


# --- with a daemon --------------------------------------------------------------------------------------------------


def test_a_call_goes_on_in_the_daemon_and_its_result_is_fetched(served: Paddock) -> None:
    waits = held(served)
    looked = served("call", "show", waits["call_id"])
    assert "pending_approval" in looked.err
    assert f"paddock approval approve {waits['approval']}" in looked.err

    said = served("approval", "approve", waits["approval"], "-y")

    assert said.out == ""
    assert served("call", "follow", waits["call_id"]).json == {"sent": "bob"}
    assert served("call", "show", waits["call_id"], "--json").json["status"] == "succeeded"


def test_whoever_waits_gets_the_result_once_somebody_said_yes(served: Paddock) -> None:
    with served.start(*TO_BOB, "--wait") as process:
        assert process.stderr is not None
        approval = process.stderr.readline().split()[-1]
        served("approval", "approve", approval, "-y")
        out, err = process.communicate(timeout=60)

    assert (process.returncode, err) == (0, "")
    assert '"sent": "bob"' in out


def test_whoever_waits_is_told_of_a_no(served: Paddock) -> None:
    waits = held(served)
    with served.start("call", "follow", waits["call_id"]) as process:
        assert process.stderr is not None
        assert waits["approval"] in process.stderr.readline()
        served("approval", "deny", waits["approval"], "-y", "-m", "not today")
        _, err = process.communicate(timeout=60)

    assert process.returncode == 5
    assert "denied it: not today" in err


def test_a_detached_call_waits_and_is_cancelled_with_its_request(served: Paddock) -> None:
    call = served(*TO_BOB, "--detach").out.strip()
    eventually(lambda: "pending_approval" in served("call", "show", call).err, "it never waited")
    approval = served("call", "show", call, "--json").json["approval"]["approval"]

    served("call", "cancel", call)

    assert state(served, approval) == "withdrawn"


def test_a_call_that_takes_too_long_waits_for_nobody(served: Paddock) -> None:
    said = served(*TO_BOB, "--wait", "--timeout", "1.5", "--json", code=8)
    approval = said.err.split("paddock approval approve ")[1].split()[0]

    assert said.error["code"] == "call.timeout"
    assert state(served, approval) == "withdrawn"


# --- at a terminal --------------------------------------------------------------------------------------------------


@both_ways
def test_at_a_terminal_the_person_is_shown_what_would_be_done_and_asked(caller: Paddock) -> None:
    screen = caller.on_terminal(*TO_BOB, answers=["y"], prompt=PROMPT)

    assert "mail send waits for a person (action)" in screen
    assert "it sends messages to the outside" in screen
    assert '"to": "bob"' in screen
    assert "always" not in screen  # an action is approved for exactly its call
    assert '"sent": "bob"' in screen


@both_ways
def test_at_a_terminal_nobody_is_asked_for_a_yes_that_would_not_count(caller: Paddock) -> None:
    caller.quickly("user", "add", "second", "--role", "approver")
    left = caller.on_terminal(*TO_BOB, answers=["later"], prompt=PROMPT, code=4)
    taken_back = caller.on_terminal(*TO_BOB, answers=["y"], prompt=PROMPT, code=1)
    caller.quickly("user", "remove", "second", "--yes")

    assert "mail send waits for a person (action)" in left
    assert "Another person has to approve it. Withdraw it?" in left
    assert "Allow it?" not in left
    assert "the call was cancelled" in taken_back


@both_ways
def test_at_a_terminal_no_ends_the_call(caller: Paddock) -> None:
    screen = caller.on_terminal(*TO_BOB, answers=["n"], prompt=PROMPT, code=5)

    assert "denied it" in screen


@both_ways
@pytest.mark.parametrize("typed", ["later", "", "yeah"])
def test_at_a_terminal_anything_else_leaves_it_for_later(caller: Paddock, typed: str) -> None:
    screen = caller.on_terminal(*TO_BOB, answers=[typed], prompt=PROMPT, code=4)

    approval = screen.split("paddock approval approve ")[1].split()[0]
    assert state(caller, approval) == "pending"
    caller("approval", "deny", approval, "-y")


@both_ways
def test_at_a_terminal_a_confirmation_is_for_always_or_once(caller: Paddock) -> None:
    once = caller.on_terminal(*ODD, answers=["o"], prompt=PROMPT)
    always = caller.on_terminal(*ODD, answers=["y"], prompt=PROMPT)

    assert "[y]es, always for this tool until it is upgraded · [o]nce, this call alone" in once
    assert "it holds for this call alone" in once
    assert caller(*ODD).json == {"odd": True}
    (standing,) = caller("approval", "standing", "list", "--json").json["standing"]
    assert f"to end that: paddock approval standing remove {standing['id']}" in always
    caller("approval", "standing", "remove", standing["id"])


def test_at_a_terminal_always_is_refused_for_an_action_and_asked_again(served: Paddock) -> None:
    screen = served.on_terminal(*TO_BOB, answers=["always", "n"], prompt=PROMPT, code=5)

    assert "a request of kind action is approved for exactly this call, never for others" in screen


def test_whoever_approves_a_confirmation_at_a_terminal_chooses_how_long_it_lasts(served: Paddock) -> None:
    waits, prompt = held(served, *ODD), "anything else: no > "
    left = served.on_terminal("approval", "approve", waits["approval"], answers=["n"], prompt=prompt, code=4)
    screen = served.on_terminal("approval", "approve", waits["approval"], answers=["once"], prompt=prompt)

    assert "nothing was changed" in left
    assert "it holds for this call alone" in screen
    assert served("approval", "standing", "list", "--json").json["standing"] == []


@both_ways
def test_ctrl_c_at_the_question_takes_it_back(caller: Paddock) -> None:
    screen = caller.on_terminal(*TO_BOB, answers=[INTERRUPT], prompt=PROMPT, code=130)

    assert "interrupted" in screen
    newest = caller("approval", "list", "--all", "--json").json["approvals"][0]
    assert newest["state"] == "withdrawn"


@both_ways
def test_an_answer_at_a_terminal_is_confirmed_once_more(caller: Paddock) -> None:
    waits = held(caller)

    screen = caller.on_terminal("approval", "approve", waits["approval"], answers=["n"], code=4)
    assert "it sends messages to the outside" in screen
    assert "nothing was changed" in screen
    caller.on_terminal("approval", "approve", waits["approval"], answers=["y"])
    eventually(lambda: state(caller, waits["approval"]) == "consumed", "it was never made")


def test_a_key_is_shown_by_its_owner_and_label_and_only_the_owner_is_said_to_answer(alone: Paddock) -> None:
    alone.quickly("user", "add", "bob")
    key = alone.quickly("apikey", "add", "bob", "--label", "helper", "--json").json["id"]
    waits = alone.quickly(*ODD, "--as", f"key:{key}", code=4)
    assert "only bob can answer it, signed in at the console; a link for that: paddock login --user bob" in waits.err
    assert "approval approve" not in waits.err, "the operator would be refused"
    waiting = alone.quickly("approval", "list", "--json").json["approvals"]
    (request,) = (one for one in waiting if one["requester"] == f"key:{key}")  # others wait for other tests
    for shown in (
        alone.quickly("approval", "list").out,
        alone.quickly("approval", "show", request["id"]).err,
        alone.quickly("explain", request["call_id"]).out,
    ):
        assert "bob’s key “helper”" in shown and f"key:{key}" not in shown
    alone.quickly("approval", "deny", request["id"], "-y")


# --- explained ------------------------------------------------------------------------------------------------------


@pytest.mark.req("B-10", "denied")
@both_ways
def test_what_was_denied_is_explained_by_the_line_that_the_denial_gives(caller: Paddock) -> None:
    name = f"eve-{caller.home.parent.name}"
    caller.quickly("user", "add", name, "--role", "visitor")
    denied = caller("call", "mail.look", "--as", f"user:{name}", "--json", code=5)
    words = denied.error["command"].split()[1:]

    told = caller(*words)
    assert f"user:{name} (made by the operator " in told.out
    assert "No rule allowed it, and what no rule allows does not happen." in told.out
    assert f"it would have been allowed if user:{name} had the role guest" in told.out
    value = caller(*words, "--json").json
    (call,) = value["calls"]
    assert (value["id"], call["decision"], call["rules"]) == (words[-1], "deny", [])
    assert caller(*words, "--as", f"user:{name}").out == told.out
    assert caller("explain", "call_0", "--json", code=3).error["code"] == "explain.unknown"


def test_the_daemon_explains_too_and_tells_others_of_their_own_calls_alone(served: Paddock) -> None:
    where = served.home / "run" / "paddock.sock"
    for name in ("ann", "bob"):
        served.quickly("user", "add", name, "--role", "visitor")
    denied = served("call", "mail.look", "--as", "user:ann", "--json", code=5).error["details"]["call_id"]

    mine = ask(where, "GET", f"/calls/{denied}/explanation", Paddock_As="user:ann")
    theirs = ask(where, "GET", f"/calls/{denied}/explanation", Paddock_As="user:bob")
    operators = ask(where, "GET", f"/calls/{denied}/explanation")

    assert (mine.status, theirs.status, operators.status) == (200, 404, 200)
    assert theirs.body["code"] == "explain.unknown"
    assert mine.body == operators.body == served("explain", denied, "--json").json


def test_whoever_waits_with_the_same_key_gets_what_came_of_the_yes(served: Paddock) -> None:
    once = (*TO_BOB, "--idempotency-key", "together")
    waits = held(served, *once)
    detached = served(*once, "--detach").out.strip()
    with served.start(*once, "--wait", "--json") as waiting:
        assert waiting.stderr is not None
        assert waits["approval"] in waiting.stderr.readline()
        served("approval", "approve", waits["approval"], "--yes")
        out, _ = waiting.communicate(timeout=PATIENCE)

    assert json.loads(out)["replay_of"] == waits["call_id"]
    assert served("call", "follow", detached, "--json").json["result"] == {"sent": "bob"}
    assert "approve it" not in served("call", "show", detached).err
    assert f"answered from {waits['call_id']}; nothing was done" in served(*once).err


def test_without_a_daemon_nobody_is_let_believe_that_it_waits(alone: Paddock) -> None:
    said = alone(*TO_BOB, "--wait", code=4)

    assert "--wait needs a daemon to wait for a person, and none runs: paddock serve" in said.err
    assert "paddock approval approve apr_" in said.err
