"""Documents and prompts over HTTP: what a caged server has is listed and read, and nothing else is."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from urllib.parse import quote

import pytest

from fixtures.butler import butler
from fixtures.commands import Paddock
from fixtures.daemons import Daemon, daemon
from fixtures.people import key_of

LISTS = ("tools", "resources", "prompts")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Daemon, None, None]:
    folder = tmp_path_factory.mktemp("documents")
    paddock = Paddock(folder / "home")
    paddock("plugin", "install", butler(folder / "butler"), "--yes")
    paddock("plugin", "enable", "butler")
    with daemon(paddock) as started:
        yield started


def test_documents_are_listed_with_their_templates_and_read_by_their_address(served: Daemon) -> None:
    listed = served.ask("GET", "/plugins/butler/resources").body
    assert (listed["known"], listed["withheld"]) == (True, [])
    assert [one["uri"] for one in listed["resources"]] == ["memo://one"]
    assert [one["uriTemplate"] for one in listed["templates"]] == ["memo://notes/{name}"]

    for uri in ("memo://one", "memo://notes/a%20b"):
        read = served.ask("GET", f"/plugins/butler/resources/read?uri={quote(uri, safe='')}")
        assert (read.status, read.body["contents"]) == (200, [{"uri": uri, "text": f"read {uri}"}])


def test_an_address_that_nobody_lists_is_refused_before_the_server_hears_of_it(served: Daemon) -> None:
    elsewhere = served.ask("GET", "/plugins/butler/resources/read?uri=file:///etc/passwd")
    nowhere = served.ask("GET", "/plugins/butler/resources/read")
    nobody = served.ask("GET", "/plugins/nobody/resources")

    assert (elsewhere.status, elsewhere.body["code"]) == (404, "resource.not_found")
    assert (nowhere.status, nowhere.body["errors"][0]["path"]) == (400, "uri")
    assert nobody.status == 404


def test_prompts_are_listed_and_filled_in_and_their_arguments_checked(served: Daemon) -> None:
    (greet,) = served.ask("GET", "/plugins/butler/prompts").body["prompts"]
    assert [one["name"] for one in greet["arguments"]] == ["who", "how"]

    filled = served.ask("POST", "/plugins/butler/prompts/greet", {"arguments": {"who": "Ann"}})
    assert filled.body["messages"][0]["content"]["text"] == "Greet Ann"
    wrong = served.ask("POST", "/plugins/butler/prompts/greet", {"arguments": {"how": 3}})
    assert (wrong.status, wrong.body["code"]) == (400, "invalid_params")
    assert {problem["path"] for problem in wrong.body["errors"]} == {"arguments.who", "arguments.how"}
    unknown = served.ask("POST", "/plugins/butler/prompts/a%2Fb", {})
    assert (unknown.status, unknown.body["code"]) == (404, "prompt.not_found")


def test_the_instructions_of_a_server_are_shown_with_the_plugin(served: Daemon) -> None:
    assert served.ask("GET", "/plugins/butler").body["instructions"] == "Be kind to it."


NOT_FOR_PEOPLE = """
@id("the-butler-keeps-its-papers") @text("The butler keeps its papers.")
forbid (principal, action in Action::"anyCall", resource)
when { resource in Plugin::"butler" };
"""


@pytest.mark.slow
def test_whoever_may_read_nothing_of_a_plugin_is_told_of_none_of_its_documents(tmp_path: Path) -> None:
    paddock = Paddock(tmp_path / "home")
    paddock("plugin", "install", butler(tmp_path / "butler"), "--yes")
    paddock("plugin", "enable", "butler")
    paddock.quickly("user", "add", "ann")
    ann = {"authorization": f"Bearer {key_of(paddock, 'ann')}"}
    with daemon(paddock) as started:
        seen = {what: started.ask("GET", f"/plugins/butler/{what}", **ann).body[what] for what in LISTS}
    file = paddock.home / "policies" / "papers.cedar"
    file.parent.mkdir(mode=0o700, exist_ok=True)
    file.write_text(NOT_FOR_PEOPLE)
    file.chmod(0o600)
    with daemon(paddock) as started:
        for what in LISTS:
            told = started.ask("GET", f"/plugins/butler/{what}", **ann).body
            assert seen[what] and told[what] == [], what
            assert started.ask("GET", f"/plugins/butler/{what}").body[what], "its operator sees all"
        assert started.ask("GET", "/plugins/butler/resources", **ann).body["templates"] == []
