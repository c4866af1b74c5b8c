"""The rule editor: a mistake is shown at its line, consequences are shown before they count, and versions come back."""

from __future__ import annotations

import re
from collections.abc import Generator

import pytest
from playwright.sync_api import Browser, expect

from fixtures.accessibility import violations
from fixtures.commands import Paddock
from fixtures.daemons import Daemon, daemon
from fixtures.page_clients import Person, signed_in
from fixtures.prepared_homes import enabled_parrot, prepare_home
from fixtures.visitors import needs_a_browser, visiting

SCRIPT = "<img src=x onerror=\"document.title='bitten'\">"
QUIET = f"""// A note about the parrot.
@id("quiet-please") @text("The parrot is quiet. {SCRIPT.replace('"', "'")}")
forbid (principal, action in Action::"anyCall", resource == Callable::"parrot.say");
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Daemon, None, None]:
    folder = tmp_path_factory.mktemp("rule-editor")
    paddock = Paddock(folder / "home")
    prepare_home(paddock, enabled_parrot)
    paddock.quickly("user", "add", "ann")
    paddock.quickly("user", "add", "olga", "--role", "operator", "--name", "Olga")
    paddock.quickly("tenant", "add", "acme")
    paddock.quickly("user", "add", "omar", "--tenant", "acme", "--role", "operator")
    with daemon(paddock) as started:
        yield started


@pytest.fixture(scope="module")
def olga(served: Daemon) -> Person:
    return signed_in(served, "olga")


def decision(served: Daemon) -> str:
    return served.ask("POST", "/policy/try", {"name": "parrot.say"}).body["decision"]


@needs_a_browser
def test_an_operator_mends_a_rule_sees_what_it_changes_and_it_counts(browser: Browser, served: Daemon) -> None:
    served.ask("POST", "/calls", {"name": "parrot.say", "params": {"text": "hello"}})
    with visiting(browser, served, "olga", bypass_csp=True) as page:
        page.goto("/policy")
        page.get_by_role("button", name="Add a rule file").click()
        page.get_by_label("Name").fill("quiet")
        page.get_by_label("Rules, in Cedar").fill(QUIET.replace("anyCall", "annyCall"))
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("alert")).to_contain_text("Line 3: there is no action 'annyCall'")
        expect(page.get_by_role("alert")).to_contain_text("did you mean 'anyCall'?")
        found = violations(page)
        assert decision(served) == "allow"

        page.get_by_label("Rules, in Cedar").fill(QUIET)
        page.get_by_role("button", name="Save").click()
        asked = page.get_by_role("alert")
        expect(asked).to_contain_text("Not saved yet")
        expect(asked).to_contain_text("You could no longer call parrot.say")
        expect(asked.get_by_role("row").nth(1)).to_contain_text("Denied")
        found += violations(page)
        assert decision(served) == "allow"
        page.get_by_role("button", name="Save anyway").click()
        expect(page.get_by_role("status")).to_contain_text("The rules decide from now on")
        assert decision(served) == "deny"

        page.get_by_role("link", name="quiet.cedar").click()
        assert "A note about the parrot" in page.get_by_label("Rules, in Cedar").input_value()
        page.on("dialog", lambda dialog: dialog.accept())
        page.get_by_role("button", name="Remove this file").click()
        page.get_by_role("button", name="Remove the file anyway").click()
        expect(page.get_by_role("status")).to_contain_text("The file is removed")
        assert decision(served) == "allow"

        page.locator("#versions ~ table a").nth(1).click()  # the one before
        page.get_by_role("link", name="quiet.cedar as it was").click()
        page.get_by_role("button", name="Check").click()
        expect(page.get_by_role("status").last).to_contain_text("New rules: quiet-please")
        found += violations(page)
        page.get_by_role("button", name="Save").click()
        page.get_by_role("button", name="Save anyway").click()
        expect(page.get_by_role("status")).to_contain_text("The rules decide from now on")
        assert decision(served) == "deny"
        assert "bitten" not in page.title()
        found += violations(page)
        assert found == []
    edits = served.ask("GET", "/ledger?type=policy.edited").body["entries"]
    assert [(one["facts"]["change"], one["personal"]["by"]) for one in edits[::-1]] == [
        ("added", "user:olga"), ("removed", "user:olga"), ("added", "user:olga"),
    ]  # fmt: skip


def test_what_another_saved_meanwhile_is_not_overwritten(served: Daemon, olga: Person) -> None:
    rule = '@id("one") @text("One.") permit (principal in Role::"nobody", action, resource);\n'
    assert olga.send("/policy/files/new", name="two people.cedar", text=rule, do="save").status == 422
    assert olga.send("/policy/files/new", name="both", text=rule.replace("\n", "\r\n"), do="save").status == 303
    page = olga.get("/policy/files/both.cedar").text
    (digest,) = set(re.findall(r'name="digest" value="(sha256:\w+)"', page))
    elsewhere = served.ask("PUT", "/policy/files/both.cedar", {"text": f"// mine\n{rule}", "digest": digest})
    assert elsewhere.status == 200, elsewhere.body

    late = olga.send("/policy/files/both.cedar", digest=digest, text=f"// hers\n{rule}", do="save")
    assert late.status == 409
    assert "was changed by another person" in late.text
    assert "// hers" in late.text  # what was typed stays
    assert "// mine" in olga.get("/policy/files/both.cedar").text
    again = olga.send("/policy/files/new", name="both.cedar", text=rule, do="save")
    assert (again.status, "there is a rule file both.cedar already" in again.text.lower()) == (409, True)


def test_own_cases_are_kept_and_run_before_a_rule_is_saved(served: Daemon, olga: Person) -> None:
    page = olga.send("/policy/tests", text="cases:\n  - {who: member, what: parrot.fly, expect: perhaps}\n")
    assert (page.status, "Line 2" in page.text, "expect: perhaps" in page.text) == (422, True, True)
    case = "{name: guests add no hay, who: guest, what: {call: hay.add, effects: [db_write]}, expect: %s}"
    saved = olga.followed("/policy/tests", text=f"cases:\n  - {case % 'allow'}\n")
    assert "1 of" in saved.text and "guests add no hay" in saved.text  # it runs, and fails
    assert "1 of" in served.paddock.quickly("policy", "test", code=1).err
    (digest,) = set(re.findall(r'name="digest" value="(sha256:\w+)"', saved.text))
    late = olga.send("/policy/tests", text="")  # based on what is not there any more
    assert (late.status, 'name="digest" value=""' in late.text) == (409, True)
    assert (
        olga.send("/policy/tests", text="", digest=f"sha256:{'0' * 64}").text.count(f'value="sha256:{"0" * 64}"') == 1
    )
    passing = f"cases:\n  - {case % 'deny'}\n"
    assert "came out as expected" in olga.followed("/policy/tests", text=passing, digest=digest).text

    rule = (
        '@id("louder") @text("Louder.") permit (principal in Role::"guest", action in Action::"anyCall", resource);\n'
    )
    refused = olga.send("/policy/files/new", name="louder", text=rule, do="save")
    assert (refused.status, "guests add no hay" in refused.text) == (409, True)
    assert not (served.paddock.home / "policies" / "louder.cedar").exists()
    (digest,) = set(re.findall(r'name="digest" value="(sha256:\w+)"', olga.get("/policy/tests").text))
    olga.followed("/policy/tests", text="", digest=digest)
    assert not (served.paddock.home / "policies" / "cases.yaml").exists()


@pytest.mark.parametrize(
    ("kind", "says"), [("folder", "is a folder"), ("link", "is a link"), ("dangling", "is a link")]
)
def test_cases_that_are_no_ordinary_file_are_refused_with_words_and_stay(
    served: Daemon, olga: Person, kind: str, says: str
) -> None:
    path = served.paddock.home / "policies" / "cases.yaml"
    path.parent.mkdir(mode=0o700, exist_ok=True)
    elsewhere = served.paddock.home / "elsewhere.yaml"
    elsewhere.write_text("cases:\n  - {who: member, what: parrot.say, expect: allow}\n")
    if kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(elsewhere if kind == "link" else served.paddock.home / "none.yaml")
    try:
        page = olga.get("/policy/tests")
        assert (page.status, says in page.text) == (200, True)
        saved = olga.send("/policy/tests", text=elsewhere.read_text())
        assert (saved.status, says in saved.text) == (422, True)
        change = served.ask("POST", "/policy/files/quiet.cedar/check", {"text": QUIET})
        assert (change.status, says in change.body["failed_tests"][0]["why"]) == (200, True), change.body
        assert says in served.paddock.quickly("policy", "test", code=6).err
        assert path.is_dir() if kind == "folder" else path.is_symlink()
    finally:
        path.rmdir() if kind == "folder" else path.unlink()


def test_the_editor_is_for_operators_of_the_host(served: Daemon, olga: Person) -> None:
    ann, omar = signed_in(served, "ann"), signed_in(served, "omar", "--tenant", "acme")
    for person in (ann, omar):
        assert person.get("/policy/files/new").status == 403
        assert person.send("/policy/files/new", name="mole", text="", do="save").status == 403
        assert person.send("/policy/tests", text="").status == 403
    assert "/policy/files/" not in omar.get("/policy").text
    assert olga.send("/policy/files/new", origin="http://evil.example", name="mole", text="").status == 403
    assert olga.get("/policy/files/none.cedar").status == 404
