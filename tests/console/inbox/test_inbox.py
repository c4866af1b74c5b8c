"""People at their inbox, with a real browser: requests are read and answered, by mouse, keys and phone."""

from __future__ import annotations

import re
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from fixtures.commands import Paddock
from fixtures.daemons import Daemon, daemon, eventually
from fixtures.mail import mail
from fixtures.packages import native, write_file
from fixtures.page_clients import signed_in
from fixtures.people import key_of
from fixtures.visitors import needs_a_browser, visiting

pytestmark = needs_a_browser
TITLES = {"to": "Cc", "cc": "To", "body": "Text", "note": "text_", "first_name": "First Name", "long": "x" * 100}
RULES = """
@id("odd-takes-two") @text("Another person than who edited it has to agree.") @approval("action") @four_eyes("yes")
forbid (principal, action == Action::"callUnattended", resource == Callable::"mail.odd");
@id("looking-takes-consent") @text("Looking into letters takes consent.") @approval("consent")
forbid (principal, action == Action::"callUnattended", resource == Callable::"mail.look");
"""


@dataclass(frozen=True, slots=True)
class Office:
    """A host on which Ann asks with a key, and its operator answers."""

    served: Daemon
    key: str

    def asked(self, to: str) -> str:
        """A request of Ann's, by its id."""
        made = self.served.ask_tcp("POST", "/plugins/mail/call/send", {"to": to}, authorization=f"Bearer {self.key}")
        assert made.status == 202, made.body
        return made.body["approval"]["approval"]

    def request(self, approval: str) -> Any:
        return self.served.ask("GET", f"/approvals/{approval}").body

    def answered(self, approval: str, state: str = "consumed") -> None:
        eventually(lambda: self.request(approval)["state"] == state, f"{approval} is not {state}")

    def deny_all(self) -> None:
        for item in self.served.ask("GET", "/inbox?kind=approval").body["items"]:
            self.served.ask("POST", f"/approvals/{item['id']}/deny", {})


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Generator[Office, None, None]:
    folder = tmp_path_factory.mktemp("office")
    paddock = Paddock(folder / "home")
    paddock.quickly("plugin", "install", mail(folder / "mail"), "--yes")
    paddock.quickly("plugin", "enable", "mail", "--no-start")
    inputs = {"type": "object", "properties": {name: {"type": "string", "title": TITLES[name]} for name in TITLES}}
    tool = {"name": "send", "description": "Sends", "effects": ["external_send"], "input_schema": inputs}
    titled = native(folder / "titled", "titled", runtime={"command": ["python3", "./main.py"]}, tools=[tool])
    paddock.quickly("plugin", "install", titled, "--yes")
    paddock.quickly("plugin", "enable", "titled", "--no-start")
    paddock.quickly("user", "add", "ann", "--name", "Ann Lee")
    write_file(paddock.home / "policies" / "odd.cedar", RULES)
    key = key_of(paddock, "ann", "--label", "Robin's assistant")
    with daemon(paddock) as started:
        yield Office(started, key)


@pytest.fixture(autouse=True)
def empty(office: Office) -> None:
    office.deny_all()


def opened(page: Page) -> Any:
    return page.locator("details[id^=row-][open]")


def test_an_edit_that_another_person_has_to_approve_is_told_apart_from_the_request_that_opens_next(
    browser: Browser, office: Office
) -> None:
    authorization, inputs = f"Bearer {office.key}", {"text": "hay"}
    made = office.served.ask_tcp("POST", "/plugins/mail/call/odd", inputs, authorization=authorization)
    following = office.asked("bob")
    with visiting(browser, office.served, "operator") as page:
        page.goto(f"/approvals/{made.body['approval']['approval']}")
        heading = page.get_by_role("heading", level=1)
        expect(heading).to_have_text(
            re.compile(r"Robin's assistant”? wants to run odd of mail · key:\w+ for user:ann\s*$")
        )
        page.get_by_text("Edit as JSON").click()
        page.get_by_label("Inputs, as JSON").fill('{"text": "oats"}')
        page.get_by_role("button", name="Approve").click()
        expect(heading).to_contain_text(re.compile(r"key:\w+ for user:ann"))
        page.get_by_role("button", name="Ask for the edited version").click()

        last = page.get_by_role("region", name="Your last answer")
        expect(last).to_contain_text("text: oats")
        expect(last).to_contain_text("Waiting for another person")
        expect(page.locator(".request h1")).to_contain_text("wants to run send")
        expect(page.locator(".request")).to_contain_text("bob")
        page.get_by_role("button", name="Approve").click()
        expect(page.locator("#outcome")).to_contain_text("Succeeded")
        expect(page.get_by_text("Effects that it declares: Leaves this machine")).to_be_visible()
        expect(page.locator("dl.inputs dt")).to_have_text("To")  # as the form calls it, afterwards too
    office.answered(following)


def test_a_person_who_may_not_answer_reads_the_reason_instead_of_buttons(browser: Browser, office: Office) -> None:
    first = office.asked("bob")
    look = office.served.ask("POST", "/plugins/mail/call/look", {}, paddock_as="user:ann").body["approval"]["approval"]
    with visiting(browser, office.served, "ann") as page:
        page.goto(f"/approvals/{first}")
        expect(page.get_by_role("note")).to_contain_text("You cannot answer this request")
        expect(page.get_by_role("button", name="Approve")).to_have_count(0)

        page.goto("/inbox")  # a plugin asks for consent, and the person reads nothing about themselves
        expect(page.locator(f"#item-{look}")).to_contain_text("mail asks for your consent (look)")
        expect(page.locator(f"#item-{look}")).to_contain_text("Consent · changes nothing that lasts")
        page.goto(f"/approvals/{look}")
        expect(page.get_by_role("heading", level=1)).to_have_text("mail asks for your consent (look)")
    others = str(office.served.ask("GET", f"//approvals/{look}", accept="text/html").body)
    assert "mail asks for Ann Lee’s consent (look)" in others


@pytest.mark.req("B-18", "inbox")
def test_three_are_answered_in_a_row_by_keyboard_alone(browser: Browser, office: Office) -> None:
    first, second, third = (office.asked(name) for name in ("bob", "eve", "zoe"))
    with visiting(browser, office.served, "operator") as page:
        page.goto("/inbox?kind=approval")
        expect(page.locator(f"#item-{first} summary code")).to_have_text([re.compile("^key:"), "user:ann"])
        page.keyboard.press("j")
        ring = page.evaluate("(one => [one.outlineWidth, one.outlineColor])(getComputedStyle(document.activeElement))")
        assert ring[0] == "2px" and ring[1].startswith("rgb("), "the ring around what has the focus is translucent"
        page.keyboard.press("a")  # opens the row: an answer counts for what is on screen
        expect(opened(page)).to_contain_text("bob")
        assert office.request(first)["state"] == "pending"
        page.keyboard.press("a")
        expect(page.get_by_text("1 of 2")).to_be_visible()  # the next one has opened by itself
        expect(opened(page)).to_contain_text("eve")
        page.keyboard.press("d")
        expect(page.get_by_text("1 of 1")).to_be_visible()
        expect(opened(page)).to_contain_text("zoe")
        page.keyboard.press("a")
        expect(page.get_by_text("Nothing needs you")).to_be_visible()

        page.goto("/approvals/history")  # what became of each, newest first
        rows = page.get_by_role("list", name="Requests, newest first").get_by_role("listitem")
        expect(rows.nth(1)).to_contain_text(re.compile(r"mail · send: Denied\s*To: eve"))
        expect(rows.nth(2)).to_contain_text(re.compile(r"mail · send: Succeeded\s*To: bob"))
    office.answered(first)
    office.answered(second, "denied")
    office.answered(third)


def test_a_key_answers_the_row_that_has_the_focus_and_never_another_one(browser: Browser, office: Office) -> None:
    long, short = office.asked("z" * 3_000), office.asked("bob")
    with visiting(browser, office.served, "operator") as page:
        page.goto("/inbox?kind=approval")
        page.locator(f"#row-{long} summary").focus()  # its inputs are too long: it is answered on its page
        for _ in range(2):
            page.keyboard.press("a")
            expect(opened(page)).to_have_count(0)
        page.locator(f"#row-{short} summary").focus()
        page.keyboard.press("a")
        expect(opened(page)).to_contain_text("bob")
    assert office.request(short)["state"] == "pending"


@pytest.mark.req("B-18", "inbox")
def test_several_of_one_rule_are_answered_together_and_a_failure_hides_none(browser: Browser, office: Office) -> None:
    first, second, third = (office.asked(name) for name in ("bob", "eve", "zoe"))
    with visiting(browser, office.served, "operator") as page, visiting(browser, office.served, "operator") as other:
        page.goto("/inbox?kind=approval")
        other.goto("/inbox?kind=approval")
        page.get_by_role("link", name="open them").click()
        expect(opened(page)).to_have_count(3)
        expect(page.get_by_role("button", name="Approve ticked")).to_be_hidden()
        for approval in (first, second):
            page.locator(f"#item-{approval}").get_by_role("checkbox").check()
        # One of them is answered meanwhile, as it was on the screen of this page; its row leaves every page at once.
        expect(other.locator(f"#item-{second}")).to_have_count(1)
        office.served.ask("POST", f"/approvals/{second}/deny", {})
        expect(other.locator(f"#item-{second}")).to_have_count(0)
        expect(page.locator(f"#item-{second}")).to_have_count(0)
        base = page.url.partition("/inbox")[0]
        items = [f"{one} {office.request(one)['binding']}" for one in (first, second)]
        body = "&".join(f"item={item.replace(' ', '+')}" for item in items) + "&answer=approve"
        answer = page.request.post(
            "/inbox/answer", data=body, headers={"origin": base, "content-type": "application/x-www-form-urlencoded"}
        )
        assert answer.status == 200 and "1 request approved" in answer.text() and "was not answered" in answer.text()
        assert "To: bob" in answer.text() and "To: eve" in answer.text()  # which of them was answered, and which not
        assert "Succeeded" in answer.text() and "See its result" in answer.text()
        office.answered(first)

        page.locator(f"#item-{third}").get_by_role("checkbox").check()
        page.get_by_role("button", name="Approve ticked").click()
        expect(page.get_by_text("Nothing needs you")).to_be_visible()
        page.goto(page.url)  # as someone who reads the address again does
        page.wait_for_url("**/inbox?kind=approval")
    office.answered(third)


@pytest.mark.req("B-18", "inbox")
def test_an_answer_from_the_list_counts_for_what_was_on_screen_and_for_one_rule_alone(office: Office) -> None:
    operator, first, long = signed_in(office.served, "operator"), office.asked("bob"), office.asked("hay " * 800)
    odd = office.served.ask("POST", "/plugins/mail/call/odd", {}).body["approval"]["approval"]
    on_screen = {one: f"{one} {office.request(one)['binding']}" for one in (first, long, odd)}

    def refused(*items: str) -> int:
        answer = operator.send("/inbox/answer", item=list(items), answer="approve")
        assert {office.request(one)["state"] for one in on_screen} == {"pending"}, answer.text
        return answer.status

    assert refused(f"{first} sha256:another") == 409
    assert refused(first) == 409  # without saying what was on screen
    assert refused(on_screen[long]) == 409  # its inputs were not
    assert refused(on_screen[first], on_screen[odd]) == 400
    assert operator.send("/inbox/answer", item=on_screen[first], answer="approve").status == 303
    office.answered(first)


def test_an_address_claims_no_answer_that_its_reader_never_gave(office: Office) -> None:
    operator, first, second, third = signed_in(office.served, "operator"), *(office.asked(name) for name in "xyz")
    denied = office.served.ask("POST", f"/approvals/{second}/deny", {}, paddock_as="user:ann")
    assert denied.status == 200, denied.body
    operator.send(f"/approvals/{third}", answer="no")

    def claimed(approval: str) -> list[bool]:
        addresses = (f"/inbox?done={approval}", f"/approvals/{first}?after={approval}")
        return ["Your last answer" in operator.get(address).text for address in addresses]

    assert claimed(second) == [False, False]  # Ann answered it
    assert claimed(third) == [True, True]
    assert "Your last answer" not in operator.get(f"/inbox?done={first}").text  # nobody did


def test_a_title_never_takes_the_place_of_another_inputs_name(office: Office) -> None:
    inputs = {"to": "eve", "cc": "bob", "body": "hay", "note": "oats", "first_name": "Eve", "long": "x"}
    asked = office.served.ask("POST", "/plugins/titled/call/send", inputs, paddock_as="user:ann")
    assert asked.status == 202, asked.body
    operator, request = signed_in(office.served, "operator"), asked.body["approval"]["approval"]

    def named(address: str) -> list[str]:
        return re.findall(r"<dt>(.*?)</dt>", operator.get(address).text)

    # In the order of its form, with a name wherever the title is another word, and no title that two inputs share.
    names = ["Cc (to)", "To (cc)", "body", "note", "First Name", "x" * 39 + "… (long)"]
    assert named(f"/approvals/{request}") == names
    assert named("/inbox?kind=approval") == names
    assert "<span>Cc (to): eve</span>" in operator.get("/inbox?kind=approval").text
    edited = operator.send(f"/approvals/{request}", _fields="1", answer="yes", **{f"/{n}": "z" for n in inputs}).text
    assert re.findall(r'<p class="written"><strong>(.*?)</strong>', edited) == names
    operator.send(f"/approvals/{request}", answer="no")
    assert "Cc (to): eve" in operator.get("/approvals/history").text


@pytest.mark.req("B-18", "inbox")
def test_a_phone_shows_the_answers_without_scrolling_sideways_and_long_inputs_have_to_be_opened(
    browser: Browser, office: Office
) -> None:
    long, short = office.asked("hay " * 800), office.asked("oats")
    phone = {"viewport": {"width": 390, "height": 800}, "has_touch": True}
    with visiting(browser, office.served, "operator", **phone) as page:
        page.goto("/inbox?kind=approval")
        page.locator(f"#item-{long} summary").click()
        row = page.locator(f"#item-{long}")
        expect(row).to_contain_text("too long for a list")
        expect(row.get_by_role("button", name="Approve")).to_have_count(0)
        row.get_by_role("button", name="Open").click()
        approve = page.get_by_role("button", name="Approve")
        expect(approve).to_be_in_viewport()  # it sticks to the lower edge
        expect(page.get_by_text("1 of 2")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.get_by_text("Comment…").click()
        page.get_by_label("Comment").press("Enter")  # which answers nothing
        assert office.request(long)["state"] == "pending"
        page.get_by_role("button", name="Deny").click()

        expect(page.get_by_text("1 of 1")).to_be_visible()  # the next one, with what became of the last
        expect(page.locator("#previous")).to_contain_text("Denied")
        expect(page.get_by_role("region", name="Your last answer")).to_contain_text("To: hay")
        expect(page.locator("dl.inputs")).to_contain_text("oats")
        page.get_by_role("button", name="Approve").click()
        expect(page.locator("#outcome")).to_contain_text("Succeeded")
    office.answered(short)
    office.answered(long, "denied")


@pytest.mark.req("B-18", "inbox")
def test_without_scripts_everything_is_answered_too(browser: Browser, office: Office) -> None:
    first = office.asked("bob")
    with visiting(browser, office.served, "operator", java_script_enabled=False) as page:
        page.goto(f"/inbox?open={first}")
        page.get_by_role("button", name="Approve").click()
        expect(page.get_by_text("Approved.")).to_be_visible()
    office.answered(first)


@pytest.mark.req("B-18", "inbox")
def test_a_changed_field_never_approves_what_was_asked_for(browser: Browser, office: Office) -> None:
    first = office.asked("bob")
    with visiting(browser, office.served, "operator") as page:
        page.goto(f"/approvals/{first}")
        base = page.url.partition("/approvals")[0]

        def sent(**fields: Any) -> Any:
            return page.request.post(f"/approvals/{first}", form=fields, headers={"origin": base})

        answer = sent(**{"_fields": "1", "/to": "eve", "answer": "yes"})
        assert "Review your edits" in answer.text() and office.request(first)["state"] == "pending"
        answer = sent(_json='{"to": "eve"}', reviewed="sha256:another", answer="yes")
        assert "Review your edits" in answer.text() and office.request(first)["state"] == "pending"
        answer = sent(_json='{"to": 1}', answer="yes")
        assert answer.status == 422 and office.request(first)["state"] == "pending"
        answer = sent(**{"_fields": "1", "/to": "bob", "/copy": "eve", "answer": "yes"})  # the tool has no such field
        assert answer.status == 422 and office.request(first)["state"] == "pending"
        answer = sent(**{"_fields": "1", "/to": "bob", "answer": "yes"})
        assert answer.ok
    office.answered(first)
    assert office.request(first)["replaced_by"] is None
