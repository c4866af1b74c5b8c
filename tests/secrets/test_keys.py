"""Where the key that wraps data keys may be: systemd's credentials, a keyring, a private file, somebody's head."""

from __future__ import annotations

import base64
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from paddock.core.clock import SystemRandom
from paddock.core.errors import HostError, OperatorError
from paddock.core.secret import Secret
from paddock.secrets.key_stores import KeyFileStore, NewWrappingKey, WrappingKeyRecord
from paddock.secrets.rotation import rotate
from paddock.secrets.wrapping_keys import WrappingKeys, build_wrapping_keys

from .safe import Safe, open_safe

RANDOM = SystemRandom()
RAW = bytes(range(32))


def keys(state: Path, environ: dict[str, str] | None = None, **more: object) -> WrappingKeys:
    return build_wrapping_keys(environ or {}, state, RANDOM, **more)  # type: ignore[arg-type]


def nowhere(_: WrappingKeyRecord) -> None:
    """Where a key is announced that nobody asks for."""


class Drawer(ModuleType):
    """A keyring, as the package of that name has it."""

    def __init__(self) -> None:
        super().__init__("keyring")
        self.entries: dict[tuple[str, str], str] = {}
        self.priority = 5.0

    def get_keyring(self) -> object:
        return SimpleNamespace(priority=self.priority)

    def get_password(self, service: str, name: str) -> str | None:
        return self.entries.get((service, name))

    def set_password(self, service: str, name: str, text: str) -> None:
        self.entries[service, name] = text

    def delete_password(self, service: str, name: str) -> None:
        del self.entries[service, name]


@pytest.mark.parametrize("written", [RAW, RAW.hex().encode() + b"\n", base64.b64encode(RAW) + b"\n"])
def test_a_credential_of_systemd_comes_first_however_its_key_is_written(tmp_path: Path, written: bytes) -> None:
    (tmp_path / "paddock-kek").write_bytes(written)
    made = keys(tmp_path / "state", {"CREDENTIALS_DIRECTORY": str(tmp_path)}).create(nowhere)
    assert (made.key.raw, made.record.source) == (RAW, "credential")
    assert not (tmp_path / "state").exists()


def test_a_credential_that_is_no_key_is_refused_and_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "paddock-kek").write_text("hunter2")
    with pytest.raises(OperatorError, match="no key of 32 bytes") as refused:
        keys(tmp_path / "state", {"CREDENTIALS_DIRECTORY": str(tmp_path)}).create(nowhere)
    assert "hunter2" not in str(refused.value)


def test_a_new_credential_takes_over_while_the_old_one_is_still_given(tmp_path: Path) -> None:
    credentials = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    (tmp_path / "paddock-kek").write_bytes(RAW)
    with open_safe(tmp_path / "store.db", tmp_path, keys(tmp_path, credentials)) as safe:
        safe.set("api_key", "hunter2")
        with pytest.raises(HostError, match="is the one in use"):
            safe.rotate()
        (tmp_path / "paddock-kek").rename(tmp_path / "paddock-kek-old")
        (tmp_path / "paddock-kek").write_bytes(RAW[::-1])
        assert Safe(safe.database, keys(tmp_path, credentials)).rotate() is not None
        (tmp_path / "paddock-kek-old").unlink()
        assert Safe(safe.database, keys(tmp_path, credentials)).get("api_key") == "hunter2"


def test_a_keyring_that_works_comes_before_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawer = Drawer()
    monkeypatch.setitem(sys.modules, "keyring", drawer)
    with open_safe(tmp_path / "store.db", tmp_path, keys(tmp_path / "state")) as safe:
        safe.set("api_key", "hunter2")
        assert len(drawer.entries) == 1
        assert Safe(safe.database, keys(tmp_path / "state")).get("api_key") == "hunter2"
        assert not (tmp_path / "state").exists()
        safe.rotate("file")
        assert drawer.entries == {}
        assert safe.get("api_key") == "hunter2"


def test_a_rotation_stays_with_the_keyring_also_where_that_is_not_to_be_had(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawer = Drawer()
    monkeypatch.setitem(sys.modules, "keyring", drawer)
    with open_safe(tmp_path / "store.db", tmp_path, keys(tmp_path / "state")) as safe:
        safe.set("api_key", "hunter2")
        drawer.priority = 0.5
        with pytest.raises(OperatorError, match="kept as keyring"):
            safe.rotate()
        assert not (tmp_path / "state").exists()
        assert safe.get("api_key") == "hunter2"


def test_a_rotation_stays_with_the_credential_that_a_key_was_moved_to(tmp_path: Path) -> None:
    with open_safe(tmp_path / "store.db", tmp_path, keys(tmp_path / "state", preferred="file")) as safe:
        safe.set("api_key", "hunter2")
        (file,) = (tmp_path / "state" / "keys" / "secrets").iterdir()
        file.rename(tmp_path / "paddock-kek-old")
        (tmp_path / "paddock-kek").write_bytes(RAW)
        moved = Safe(safe.database, keys(tmp_path / "state", {"CREDENTIALS_DIRECTORY": str(tmp_path)}))
        assert moved.rotate() is not None
        (row,) = safe.database.read(lambda tx: tx.all("SELECT source FROM secret_keys"))
        assert row["source"] == "credential"
    assert list((tmp_path / "state" / "keys" / "secrets").iterdir()) == []


def test_a_rotation_that_goes_on_ends_where_it_was_told_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawer = Drawer()
    monkeypatch.setitem(sys.modules, "keyring", drawer)
    with open_safe(tmp_path / "store.db", tmp_path, keys(tmp_path / "state", preferred="file")) as safe:
        safe.set("api_key", "hunter2")

        class Stopped(Exception): ...

        def stop(_: int) -> None:
            raise Stopped

        with pytest.raises(Stopped):
            rotate(safe.database, safe.keys, RANDOM, safe.deed, preferred="file", progress=stop)
        assert len(list((tmp_path / "state" / "keys" / "secrets").iterdir())) == 2

        rotated = safe.rotate("keyring")

        assert rotated is not None
        assert list(drawer.entries) == [("paddock", rotated.key_id)]
        assert list((tmp_path / "state" / "keys" / "secrets").iterdir()) == []
        assert safe.get("api_key") == "hunter2"


def test_a_key_that_was_in_use_before_does_not_come_back(tmp_path: Path) -> None:
    credentials = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    (tmp_path / "paddock-kek").write_bytes(RAW)
    with open_safe(tmp_path / "store.db", tmp_path, keys(tmp_path, credentials)) as safe:
        safe.set("bad", "hunter2")
        safe.database.write(lambda tx: tx.execute("UPDATE secrets SET wrapped = sealed"))
        (tmp_path / "paddock-kek").write_bytes(RAW[::-1])
        (tmp_path / "paddock-kek-old").write_bytes(RAW)
        assert Safe(safe.database, keys(tmp_path, credentials)).rotate() is not None
        (tmp_path / "paddock-kek-old").write_bytes(RAW[::-1])
        (tmp_path / "paddock-kek").write_bytes(RAW)
        with pytest.raises(HostError, match="was before"):
            Safe(safe.database, keys(tmp_path, credentials)).rotate()


@pytest.mark.parametrize("priority", [0.5, 0.9, 0, -1])
def test_a_keyring_that_writes_into_a_plain_file_gets_no_new_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, priority: float
) -> None:
    drawer = Drawer()
    drawer.priority = priority
    monkeypatch.setitem(sys.modules, "keyring", drawer)
    assert keys(tmp_path).create(nowhere).record.source == "file"
    with pytest.raises(OperatorError, match="kept as keyring"):
        keys(tmp_path, preferred="keyring").create(nowhere)
    assert drawer.entries == {}


def test_what_a_keyring_answers_is_told_in_our_words_and_without_what_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Locked(Drawer):
        given = ""

        def get_password(self, service: str, name: str) -> str | None:
            raise RuntimeError(f"{service} is locked: {name}")

        def set_password(self, service: str, name: str, text: str) -> None:
            self.given = text
            raise RuntimeError(f"{service} did not take {name}: {text}")

    drawer = Locked()
    monkeypatch.setitem(sys.modules, "keyring", drawer)
    with pytest.raises(OperatorError) as unkept:
        keys(tmp_path, preferred="keyring").create(nowhere)
    with pytest.raises(OperatorError) as unread:
        keys(tmp_path).find(WrappingKeyRecord("0" * 16, "keyring"))
    for error in (unkept, unread):
        assert (error.value.error_code, "unlock it" in error.value.hint) == ("secret.key", True)
    assert drawer.given not in "".join(traceback.format_exception(unkept.value))
    with pytest.raises(HostError, match="made as a file"):
        keys(tmp_path).find(WrappingKeyRecord("0" * 16, "file"))


def test_a_keyring_that_keeps_nothing_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Locked(Drawer):
        def set_password(self, service: str, name: str, text: str) -> None:
            raise RuntimeError(f"{service} is locked: {name}, {len(text)}")

    monkeypatch.setitem(sys.modules, "keyring", Locked())
    assert keys(tmp_path).create(nowhere).record.source == "file"


def test_a_passphrase_opens_what_was_sealed_under_it_and_another_does_not(tmp_path: Path) -> None:
    def knowing(text: str) -> WrappingKeys:
        return keys(tmp_path / "state", preferred="passphrase", ask=lambda: Secret(text))

    with open_safe(tmp_path / "store.db", tmp_path, knowing("correct horse")) as safe:
        safe.set("api_key", "hunter2")
        assert Safe(safe.database, knowing("correct horse")).get("api_key") == "hunter2"
        with pytest.raises(OperatorError, match="not the one") as refused:
            Safe(safe.database, knowing("wrong horse")).get("api_key")
        assert "horse" not in str(refused.value)
        with pytest.raises(HostError, match="is not here"):
            Safe(safe.database, keys(tmp_path / "state")).get("api_key")
    assert not (tmp_path / "state").exists()


def test_a_passphrase_is_read_once_from_a_descriptor(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"correct horse\n")
    os.close(writer)
    given = keys(tmp_path / "state", preferred="passphrase", passphrase_file=f"/dev/fd/{reader}")
    with open_safe(tmp_path / "store.db", tmp_path, given) as safe:
        safe.set("api_key", "hunter2")
        safe.set("other", "hunter3")
        assert safe.get("api_key") == "hunter2"
    os.close(reader)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_passphrase_that_others_can_read_is_refused_unless_systemd_gave_it(tmp_path: Path, mode: int) -> None:
    (tmp_path / "phrase").write_text("correct horse")
    (tmp_path / "phrase").chmod(mode)
    given: dict[str, Any] = {"preferred": "passphrase", "passphrase_file": str(tmp_path / "phrase")}
    with pytest.raises(OperatorError, match="others can read it") as refused:
        keys(tmp_path, **given).create(nowhere)
    assert "chmod 600" in refused.value.hint
    assert keys(tmp_path, {"CREDENTIALS_DIRECTORY": str(tmp_path)}, **given).create(nowhere).record.salt is not None


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff\xfe", b"x" * 5000])
def test_a_file_that_holds_no_passphrase_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "phrase").write_bytes(content)
    (tmp_path / "phrase").chmod(0o600)
    with pytest.raises(OperatorError):
        keys(tmp_path, preferred="passphrase", passphrase_file=str(tmp_path / "phrase")).create(nowhere)


@pytest.mark.parametrize("wished", ["credential", "keyring", "passphrase"])
def test_where_the_wished_for_place_is_not_there_nothing_else_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wished: str
) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(OperatorError, match=wished):
        keys(tmp_path, preferred=wished).create(nowhere)
    assert list(tmp_path.iterdir()) == []


def test_a_key_that_moved_from_a_file_to_a_credential_is_found_there(tmp_path: Path) -> None:
    made = keys(tmp_path / "state", preferred="file").create(nowhere)
    (tmp_path / "paddock-kek").write_text(made.key.raw.hex())
    moved = keys(tmp_path / "elsewhere", {"CREDENTIALS_DIRECTORY": str(tmp_path)})
    assert moved.find(WrappingKeyRecord(made.key.id, "file")).raw == made.key.raw


@pytest.mark.parametrize("state", [0, -1])
def test_a_note_of_a_key_that_leads_elsewhere_has_nothing_read_or_removed_there(tmp_path: Path, state: int) -> None:
    with open_safe(tmp_path / "store.db", tmp_path / "state") as safe:
        safe.set("api_key", "hunter2")
        others = [tmp_path / "state" / "keys" / "ledger.key", tmp_path / "theirs.key"]
        for file in others:
            file.write_text("ours")
        row = "INSERT INTO secret_keys (id, source, in_use, made_at) VALUES (?, ?, ?, ?)"
        for key_id in ("../ledger", str(tmp_path / "theirs")):
            noted = (key_id, "file", state, "2026-01-01")
            safe.database.write(lambda tx, noted=noted: tx.execute(row, noted))

        rotated = safe.rotate()
        again = safe.rotate()

        assert rotated is not None and again is not None
        assert [file.read_text() for file in others] == ["ours", "ours"]
        assert safe.get("api_key") == "hunter2"


class Late(KeyFileStore, frozen=True):
    """Files of somebody who is overtaken after they looked whether there is a key."""

    def generate(self) -> NewWrappingKey | None:
        overtake.pop()()
        return super().generate()


overtake: list[Callable[[], object]] = []


def test_two_who_set_the_first_secret_at_once_agree_on_one_key(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "keys" / "secrets"
    with open_safe(tmp_path / "store.db", tmp_path / "state") as safe:
        overtake.append(lambda: safe.set("one", "1"))
        Safe(safe.database, WrappingKeys({"file": Late(folder, RANDOM)}, "file")).set("two", "2")
        assert (safe.get("one"), safe.get("two")) == ("1", "2")
    assert len(list(folder.iterdir())) == 1
