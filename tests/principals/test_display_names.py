"""What people and API keys are called: as they chose, unless that could be taken for another."""

from __future__ import annotations

import pytest

from paddock.principals.caller_text import caller_text
from paddock.principals.display_names import OwnedLabel, shown_names

PEOPLE = {
    "ann": "Ann Lee",
    "eve": "ANN  lee",
    "bob": "ann",
    "carla": "Carla Müller-Lind",
    "dora": "dora",
    "finn": "  ",
    "gus": "agent planner",
    "hal": "Carla’s assistant",
    "ian": "Dora\u202e",
    "kim": "Kim (dora)",
    "leo": "root",
    "mia": "Ｄｏｒａ",  # full width
    "rb": "Robin Berg",
}


@pytest.mark.parametrize(
    ("login", "shown"),
    [
        ("carla", "Carla Müller-Lind"),
        ("dora", None),
        ("finn", None),
        ("ann", "Ann Lee (ann)"),
        ("eve", "ANN  lee (eve)"),
        ("bob", "ann (bob)"),
        ("gus", "agent planner (gus)"),
        ("hal", "Carla’s assistant (hal)"),
        ("ian", "Dora\\u202e"),
        ("kim", "Kim (dora) (kim)"),
        ("leo", "root (leo)"),
        ("mia", "Ｄｏｒａ (mia)"),
    ],
)
def test_a_name_that_could_be_taken_for_another_is_shown_with_its_login(login: str, shown: str | None) -> None:
    assert shown_names(PEOPLE, {}).get(f"user:{login}") == shown


@pytest.mark.parametrize(
    ("owner", "label", "shown"),
    [
        ("carla", "mailer", "Carla Müller-Lind’s mailer"),
        ("carla", "Carla's mailer", "Carla's mailer"),
        ("carla", "", "Carla Müller-Lind’s key 1"),
        ("rb", "Robin's assistant", "Robin's assistant"),
        ("rb", "Robinson's assistant", "Robin Berg’s Robinson's assistant"),
        ("rb", "Carla's mailer", "Robin Berg’s Carla's mailer"),
        ("dora", "Dora's phone", "Dora's phone"),
        ("eve", "Ann's assistant", "ANN  lee (eve)’s Ann's assistant"),
        ("dora", "a\nb", "dora’s a\\nb"),
    ],
)
def test_a_key_is_named_by_its_owner_and_its_label_once(owner: str, label: str, shown: str) -> None:
    assert shown_names(PEOPLE, {"1": OwnedLabel(label, owner)})["key:1"] == shown


def test_callers_have_the_names_of_their_own_tenant() -> None:
    names = shown_names(PEOPLE, {"1": OwnedLabel("mailer", "carla")})
    carla = "Carla Müller-Lind"
    assert caller_text("user:carla", None, names) == caller_text("token:carla", "user:carla", names) == carla
    assert caller_text("key:1", "user:carla", names) == f"{carla}’s mailer"
    assert caller_text("key:gone", "user:carla", names) == f"{carla}’s key gone"
    assert caller_text("acme/user:carla", None, names) == "carla"
    assert caller_text(None, None, names) == "an erased person"
