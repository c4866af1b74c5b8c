"""How names are said on pages, and which texts are shown as they will be read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import paddock.console
from paddock.console.text.principal_text import multiline_params, principal_name, requester_name


@pytest.mark.parametrize(
    ("principal", "said"),
    [
        ("user:ann", "ann"),
        ("local:root", "local user root"),
        ("key:abc", "API key abc"),
        ("role:approver", "anyone with the role approver"),
        ("acme/user:ann", "ann of acme"),
        ("acme/user:carla", "carla of acme"),
        ("user:carla", "Carla Lind"),
        ("token:carla", "Carla Lind"),
        ("nothing", "nothing"),
    ],
)
def test_a_principal_has_the_name_of_its_person(principal: str, said: str) -> None:
    assert principal_name(principal, {"user:carla": "Carla Lind"}) == said


def test_a_key_is_called_by_its_label_and_one_that_is_gone_by_whom_it_acted_for() -> None:
    request = {"requester": "key:abc", "for_person": "user:ann"}
    assert requester_name(request, {"key:abc": "Ann’s mailer"}) == "Ann’s mailer"
    assert requester_name(request, {"user:ann": "Ann Lee"}) == "Ann Lee, with the API key abc"


def test_a_letter_is_shown_as_a_letter_and_a_word_stays_in_its_place() -> None:
    assert multiline_params({"to": "bob\n", "body": "Dear Bob,\n\noats.", "lines": ["a\nb"], "n": 1}) == [
        ("body", "Dear Bob,\n\noats.")
    ]
    assert multiline_params(["a\nb"]) == []


_RIDDLES = re.compile(
    r"\b(whoever|nobody|somebody|anybody|everybody|is told|what became of|takes? (its|their) word|say yes|says yes)\b",
    re.IGNORECASE,
)


def test_pages_are_written_in_plain_words() -> None:
    folder = Path(paddock.console.__file__).parent
    found = [
        f"{path.relative_to(folder)}: {match[0]}"
        for path in sorted(
            (*folder.glob("templates/**/*.html"), *folder.glob("text/*.py"), *folder.glob("static/*.js"))
        )
        for match in _RIDDLES.finditer(path.read_text(encoding="utf-8"))
    ]
    assert found == []
