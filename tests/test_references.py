"""The reference pages say what the code does.

To write them anew: PADDOCK_WRITE_DOCS=1 ./run test tests/test_references.py"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from documented.references import PAGES, leaves

REFERENCE = Path(__file__).resolve().parents[1] / "docs" / "reference"


@pytest.mark.parametrize("page", sorted(PAGES))
def test_a_reference_page_is_what_the_code_says(page: str) -> None:
    written = PAGES[page]()
    if os.environ.get("PADDOCK_WRITE_DOCS"):
        (REFERENCE / page).write_text(written, encoding="utf-8")
    assert (REFERENCE / page).read_text(encoding="utf-8") == written, f"docs/reference/{page} is behind the code"


def test_every_command_can_speak_json_and_shows_an_example() -> None:
    for name, command in leaves():
        assert "--json" in {option for parameter in command.params for option in parameter.opts}, name
        assert command.help, name
        assert command.epilog and name in command.epilog, name
