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
        ("ian", "“Dora\\u202e” (ian)"),
        ("kim", "“Kim (dora)” (kim)"),
        ("leo", "root (leo)"),
        ("mia", "Ｄｏｒａ (mia)"),
    ],
)
def test_a_name_that_could_be_taken_for_another_is_shown_with_its_login(login: str, shown: str | None) -> None:
    assert shown_names(PEOPLE, {}).get(f"user:{login}") == shown


@pytest.mark.parametrize(
    ("owner", "label", "shown"),
    [
        ("carla", "mailer", "Carla Müller-Lind’s key “mailer”"),
        ("carla", "Carla's mailer", "Carla's mailer"),
        ("carla", "", "Carla Müller-Lind’s key 1"),
        ("rb", "Robin's assistant", "Robin's assistant"),
        ("rb", "Robinson's assistant", "Robin Berg’s key “Robinson's assistant”"),
        ("rb", "Carla's mailer", "Robin Berg’s key “Carla's mailer”"),
        ("dora", "Dora's phone", "dora’s key “Dora's phone”"),  # mia calls herself so, too
        ("gus", "gus's phone", "gus's phone"),
        ("eve", "Ann's assistant", "ANN  lee (eve)’s key “Ann's assistant”"),
        ("dora", "a\nb", "dora’s key “a\\nb”"),
    ],
)
def test_a_key_is_named_by_its_owner_and_its_label_once(owner: str, label: str, shown: str) -> None:
    assert shown_names(PEOPLE, {"1": OwnedLabel(label, owner)})["key:1"] == shown


@pytest.mark.parametrize(
    "name",
    [
        "Аnn Lee",  # the first letter is Cyrillic
        "Ann Lee\u034f",
        "Ann Lee\u3164",
        "Ann Lee\ufe0f",
        "Ann\u2800Lee",
        "Ann Lee.",
        "Ánn Lee",
        "Ann Iee",  # a capital i
        "Ɑnn Lee",
        "You",
        "The operator",
        "no one",
        "user:alee",
        "role:approver",
        "token:alee",
        "local user root",
        "Ann Lee [alee]",
        "Ann Lee, with the API key 6jxo",
        "Bob and Ann Lee",
        "Ann' s key",
        "Мария",
        "李明",
        "...",
    ],
)
def test_a_name_that_reads_like_another_is_never_shown_alone(name: str) -> None:
    names = shown_names({"alee": "Ann Lee", "bob": name}, {})
    assert names["user:bob"] != name
    assert names["user:bob"].endswith(" (bob)")


@pytest.mark.parametrize(
    "name",
    ["Carla Müller-Lind", "Seán O’Neil", "Jean-Luc d'Arc", "J. R. Smith", "Đặng Thị Hà", "Łukasz Żak"],
)
def test_ordinary_latin_names_are_shown_alone(name: str) -> None:
    assert shown_names({"x1": name, "alee": "Ann Lee"}, {})["user:x1"] == name


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("Bob Ray, Ann Lee", "“Bob Ray, Ann Lee” (bob)"),
        ("Bob”, “Ann Lee", "“Bob', 'Ann Lee” (bob)"),
        ("Мария", "Мария (bob)"),
        ("李明", "李明 (bob)"),
    ],
)
def test_a_name_with_separators_is_one_name_in_a_list(name: str, shown: str) -> None:
    assert shown_names({"alee": "Ann Lee", "bob": name}, {})["user:bob"] == shown


@pytest.mark.parametrize(
    ("owner", "label"),
    [
        ("ann", "Ann Lee's assistant"),
        ("ann", "Ann's assistant"),  # alee may be meant
        ("ann", "Ann-Marie's mailer"),
        ("alee", "Ann's assistant"),
        ("alee", "Ann Lee"),
        ("alee", "alee"),
        ("alee", "Ann Lee's"),
        ("bob", "Bob and Ann Lee"),
        ("bob", "Bob's assistant, Ann Lee"),
        ("bob", "Bob's assistant (alee)"),
        ("mallory", "Аnn's assistant"),
        ("nil", "You's assistant"),
    ],
)
def test_a_label_that_could_be_of_another_or_of_a_person_is_shown_with_owner_and_key(owner: str, label: str) -> None:
    people = {"alee": "Ann Lee", "ann": "ann", "am": "Ann-Marie", "bob": "Bob Ray", "mallory": "Аnn Ray", "nil": "You"}
    names = shown_names(people, {"1": OwnedLabel(label, owner)})
    assert names["key:1"] == f"{names.get(f'user:{owner}', owner)}’s key “{label}”"


@pytest.mark.parametrize("label", ["Ann Lee's assistant", "alee’s phone 2", "ANN LEE's CI-runner"])
def test_a_label_that_begins_with_what_only_its_owner_is_called_stands_alone(label: str) -> None:
    assert shown_names({"alee": "Ann Lee", "ann": "ann"}, {"1": OwnedLabel(label, "alee")})["key:1"] == label


def test_an_operator_of_the_host_is_not_a_person_of_that_name() -> None:
    names = shown_names({"root": "root", "bob": "deploy", "local": "Root"}, {})
    assert caller_text("user:root", None, names) == "root"
    assert caller_text("local:root", None, names) == "local user root"
    assert caller_text("local:deploy", None, names) == "local user deploy"
    assert names == {"user:bob": "deploy", "user:local": "Root (local)"}


def test_callers_have_the_names_of_their_own_tenant() -> None:
    names = shown_names(PEOPLE, {"1": OwnedLabel("mailer", "carla")})
    carla = "Carla Müller-Lind"
    assert caller_text("user:carla", None, names) == caller_text("token:carla", "user:carla", names) == carla
    assert caller_text("key:1", "user:carla", names) == f"{carla}’s key “mailer”"
    assert caller_text("key:gone", "user:carla", names) == f"{carla}’s key gone"
    assert caller_text("acme/user:carla", None, names) == "carla"
    assert caller_text(None, None, names) == "an erased person"


@pytest.mark.parametrize(
    ("name", "shown"),
    [("Bo" * 60, "Bo" * 39 + "B…"), ("Bo," * 40, "“" + "Bo," * 26 + "B…” (bob)")],
)
def test_a_name_that_is_too_long_is_cut_whether_or_not_it_stands_alone(name: str, shown: str) -> None:
    assert shown_names({"bob": name}, {})["user:bob"] == shown
