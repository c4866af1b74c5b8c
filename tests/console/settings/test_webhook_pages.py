"""Webhooks at the console: added, tested against a real receiver, retried, rotated and removed."""

from __future__ import annotations

import re
from collections.abc import Generator

import pytest
from playwright.sync_api import Browser, expect
from tests.webhooks.receiver import Receiver, receiving

from fixtures.accessibility import violations
from fixtures.commands import Paddock
from fixtures.daemons import Daemon, daemon, eventually
from fixtures.page_clients import Person, signed_in
from fixtures.visitors import needs_a_browser, visiting

SECRET = re.compile(r"whsec_[A-Za-z0-9+/=]+")
SCRIPT = "<img src=x onerror=\"document.title='bitten'\">"


@pytest.fixture(scope="module")
def receiver() -> Generator[Receiver, None, None]:
    with receiving() as started:
        yield started


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, receiver: Receiver) -> Generator[Daemon, None, None]:
    settings = {
        "PADDOCK_EVENTS_PRIVATE_RECEIVERS": f"127.0.0.1:{receiver.port}",
        "PADDOCK_EVENTS_FIRST_PAUSE_S": "0.05",
    }
    paddock = Paddock(tmp_path_factory.mktemp("webhook-pages") / "home", more=settings)
    paddock.quickly("user", "add", "ann")
    paddock.quickly("tenant", "add", "acme")
    paddock.quickly("user", "add", "omar", "--tenant", "acme", "--role", "operator")
    with daemon(paddock) as started:
        yield started


@pytest.fixture(scope="module")
def operator(served: Daemon) -> Person:
    return signed_in(served, "operator")


def listed(served: Daemon) -> dict[str, dict[str, object]]:
    return {one["label"]: one for one in served.ask("GET", "/webhooks").body["webhooks"]}


@needs_a_browser
def test_an_operator_adds_a_webhook_and_sees_its_test_event_arrive(
    browser: Browser, served: Daemon, receiver: Receiver
) -> None:
    with visiting(browser, served, "operator", bypass_csp=True) as page:
        page.goto("/settings/webhooks")
        page.get_by_label("URL").fill("http://10.0.0.1/hook")
        page.get_by_label("Name", exact=True).fill(f"tickets {SCRIPT}")
        page.get_by_label("Single event types").fill("person.added\nplugin.flies")
        page.get_by_role("button", name="Add webhook").click()
        expect(page.get_by_role("alert")).to_contain_text("2 mistakes")
        expect(page.get_by_text("webhooks may not be sent to 10.0.0.1:80")).to_be_visible()
        expect(page.get_by_text("no event is called 'plugin.flies'")).to_be_visible()
        assert listed(served) == {}

        page.get_by_label("URL").fill(receiver.url())
        page.get_by_label("Single event types").fill("person.added")
        page.get_by_role("button", name="Add webhook").click()
        secret = page.get_by_label("The secret", exact=True).input_value()
        receiver.secrets.append(secret)
        page.get_by_role("button", name="Send a test event").click()
        expect(page.get_by_role("status")).to_contain_text("The receiver accepted the test event")
        (test,) = receiver.of("webhook.test")
        assert test.signed_by == (secret,)
        assert secret not in page.content()

        receiver.always = 500
        page.get_by_role("button", name="Send a test event").click()
        expect(page.get_by_role("status")).to_contain_text("It answered 500")
        receiver.always = 204
        assert violations(page) == []
        page.goto("/settings/webhooks")
        assert violations(page) == []

        page.get_by_role("link", name="tickets").click()
        page.get_by_role("button", name="Disable").click()
        expect(page.get_by_text("Disabled", exact=True)).to_be_visible()
        served.paddock.quickly("user", "add", "bea")  # missed, and sent once the webhook is enabled
        page.get_by_role("button", name="Enable").click()
        assert receiver.of("person.added")[0].signed_by == (secret,)

        page.get_by_role("button", name="Remove").click()
        expect(page.get_by_text("This can’t be undone")).to_be_visible()
        page.get_by_role("button", name="Remove webhook").click()
        expect(page.get_by_role("status")).to_contain_text("removed")
        assert listed(served) == {}
        assert "bitten" not in page.title()


@pytest.mark.slow
def test_dead_letters_are_listed_and_sent_again_and_a_secret_is_rotated(
    served: Daemon, operator: Person, receiver: Receiver
) -> None:
    made = operator.followed(
        "/settings/webhooks", **{"/url": receiver.url("/dead"), "/label": "dead", "/types": "group.changed"}
    )
    (first,) = set(SECRET.findall(made.text))
    where = f"/settings/webhooks/{listed(served)['dead']['id']}"
    assert "A secret is shown only once" in operator.get(where + "?once=x").text

    receiver.always = 422  # rejected: three attempts
    served.paddock.quickly("group", "add", "night-shift")
    eventually(lambda: "3 attempts" in operator.get(where).text, "no dead letter")
    page = operator.get(where).text
    assert "it answered 422" in page.lower()
    (event,) = re.findall(r'name="event" value="(\w+)"', page)

    receiver.always = 204
    before = len(receiver.got)
    assert "Sent again within seconds" in operator.followed(f"{where}/retry", event=event).text
    receiver.wait_for(lambda got: len(got) > before)
    eventually(lambda: "None. Every event so far" in operator.get(where).text, "the dead letter stays")
    assert operator.send(f"{where}/retry", event=event).status == 404

    (second,) = set(SECRET.findall(operator.followed(f"{where}/rotate").text))
    receiver.secrets[:] = [first, second]
    operator.followed(f"{where}/test")
    assert set(receiver.of("webhook.test")[-1].signed_by) == {first, second}
    assert second not in "".join(served.log)


def test_webhooks_are_those_of_the_operators_of_a_tenant_alone(served: Daemon, operator: Person) -> None:
    operator.followed("/settings/webhooks", **{"/url": "https://hooks.example.org/x", "/label": "ours"})
    where = f"/settings/webhooks/{listed(served)['ours']['id']}"
    ann, omar = signed_in(served, "ann"), signed_in(served, "omar", "--tenant", "acme")

    assert ann.send("/settings/webhooks", **{"/url": "https://hooks.example.org/y"}).status == 403
    for part in ("", "/remove"):
        assert (ann.get(where + part).status, omar.get(where + part).status) == (403, 404)
    for part in ("/test", "/enable", "/disable", "/rotate", "/retry", "/remove"):
        assert (ann.send(where + part).status, omar.send(where + part).status) == (403, 404), part
    assert operator.send(where + "/remove", origin="http://evil.example").status == 403
    assert "ours" in listed(served)
