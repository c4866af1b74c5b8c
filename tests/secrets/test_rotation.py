"""Another key takes over from the one in use, whatever is killed on the way; at every moment every secret opens."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from paddock.core.errors import Busy
from paddock.core.events.secrets import SecretRotated
from paddock.secrets.rotation import UnrotatedSecret, rotate
from paddock.secrets.rows import active_key

from .rotating import Mortal, turn
from .safe import ANN, RANDOM, Safe, keys_at, open_safe

SCRIPT = Path(__file__).with_name("rotating.py")


@pytest.fixture
def safe(database_address: str, tmp_path: Path) -> Generator[Safe, None, None]:
    with open_safe(database_address, tmp_path / "state") as opened:
        yield opened


def files(state: Path) -> set[str]:
    return {file.stem for file in (state / "keys" / "secrets").iterdir()}


def noted(safe: Safe) -> set[str]:
    return {row["id"] for row in safe.database.read(lambda tx: tx.all("SELECT id FROM secret_keys"))}


def in_use(safe: Safe) -> str:
    note = safe.database.read(active_key)
    assert note is not None
    return note.id


def test_after_a_rotation_every_secret_opens_with_the_new_key_and_the_old_one_is_destroyed(
    safe: Safe, tmp_path: Path
) -> None:
    for number in range(250):
        safe.set(f"key{number}", f"value {number}", ANN if number % 2 else "")
    safe.remove("key8")
    before = in_use(safe)

    rotated = safe.rotate()

    assert rotated is not None
    assert (rotated.moved, rotated.resumed, rotated.left) == (249, False, ())
    assert in_use(safe) == rotated.key_id != before
    assert files(tmp_path / "state") == {rotated.key_id}
    assert safe.told[-1] == SecretRotated(key_id=rotated.key_id, count=249, by="local:ada")
    again = Safe(safe.database, keys_at(tmp_path / "state"))
    assert [again.get(f"key{number}") for number in range(250) if number != 8] == [
        f"value {number}" for number in range(250) if number != 8
    ]


def test_where_there_is_no_secret_yet_there_is_nothing_to_rotate(safe: Safe, tmp_path: Path) -> None:
    assert safe.rotate() is None
    assert not (tmp_path / "state").exists()


def test_a_damaged_secret_stays_with_its_key_and_does_not_hold_up_the_others(safe: Safe, tmp_path: Path) -> None:
    for name in ("bad", "good", "other"):
        safe.set(name, f"value of {name}")
    safe.database.write(lambda tx: tx.execute("UPDATE secrets SET wrapped = sealed WHERE name = 'bad'"))
    old = in_use(safe)

    rotated = safe.rotate()

    assert rotated is not None
    assert (rotated.moved, rotated.left) == (2, (UnrotatedSecret("acme", "", "bad", old, "damaged"),))
    assert list(rotated.kept) == [old]
    assert files(tmp_path / "state") == {old, rotated.key_id}
    safe.set("bad", "mended")
    again = safe.rotate()
    assert again is not None
    assert (again.resumed, again.moved, again.left, again.kept) == (True, 0, (), {})
    assert files(tmp_path / "state") == {rotated.key_id}


@pytest.mark.parametrize("damage", ["wrapped = sealed", "wrapped = NULL", "version = 7"])
def test_a_damaged_secret_does_not_keep_the_next_key_from_being_made(safe: Safe, tmp_path: Path, damage: str) -> None:
    for name in ("bad", "good"):
        safe.set(name, f"value of {name}")
    safe.database.write(lambda tx: tx.execute(f"UPDATE secrets SET {damage} WHERE name = 'bad'"))
    first, second = in_use(safe), safe.rotate()
    assert second is not None

    third = safe.rotate()

    assert third is not None
    assert (third.key_id != second.key_id, third.moved, third.resumed) == (True, 1, False)
    assert [one.name for one in third.left] == ["bad"]
    assert files(tmp_path / "state") == noted(safe) == {first, third.key_id}, "the second is gone"
    safe.remove("bad")
    assert safe.rotate() is not None
    assert files(tmp_path / "state") == {third.key_id}


def test_a_key_that_is_lost_leaves_its_secrets_alone_and_no_others(safe: Safe, tmp_path: Path) -> None:
    for name in ("bad", "good"):
        safe.set(name, f"value of {name}")
    safe.database.write(lambda tx: tx.execute("UPDATE secrets SET wrapped = sealed WHERE name = 'bad'"))
    lost = in_use(safe)
    safe.rotate()
    file = tmp_path / "state" / "keys" / "secrets" / f"{lost}.key"
    file.rename(tmp_path / "elsewhere.key")

    rotated = Safe(safe.database, keys_at(tmp_path / "state")).rotate()

    assert rotated is not None
    assert (rotated.moved, rotated.left) == (1, (UnrotatedSecret("acme", "", "bad", lost, "key_missing"),))
    assert safe.get("good") == "value of good"


def test_only_one_rotation_is_under_way_at_a_time(safe: Safe, tmp_path: Path) -> None:
    for number in range(250):
        safe.set(f"key{number}", f"value {number}")
    refused: list[str] = []

    def meanwhile(_: int) -> None:
        with open_safe(safe.address, tmp_path / "state") as other, pytest.raises(Busy) as busy:
            other.rotate()
        refused.append(str(busy.value.error_code))

    rotated = rotate(safe.database, safe.keys, RANDOM, safe.deed, progress=meanwhile)

    assert rotated is not None
    assert (rotated.moved, rotated.left) == (250, ())
    assert set(refused) == {"secret.rotating"}
    again = safe.rotate()
    assert again is not None and again.moved == 250


def test_a_host_that_goes_on_forgets_a_key_that_was_destroyed_meanwhile(safe: Safe, tmp_path: Path) -> None:
    safe.set("api_key", "hunter2")
    lasting = Safe(safe.database, keys_at(tmp_path / "state"))
    lasting.get("api_key")
    old = safe.database.read(active_key)
    assert old is not None and lasting.keys.is_cached(old)

    safe.rotate()

    assert lasting.get("api_key") == "hunter2"
    assert not lasting.keys.is_cached(old)


def test_a_secret_that_is_set_while_the_key_changes_is_under_the_new_one(safe: Safe, tmp_path: Path) -> None:
    safe.set("api_key", "before")
    slow = Safe(safe.database, keys_at(tmp_path / "state"))
    slow.get("api_key")  # it knows the old key
    safe.rotate()
    slow.set("api_key", "after")
    (row,) = safe.database.read(lambda tx: tx.all("SELECT key_id FROM secrets"))
    assert row["key_id"] == in_use(safe)
    assert safe.get("api_key") == "after"


def test_killed_before_or_after_any_of_its_writes_it_leaves_every_secret_readable_and_is_finished_later(
    tmp_path: Path,
) -> None:
    home, values = tmp_path / "home", {f"key{number}": f"value {number}" for number in range(250)}
    with open_safe(home / "store.db", home / "state") as safe:
        for name, value in values.items():
            safe.set(name, value)
    killed = 0
    while True:
        folder = tmp_path / f"killed{killed + 1}"
        shutil.copytree(home, folder)
        child = os.fork()
        if child == 0:
            turn(folder / "store.db", folder / "state", killed + 1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            break
        killed += 1
        with open_safe(folder / "store.db", folder / "state") as safe:
            assert [safe.get(name) for name in values] == list(values.values())
            safe.set("key0", "value 0")
            safe.rotate()
            assert noted(safe) == {in_use(safe)}
            assert [safe.get(name) for name in values] == list(values.values())
            assert files(folder / "state") == {in_use(safe)}, "nor is a key left that was never taken into use"
    assert killed >= 14, (
        "twice for each of: a key announced, one in use, three steps, the end of them, a key forgotten, and the record"
    )


def test_whoever_is_killed_while_setting_the_first_secret_leaves_no_key_that_nobody_knows_of(tmp_path: Path) -> None:
    killed = 0
    while True:
        folder = tmp_path / f"killed{killed + 1}"
        with open_safe(folder / "store.db", folder / "state"):
            pass
        child = os.fork()
        if child == 0:
            with open_safe(folder / "store.db", folder / "state") as mortal:
                Safe(Mortal(mortal.database, killed + 1), mortal.keys).set("one", "1")  # type: ignore[arg-type]
            os._exit(0)
        _, status = os.waitpid(child, 0)
        with open_safe(folder / "store.db", folder / "state") as safe:
            safe.set("one", "1")
            safe.rotate()
            assert files(folder / "state") == noted(safe) == {in_use(safe)}
            assert safe.get("one") == "1"
        if os.WIFEXITED(status):
            break
        killed += 1
    assert killed == 6, "twice for each of: a key announced, one in use, and the secret"


@pytest.mark.slow
def test_ten_thousand_secrets_outlive_a_rotation_that_is_killed_again_and_again(tmp_path: Path) -> None:
    store, state, count = tmp_path / "store.db", tmp_path / "state", 10_000
    chance = random.Random(6)
    with open_safe(store, state) as safe:
        key = safe.set("key0", "value 0")
        assert key.version == 1
        _many(safe, count)
    kills = 0
    for _ in range(40):  # where a rotation is through before it is killed, the next one begins another
        process = subprocess.Popen([sys.executable, SCRIPT, store, state], env=os.environ | {"PYTHONPATH": "src"})
        try:
            process.wait(chance.uniform(0.05, 0.6))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
        with open_safe(store, state) as safe:
            for number in chance.sample(range(count), 200):
                assert safe.get(f"key{number}") == f"value {number}"
    assert kills
    began = time.monotonic()
    with open_safe(store, state) as safe:
        safe.rotate()
        assert noted(safe) == {in_use(safe)}
        assert all(safe.get(f"key{number}") == f"value {number}" for number in range(count))
    assert time.monotonic() - began < 120


def _many(safe: Safe, count: int) -> None:
    """Set so many at once: each in a unit of its own would take minutes of syncing."""
    from paddock.core.secret import Secret
    from paddock.secrets.rows import set_secret

    note = safe.database.read(active_key)
    assert note is not None
    key = safe.keys.find(note)

    def unit(tx) -> None:
        for number in range(1, count):
            set_secret(safe.deed(tx), f"key{number}", "", Secret(f"value {number}"), key, RANDOM)

    safe.database.write(unit)
