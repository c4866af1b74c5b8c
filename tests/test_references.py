"""The reference pages say what the code does, and all of it. `./run docs --write` writes them.

Commands, routes, settings, events, errors, capabilities, hooks, states and metrics are written from the code. What is
looked at here is that nothing falls out of what they are written from."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import get_args

import pytest

import paddock
from documented.command_tree import leaves
from documented.error_codes import codes_of_the_program, meanings
from documented.hooks import hook_words, hooks_of_manifests
from documented.references import PAGES
from paddock.core.events.index import EVENT_TYPES
from paddock.manifest.capability import Capability, parse_capability

SOURCE = Path(paddock.__file__).parent
REFERENCE = Path(__file__).resolve().parents[1] / "docs" / "reference"


@pytest.mark.parametrize("page", sorted(PAGES))
def test_a_reference_page_is_what_the_code_says(page: str) -> None:
    behind = f"docs/reference/{page} is behind the code: ./run docs --write"
    assert (REFERENCE / page).read_text(encoding="utf-8") == PAGES[page](), behind


def test_every_code_that_the_program_gives_is_explained_with_what_to_do() -> None:
    explained = [code for codes in meanings().values() for code in codes]
    given = codes_of_the_program()

    assert {code: place for code, place in given.items() if code not in explained} == {}
    assert len(given) > 150, "and the look at the source finds them"
    assert sorted(explained) == sorted(set(explained)), "each once"
    assert [code for code in explained if code not in given] == [], "and none that is no more"
    assert all(means and do for codes in meanings().values() for means, do in codes.values())


def test_every_code_that_the_troubleshooting_page_names_is_one_that_the_program_gives() -> None:
    page = (REFERENCE.parent / "guides" / "troubleshooting.md").read_text(encoding="utf-8")
    symptoms = [line.split("|")[1] for line in page.splitlines() if line.startswith("| ")]
    named = {code for symptom in symptoms for code in re.findall(r"`([a-z]+\.[a-z_]+)`", symptom)}

    assert sorted(named - codes_of_the_program().keys()) == []
    assert len(named) > 10


def test_every_command_route_and_event_that_the_source_has_is_one_that_the_pages_are_written_from() -> None:
    commands, routes, events = written_in_the_source()

    assert len(leaves()) == commands
    page = (REFERENCE / "http.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (\S+) (\S+)$", page, flags=re.MULTILINE)
    missing = [
        f"{method} {path}"
        for method, path in routes
        if not any(method == known and where.endswith(path.replace(":path", "")) for known, where in headings)
    ]
    assert missing == []
    assert sorted(events) == sorted(EVENT_TYPES)
    assert min(commands, len(routes), len(events)) > 50, "and the look at the source finds them"


def test_every_kind_of_capability_stands_in_the_grammar_and_every_word_of_it_can_be_read() -> None:
    page = (REFERENCE / "capabilities.md").read_text(encoding="utf-8").partition("## Effects")[0]
    for placeholder, value in {"PATH": "/srv", "BINARY": "git", "HOST": "example.org", "PORT": "443"}.items():
        page = page.replace(placeholder, value)
    spelled = re.findall(r"`((?:read|write|exec|net|storage|host|secret):[^`…]*)`", page)

    assert {type(parse_capability(one)) for one in spelled} == set(get_args(Capability))


def test_every_hook_that_a_manifest_may_name_is_explained_and_no_other() -> None:
    for dialect, hooks in hooks_of_manifests().items():
        assert list(hooks) == list(hook_words()), dialect


def written_in_the_source() -> tuple[int, list[tuple[str, str]], list[str]]:
    """How many commands, which routes and which events are declared anywhere in the program."""
    commands, routes, events = 0, list[tuple[str, str]](), list[str]()
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(
                    func=ast.Name(id="ApiRoute"), args=[ast.Constant(str(method)), ast.Constant(str(at)), *_]
                ):
                    routes.append((method, at))
                case ast.Call(
                    func=ast.Name(id="command") | ast.Attribute(attr="command"),
                    keywords=[ast.keyword(arg="examples")],
                ):
                    commands += 1
                case ast.ClassDef(decorator_list=[ast.Call(func=ast.Name(id="event"), args=[ast.Constant(str(name))])]):
                    events.append(name)
                case _:
                    pass
    return commands, routes, events
