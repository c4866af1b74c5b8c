"""The pages about rules: reading them, trying and testing them, and explaining what they decided."""

from __future__ import annotations

import re
from collections.abc import Generator

import pytest
from playwright.sync_api import Browser, expect

from fixtures.accessibility import violations
from fixtures.commands import Paddock
from fixtures.daemons import Daemon, daemon, eventually
from fixtures.page_clients import Person, signed_in
from fixtures.prepared_homes import enabled_parrot, prepare_home
from fixtures.visitors import needs_a_browser, visiting

SCRIPT = "<script>document.title='bitten'</script>"
OURS = f"""
@id("parrots-are-asked-about")
@text("Somebody hears the parrot first. {SCRIPT}")
@approval("action") @approvers("role:approver,group:nihgt-shift")
forbid (principal, action == Action::"callUnattended", resource == Callable::"parrot.say")
unless {{ principal in Group::"nihgt-shift" }};
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Daemon, None, None]:
    folder = tmp_path_factory.mktemp("policy-pages")
    paddock = Paddock(folder / "home")
    prepare_home(paddock, enabled_parrot)
    paddock.quickly("user", "add", "ann")
    paddock.quickly("user", "add", "gus", "--role", "guest", "--name", SCRIPT)
    paddock.quickly("group", "add", "night-shift")
    paddock.quickly("tenant", "add", "acme")
    paddock.quickly("user", "add", "omar", "--tenant", "acme", "--role", "operator")
    write_rules(paddock, OURS)
    with daemon(paddock) as started:
        yield started


@pytest.fixture(scope="module")
def operator(served: Daemon) -> Person:
    return signed_in(served, "operator")


@pytest.fixture(scope="module")
def ann(served: Daemon) -> Person:
    return signed_in(served, "ann")


@pytest.fixture(scope="module")
def omar(served: Daemon) -> Person:
    return signed_in(served, "omar", "--tenant", "acme")


def write_rules(paddock: Paddock, text: str) -> None:
    folder = paddock.home / "policies"
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / "ours.cedar").write_text(text)


def called(served: Daemon, **headers: str) -> str:
    """The id of a call that a person is asked about."""
    answer = served.ask("POST", "/calls", {"name": "parrot.say", "params": {"text": "hello"}}, **headers)
    return answer.body["call_id"]


# --- the rules ------------------------------------------------------------------------------------------------------


def test_the_rules_in_force_are_told_in_words_with_their_text_and_where_they_are_from(operator: Person) -> None:
    page = operator.get("/policy").text

    assert re.search(r"\d\d rules in force", page)
    assert "1 of them is your own" in page
    assert 'id="rule-members-may-call"' in page
    assert "Members may call everything that no rule forbids." in page
    assert "policies/ours.cedar</code>, line 2" in page
    assert "What no rule allows is denied" in page
    assert "paddock policy check" not in page
    assert re.search(r"/policy/versions/pol_[0-9a-f]{32}", page)


def test_what_a_rule_says_is_text(operator: Person) -> None:
    page = operator.get("/policy").text

    assert SCRIPT not in page
    assert "&lt;script&gt;document.title" in page


def test_a_name_that_nobody_has_is_told_to_whoever_runs_the_host_alone(operator: Person, omar: Person) -> None:
    assert "did you mean &#39;night-shift&#39;" in operator.get("/policy").text
    theirs = omar.get("/policy").text
    assert "did you mean" not in theirs
    assert "/home/policies" not in theirs  # nor where files stand on its machine


def test_rules_are_searched(operator: Person) -> None:
    found = operator.get("/policy?q=parrot&effect=asks").text

    assert 'id="rule-parrots-are-asked-about"' in found
    assert 'id="rule-members-may-call"' not in found
    assert "No rule matches" in operator.get("/policy?q=zebra").text


def test_new_rules_with_a_mistake_are_told_with_their_line_and_the_old_ones_stay(
    served: Daemon, operator: Person
) -> None:
    before = re.findall(r"pol_[0-9a-f]{32}", operator.get("/policy").text)[0]
    try:
        write_rules(served.paddock, OURS.replace("principal, action", "principle, action"))
        eventually(lambda: "Your changed rules are not in use" in operator.get("/policy").text, "nobody was told")
        page = operator.get("/policy").text
        assert "ours.cedar:" in page
        assert 'id="rule-parrots-are-asked-about"' in page
    finally:
        write_rules(served.paddock, OURS.replace("hears", "listens to"))
    eventually(lambda: "Somebody listens to the parrot" in operator.get("/policy").text, "not in force")
    earlier = operator.get(f"/policy/versions/{before}").text
    assert "don’t decide any more" in earlier
    assert "Somebody hears the parrot" in earlier
    assert "Written differently today: <code>parrots-are-asked-about</code>" in earlier
    assert operator.get("/policy/versions/pol_none").status == 404


# --- trying ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "answer", "why"),
    [
        ("who=user:ann&what=parrot.say", "Asks a person", "parrots-are-asked-about"),
        ("who=user:ann&other=lathe.cut&effect=read_only", "Allowed", "members-may-call"),
        ("who=role:guest&other=lathe.cut&effect=db_write", "Denied", "had the role member"),
        ("who=user:ann&other=Gmail.SendEmail&effect=read_only", "Denied", "had enabled it and consented to it"),
        ("who=user:ann&other=Gmail.SendEmail&effect=read_only&consented=1", "Allowed", "members-may-call"),
        ("who=user:gus&other=lathe.cut&effect=db_write", "Denied", 'title="user:gus">Give the user “&lt;script&gt;'),
    ],
)
def test_the_rules_are_asked_about_a_call_that_nobody_makes(
    operator: Person, asked: str, answer: str, why: str
) -> None:
    page = operator.get(f"/policy/try?{asked}")

    assert page.status == 200
    said = page.text.partition('aria-label="The answer"')[2].partition("</section>")[0]
    assert answer in said
    assert why in said


def test_trying_calls_and_records_nothing(served: Daemon, operator: Person) -> None:
    def recorded() -> int:
        return len(served.ask("GET", "/ledger?limit=200").body["entries"])

    before = recorded()
    operator.get("/policy/try?who=user:ann&what=parrot.say")
    operator.get("/policy/tests?run=1")

    assert recorded() == before


@pytest.mark.parametrize("who", ["user:nobody", "acme/user:omar", "nonsense", "key:abcdefgh"])
def test_whoever_is_not_of_the_tenant_is_nobody(operator: Person, who: str) -> None:
    page = operator.get(f"/policy/try?who={who}&what=parrot.say")

    assert page.status == 422
    assert "That can’t be tried" in page.text


def test_another_tenant_tries_its_own_people_and_sees_no_others(omar: Person) -> None:
    assert omar.get("/policy/try?who=default/user:ann&what=parrot.say").status == 422
    assert "user:ann" not in omar.get("/policy/try").text


def test_the_cases_that_come_with_the_rules_are_run(operator: Person) -> None:
    assert "came out as expected" in operator.get("/policy/tests?run=1").text


def test_a_request_leads_to_the_rule_that_asks(served: Daemon, operator: Person) -> None:
    call = called(served, paddock_as="user:ann")
    waiting = served.ask("GET", "/approvals").body["approvals"]
    request = next(one["id"] for one in waiting if one["call_id"] == call)

    found = re.findall(r'href="/policy#([^"]+)"', operator.get(f"/approvals/{request}").text)

    assert found == ["rule-parrots-are-asked-about"]
    assert all(f'id="{one}"' in operator.get("/policy").text for one in found)


def test_what_does_not_stand_is_not_said_to_be_revoked(operator: Person, omar: Person) -> None:
    assert [one.send("/approvals/standing/sta_none/revoke").status for one in (operator, omar)] == [404, 404]


# --- explaining -----------------------------------------------------------------------------------------------------


def test_the_decision_about_a_call_is_explained_on_its_page_with_its_rule(
    served: Daemon, operator: Person, ann: Person
) -> None:
    call = called(served, paddock_as="user:ann")

    assert operator.get(f"/explain/{call}").location.endswith(f"/calls/{call}#decision")
    page = operator.get(f"/calls/{call}").text
    assert '<strong><span title="user:ann">ann</span></strong>' in page
    assert 'href="/policy#rule-parrots-are-asked-about"' in page
    assert "an approver approves it" in page

    theirs = ann.get(f"/calls/{call}")
    assert theirs.status == 200
    assert "/ledger/" not in theirs.text
    assert "/policy#" not in theirs.text


def test_what_is_not_theirs_is_explained_to_nobody(served: Daemon, ann: Person, omar: Person) -> None:
    call = called(served)

    for place in (f"/explain/{call}", f"/calls/{call}"):
        assert ann.get(place).status == 404
        assert omar.get(place).status == 404


def test_an_id_that_is_typed_leads_to_its_explanation(operator: Person) -> None:
    assert operator.get("/explain?id=call_x%20y").location.endswith("/explain/call_x%20y")
    nothing = operator.get("/explain/%3Cscript%3E")
    assert nothing.status == 404
    assert "<script>" not in nothing.text.partition("<main")[2]


def test_members_see_none_of_the_operators_pages(ann: Person) -> None:
    for place in ("/policy", "/policy/try", "/policy/tests", "/policy/versions/pol_x"):
        assert ann.get(place).status == 403, place
    assert ann.get("/explain").status == 200


# --- in a browser ---------------------------------------------------------------------------------------------------


@needs_a_browser
def test_somebody_tries_a_decision_and_comes_to_the_rule_that_decides(browser: Browser, served: Daemon) -> None:
    with visiting(browser, served, "operator") as page:
        page.get_by_role("link", name="Admin").click()
        page.get_by_role("link", name="Try a decision").click()
        page.get_by_label("Who calls").select_option("user:ann")
        page.get_by_label("What they call").select_option("parrot.say")
        page.get_by_role("button", name="Ask the rules").click()
        answer = page.get_by_label("The answer")
        expect(answer).to_contain_text("Asks a person")

        answer.get_by_role("link", name="parrots-are-asked-about").click()

        expect(page.get_by_label("The rule parrots-are-asked-about in Cedar")).to_be_visible()


@needs_a_browser
@pytest.mark.slow
def test_every_page_is_there_for_people_who_do_not_see_it(browser: Browser, served: Daemon) -> None:
    asked = "/policy/try?who=role:guest&other=lathe.cut&effect=db_write"
    with visiting(browser, served, "operator", bypass_csp=True) as page:
        found: list[str] = []
        for place in ("/policy?q=parrot", "/policy?q=guests", asked, "/policy/tests?run=1", "/explain/nothing"):
            page.goto(place)
            assert "bitten" not in page.title()
            page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
            found += violations(page)
        assert found == []
