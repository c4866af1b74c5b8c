"""How names are said on pages, and which texts are shown as they will be read."""

from __future__ import annotations

import pytest

from paddock.console.text.principal_text import multiline_params, principal_name, requester_name
from paddock.principals.caller_text import caller_text, label_with_owner


@pytest.mark.parametrize(
    ("principal", "said"),
    [
        ("user:ann", "ann"),
        ("local:root", "root"),
        ("key:abc", "API key abc"),
        ("role:approver", "anyone with the role approver"),
        ("acme/user:ann", "ann of acme"),
        ("somebody", "somebody"),
    ],
)
def test_somebody_is_called_by_name(principal: str, said: str) -> None:
    assert principal_name(principal) == said


def test_a_key_is_called_by_its_label_and_by_whom_it_acts_for() -> None:
    request = {"requester": "key:abc", "for_person": "user:ann"}
    assert requester_name(request, {"key:abc": "ann’s mailer"}) == "ann’s mailer"
    assert requester_name(request) == "ann, with the API key abc"


def test_a_letter_is_shown_as_a_letter_and_a_word_stays_in_its_place() -> None:
    assert multiline_params({"to": "bob\n", "body": "Dear Bob,\n\noats.", "lines": ["a\nb"], "n": 1}) == [
        ("body", "Dear Bob,\n\noats.")
    ]
    assert multiline_params(["a\nb"]) == []


@pytest.mark.parametrize(
    ("principal", "owner", "label", "expected"),
    [
        ("user:ann", None, "", "ann"),
        ("key:1", "user:robin", "assistant", "robin’s assistant"),
        ("key:1", "user:robin", "Robin's assistant", "Robin's assistant"),
        ("key:1", "user:rob", "Robin's assistant", "rob’s Robin's assistant"),  # it names somebody else
        ("key:1", "user:robin", "", "robin’s key 1"),
    ],
)
def test_a_key_is_named_once_by_its_owner(principal: str, owner: str | None, label: str, expected: str) -> None:
    labels = {"key:1": label_with_owner(label, str(owner).removeprefix("user:"))} if label else {}
    assert caller_text(principal, owner, labels) == expected
    assert principal_name(principal, labels) == (expected if label or owner is None else "API key 1")
