"""`paddock secret`: values go in unseen and never come out."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from fixtures.commands import PATIENCE, Paddock, Said
from fixtures.daemons import daemon
from paddock.store.database import open_direct


def with_stdin(paddock: Paddock, *words: str, stdin: str, code: int = 0) -> Said:
    """A command without a terminal, with this on its stdin."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with paddock._process(words, **pipes) as process:
        out, err = process.communicate(stdin, timeout=PATIENCE)
    assert process.returncode == code, err
    assert "Traceback" not in err
    assert not stdin.strip() or stdin.strip() not in out + err
    return Said(process.returncode, out, err)


def listed(paddock: Paddock, *words: str) -> list[tuple[str, str | None, int]]:
    rows = paddock.quickly("secret", "list", "--json", *words).json["secrets"]
    return [(row["name"], row["owner"], row["version"]) for row in rows]


@pytest.mark.req("S-29", "encrypted at rest")
def test_a_secret_is_set_from_stdin_listed_without_its_value_and_erased(paddock: Paddock) -> None:
    paddock.quickly("user", "add", "ann")
    made = with_stdin(paddock, "secret", "set", "api_key", "--json", stdin="hunter2\n").json
    with_stdin(paddock, "secret", "set", "api_key", stdin="hunter3")
    with_stdin(paddock, "secret", "set", "api_key", "--user", "ann", stdin="hunter4")

    assert (made["name"], made["scope"], made["version"]) == ("api_key", "system", 1)
    assert listed(paddock) == [("api_key", None, 2), ("api_key", "user:ann", 1)]
    assert listed(paddock, "--user", "ann") == [("api_key", "user:ann", 1)]
    shown = paddock.quickly("secret", "list").out + paddock.quickly("secret", "show", "api_key").out
    assert "everybody" in shown
    assert "hunter" not in shown
    anns = paddock.quickly("secret", "show", "api_key", "--user", "ann", "--json").json
    assert (anns["owner"], anns["version"]) == ("user:ann", 1)

    refused = paddock.quickly("secret", "remove", "api_key", "--json", code=4).error
    assert "paddock secret remove api_key --yes" in refused["hint"]
    gone = paddock.quickly("secret", "remove", "api_key", "--yes", "--json").json
    assert (gone["name"], gone["removed"], gone["log"]) == ("api_key", True, None)
    assert listed(paddock) == [("api_key", "user:ann", 1)]
    assert paddock.quickly("secret", "remove", "api_key", "--yes", "--json", code=3).error["code"] == "secret.not_found"
    assert all(b"hunter" not in file.read_bytes() for file in paddock.home.rglob("*") if file.is_file())


def test_what_is_typed_at_the_prompt_does_not_appear(paddock: Paddock) -> None:
    screen = paddock.on_terminal("secret", "set", "api_key", answers=["hunter2"], prompt="(not shown): ")
    assert "set the secret api_key, version 1" in screen
    assert "hunter2" not in screen


@pytest.mark.parametrize(
    ("typed", "error"), [("", "config.no_value"), ("\n", "config.no_value"), ("x" * 65_537, "config.too_large")]
)
def test_no_value_and_one_that_is_too_long_change_nothing(paddock: Paddock, typed: str, error: str) -> None:
    said = with_stdin(paddock, "secret", "set", "api_key", "--json", stdin=typed, code=6)
    assert said.error["code"] == error
    assert listed(paddock) == []


def test_there_is_no_option_for_a_value(paddock: Paddock) -> None:
    for words in (("--value", "hunter2"), ("hunter2",)):
        said = paddock.quickly("secret", "set", "api_key", *words, "--json", code=2)
        assert said.error["code"] == "usage"


def test_a_person_and_a_tenant_must_be_there_and_a_name_be_possible(paddock: Paddock) -> None:
    nobody = with_stdin(paddock, "secret", "set", "k", "--user", "bob", "--json", stdin="hunter2", code=3)
    nowhere = with_stdin(paddock, "secret", "set", "k", "--tenant", "acme", "--json", stdin="hunter2", code=3)
    strange = with_stdin(paddock, "secret", "set", "two words", "--json", stdin="hunter2", code=6)
    other = with_stdin(paddock, "secret", "set", "k", "--user", "local:nobody-here", "--json", stdin="hunter2", code=3)
    assert [one.error["code"] for one in (nobody, nowhere, strange, other)] == [
        "person.not_found",
        "tenant.not_found",
        "secret.bad_name",
        "person.not_found",
    ]


@pytest.mark.req("B-22", "secrets")
def test_tenants_have_secrets_of_their_own_and_a_removed_person_leaves_none(paddock: Paddock) -> None:
    paddock.quickly("tenant", "add", "acme")
    paddock.quickly("user", "add", "ann", "--tenant", "acme")
    with_stdin(paddock, "secret", "set", "k", "--user", "ann", "--tenant", "acme", stdin="hunter2")
    assert listed(paddock) == []
    assert listed(paddock, "--tenant", "acme") == [("k", "user:ann", 1)]

    paddock.quickly("user", "remove", "ann", "--tenant", "acme", "--yes")
    paddock.quickly("user", "add", "ann", "--tenant", "acme")

    assert listed(paddock, "--tenant", "acme") == []


def test_beside_a_daemon_too_what_is_erased_or_replaced_lies_in_no_file_of_the_store(paddock: Paddock) -> None:
    paddock.quickly("user", "add", "ann")
    folder = paddock.home / "data"

    def sealed(name: str) -> bytes:
        with open_direct(folder / "paddock.db") as database:
            row = database.read(lambda tx: tx.one("SELECT sealed FROM secrets WHERE name = ?", (name,)))
        assert row is not None
        return bytes(row["sealed"])

    def lies_in(content: bytes) -> list[str]:
        return [file.name for file in folder.iterdir() if file.is_file() and content in file.read_bytes()]

    with daemon(paddock):  # has the store open, so that nobody who closes it empties its log
        for name in ("replaced", "erased", "of_ann"):
            with_stdin(paddock, "secret", "set", name, "--user", "ann", stdin=f"value of {name}")
        before = {name: sealed(name) for name in ("replaced", "erased", "of_ann")}
        assert all(lies_in(content) for content in before.values())

        with_stdin(paddock, "secret", "set", "replaced", "--user", "ann", stdin="hunter3")
        assert lies_in(before["replaced"]) == []
        paddock.quickly("secret", "remove", "erased", "--user", "ann", "--yes")
        assert lies_in(before["erased"]) == []
        paddock.quickly("user", "remove", "ann", "--yes")
        assert lies_in(before["of_ann"]) == []


def test_a_rotation_names_what_it_left_and_the_key_that_is_kept_for_it(paddock: Paddock) -> None:
    paddock.quickly("user", "add", "ann")
    for name, whose in (("good", ()), ("bad", ("--user", "ann"))):
        with_stdin(paddock, "secret", "set", name, *whose, stdin=f"value of {name}")
    (old,) = (paddock.home / "state" / "keys" / "secrets").iterdir()
    with open_direct(paddock.home / "data" / "paddock.db") as database:
        database.write(lambda tx: tx.execute("UPDATE secrets SET wrapped = sealed WHERE name = 'bad'"))

    told = paddock.quickly("secret", "rotate", "--yes")
    again = paddock.quickly("secret", "rotate", "--yes", "--json").json

    assert "damaged, and left as they are" in told.err and "bad of user:ann" in told.err
    assert f"the key {old.stem} was not destroyed" in told.err
    left = {"tenant": "default", "owner": "user:ann", "name": "bad", "key_id": old.stem, "reason": "damaged"}
    assert (again["rotated"], again["left"], again["kept_keys"]) == (1, [left], [old.stem])


def test_a_rotation_says_how_many_went_under_which_key(paddock: Paddock) -> None:
    assert paddock.quickly("secret", "rotate", "--yes", "--json").json == {
        "rotated": 0,
        "key_id": None,
        "left": [],
        "kept_keys": [],
    }
    for name in ("one", "two"):
        with_stdin(paddock, "secret", "set", name, stdin=f"value of {name}")
    assert "paddock secret rotate --yes" in paddock.quickly("secret", "rotate", "--json", code=4).error["hint"]
    rotated = paddock.quickly("secret", "rotate", "--yes", "--json").json
    (file,) = (paddock.home / "state" / "keys" / "secrets").iterdir()
    assert rotated == {"rotated": 2, "key_id": file.stem, "left": [], "kept_keys": []}
    assert paddock.quickly("secret", "rotate", "--to", "pocket", "--yes", "--json", code=2).error["code"] == "usage"


@pytest.mark.slow
def test_a_passphrase_comes_from_the_file_that_a_setting_names(paddock: Paddock, tmp_path: Path) -> None:
    (tmp_path / "phrase").write_text("correct horse\n")
    (tmp_path / "phrase").chmod(0o600)
    more = {"PADDOCK_SECRETS_KEY": "passphrase", "PADDOCK_SECRETS_PASSPHRASE_FILE": str(tmp_path / "phrase")}
    knowing = Paddock(paddock.home, more=more)
    with_stdin(knowing, "secret", "set", "one", stdin="hunter2")
    assert (
        with_stdin(paddock, "secret", "set", "two", "--json", stdin="hunter3", code=1).error["code"]
        == "secret.key_missing"
    )
    with_stdin(knowing, "secret", "set", "two", stdin="hunter3")
    assert not (paddock.home / "state" / "keys" / "secrets").exists()
    screen = paddock.on_terminal(
        "secret", "rotate", "--to", "file", "--yes", answers=["correct horse"], prompt="(not shown): "
    )
    assert "2 secrets are encrypted with the key" in screen
    assert "secrets.key still says" not in screen, "it says nothing of its own"


@pytest.mark.slow
def test_a_key_that_goes_elsewhere_than_the_setting_says_is_told_with_what_comes_of_that(
    paddock: Paddock, tmp_path: Path
) -> None:
    (tmp_path / "phrase").write_text("correct horse\n")
    (tmp_path / "phrase").chmod(0o600)
    more = {"PADDOCK_SECRETS_KEY": "passphrase", "PADDOCK_SECRETS_PASSPHRASE_FILE": str(tmp_path / "phrase")}
    wishing = Paddock(paddock.home, more=more)
    with_stdin(wishing, "secret", "set", "one", stdin="hunter2")

    told = wishing.quickly("secret", "rotate", "--to", "file", "--yes").err
    assert "the setting secrets.key still says passphrase: the next rotation puts the key there" in told
    assert "let it say file" in told
    assert "still says" not in wishing.quickly("secret", "rotate", "--to", "passphrase", "--yes").err


def test_the_way_back_of_a_key_that_is_gone_names_the_whole_place(paddock: Paddock, tmp_path: Path) -> None:
    with_stdin(paddock, "secret", "set", "one", stdin="hunter2")
    folder = paddock.home / "state" / "keys" / "secrets"
    (file,) = folder.glob("*.key")
    file.rename(tmp_path / file.name)

    gone = with_stdin(paddock, "secret", "set", "two", "--json", stdin="hunter3", code=1).error
    assert (gone["code"], gone["hint"]) == (
        "secret.key_missing",
        f"put {file.name} back into {folder}; nothing else opens what it sealed",
    )
