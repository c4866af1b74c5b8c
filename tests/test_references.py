"""The reference pages say what the code does.

To write them anew: PADDOCK_WRITE_DOCS=1 ./run test tests/test_references.py"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from documented.error_codes import codes_of_the_program, meanings
from documented.references import PAGES, leaves

REFERENCE = Path(__file__).resolve().parents[1] / "docs" / "reference"


@pytest.mark.parametrize("page", sorted(PAGES))
def test_a_reference_page_is_what_the_code_says(page: str) -> None:
    written = PAGES[page]()
    if os.environ.get("PADDOCK_WRITE_DOCS"):
        (REFERENCE / page).write_text(written, encoding="utf-8")
    assert (REFERENCE / page).read_text(encoding="utf-8") == written, f"docs/reference/{page} is behind the code"


def test_every_code_that_the_program_gives_is_explained_with_what_to_do() -> None:
    explained = [code for codes in meanings().values() for code in codes]
    given = codes_of_the_program()

    assert {code: place for code, place in given.items() if code not in explained} == {}
    assert len(given) > 150, "and the look at the source finds them"
    assert sorted(explained) == sorted(set(explained)), "each once"
    assert [code for code in explained if code not in given] == [], "and none that is no more"
    assert all(means and do for codes in meanings().values() for means, do in codes.values())


def test_every_command_can_speak_json_and_shows_an_example() -> None:
    for name, command in leaves():
        assert "--json" in {option for parameter in command.params for option in parameter.opts}, name
        assert command.help, name
        assert command.epilog and name in command.epilog, name
