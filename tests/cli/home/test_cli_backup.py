"""`paddock backup` and `paddock restore`: a home in one file, and what is refused."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import sqlite3
import tarfile
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fixtures.commands import Paddock, Said
from fixtures.daemons import again_and_again, daemon, eventually
from fixtures.packages import native, write_json
from fixtures.parrot import parrot
from fixtures.small_disks import small_disk

EXAMPLES = Path(__file__).parents[3] / "examples"


def contents(home: Path) -> dict[str, bytes]:
    """Every file of a home that a backup has to keep as it is, by its path."""
    volatile = ("run", "cache", "logs", "fingerprints", "staging")
    return {
        str(path.relative_to(home)): path.read_bytes()
        for path in home.rglob("*")
        if path.is_file()
        and not set(path.relative_to(home).parts) & set(volatile)
        and not path.name.endswith(("-wal", "-shm", ".db", ".sqlite"))
        and not (path.name.endswith(".lock") and len(path.relative_to(home).parts) <= 2)
    }


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[Paddock, Path], None, None]:
    """A home with a plugin, a secret and a policy, and its backup."""
    folder = tmp_path_factory.mktemp("kept")
    paddock = Paddock(folder / "home")
    notes = native(folder / "notes")
    (notes / "uv.lock").write_text("a file of the package, and no lock of ours\n")
    paddock.quickly("plugin", "install", notes, "--yes")
    server = {"command": "weather", "env": {"WEATHER_KEY": "canary-4711"}}
    paddock.quickly("import", write_json(folder / "mcp.json", {"mcpServers": {"weather": server}}), "--yes")
    (paddock.home / "policies").mkdir()
    (paddock.home / "policies").chmod(0o710)
    (paddock.home / "policies" / "mine.cedar").write_text("// no rules of my own\n")
    backup = folder / "backup.tar"
    paddock.quickly("backup", backup)
    yield paddock, backup


def test_a_backup_holds_every_file_of_the_home_and_only_its_owner_can_read_it(kept: tuple[Paddock, Path]) -> None:
    paddock, backup = kept
    other = Paddock(backup.parent / "other")
    said = other.quickly("restore", backup, "--json").json

    assert backup.stat().st_mode & 0o777 == 0o600
    assert contents(other.home) == contents(paddock.home)
    assert (other.home / "policies").stat().st_mode & 0o777 == 0o710
    assert (said["engine"], said["ledger"][0]["verdict"]) == ("sqlite", "sound")
    assert other.listed() == paddock.listed()
    assert {one["state"] for one in other.listed().values()} == {"disabled"}, "and no file of a plugin is missing"
    assert other.quickly("secret", "list", "--json").json == paddock.quickly("secret", "list", "--json").json
    assert not list(other.home.rglob("restoring-*")), "nothing of the work is left"


def test_a_home_that_is_not_empty_is_restored_only_when_it_may_be_replaced_and_what_was_there_stays(
    kept: tuple[Paddock, Path], tmp_path: Path
) -> None:
    _, backup = kept
    mine = Paddock(tmp_path / "home")
    mine.quickly("plugin", "install", parrot(tmp_path / "parrot"), "--yes")
    before = contents(mine.home)

    assert mine.quickly("restore", backup, "--json", code=1).error["code"] == "backup.home_not_empty"
    assert contents(mine.home) == before
    said = mine.quickly("restore", backup, "--replace", "--json").json
    assert list(mine.listed()) == ["notes", "weather"]
    aside = [Path(path) for path in said["replaced"]]
    assert any((path / "plugins" / "parrot").is_dir() for path in aside)
    again = tmp_path / "again.tar"
    mine.quickly("backup", again)
    with tarfile.open(again) as tar:
        assert not [name for name in tar.getnames() if "parrot" in name], "what was moved aside is no part of the home"


def test_nothing_is_restored_beside_a_daemon_and_no_file_is_overwritten(
    kept: tuple[Paddock, Path], tmp_path: Path
) -> None:
    _, backup = kept
    busy = Paddock(tmp_path / "home")
    with daemon(busy):
        refused = busy("restore", backup, "--replace", "--json", code=1)
        assert refused.error["code"] == "store.locked"
    assert busy.quickly("backup", backup, "--json", code=1).error["code"] == "backup.exists"
    inside = busy.home / "data" / "backup.tar"
    assert busy.quickly("backup", inside, "--json", code=6).error["code"] == "backup.inside_home"
    assert busy.quickly("restore", tmp_path / "absent", "--json", code=3).error["code"] == "backup.no_such_file"


def rewritten(backup: Path, target: Path, change: Any) -> Path:
    """A copy of a backup whose members went through `change`, which may leave out, alter or add."""
    with tarfile.open(backup) as old, tarfile.open(target, "w") as new:
        for member in old:
            source = old.extractfile(member)
            for changed, data in change(member, source.read() if source else b""):
                changed.size = len(data)
                new.addfile(changed, io.BytesIO(data))
    return target


def forged(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


def flipped(data: bytes) -> bytes:
    return bytes([data[0] ^ 1]) + data[1:] if data else b"x"


# What becomes of a member and its bytes; the third is a place outside the home.
DAMAGES: dict[str, Any] = {
    "a changed file": lambda m, d, _: [(m, flipped(d) if m.name == "config/local.toml" else d)],
    "a changed package": lambda m, d, _: [(m, flipped(d) if "/packages/" in m.name else d)],
    "a missing file": lambda m, d, _: [] if m.name.endswith("ledger.key") else [(m, d)],
    "an added file": lambda m, d, _: [
        *([(forged("config/added"), b"x")] if m.name == "data/paddock.db" else []),
        (m, d),
    ],
    "two lists": lambda m, d, _: [(m, d)] * (2 if m.name == "paddock-backup.json" else 1),
    "no list": lambda m, d, _: [] if m.name == "paddock-backup.json" else [(m, d)],
    "a path out of it": lambda m, d, _: [(forged("config/../../escaped"), b"x"), (m, d)],
    "a path of another place": lambda m, d, outside: [(forged(f"{outside}/escaped"), b"x"), (m, d)],
    "a path through a link": lambda m, d, outside: [
        (forged("data/link", tarfile.SYMTYPE, str(outside)), b""),
        (forged("data/link/escaped"), b"x"),
        (m, d),
    ],
    "a device": lambda m, d, _: [(forged("data/device", tarfile.FIFOTYPE), b""), (m, d)],
    "a database elsewhere": lambda m, d, outside: relisted(
        m, d, forged("data/paddock.db", tarfile.SYMTYPE, f"{outside}/x.db"), kind="link", target=f"{outside}/x.db"
    ),
    "a database that nobody checks": lambda m, d, _: relisted(m, d, engine="postgresql"),
    "a list of another engine": lambda m, d, _: relisted(m, d, engine="oracle"),
}


def relisted(
    member: tarfile.TarInfo, data: bytes, link: tarfile.TarInfo | None = None, engine: str = "sqlite", **fields: Any
) -> list[tuple[tarfile.TarInfo, bytes]]:
    """A member of a backup whose list fits its other database."""
    if member.name == "data/paddock.db" and link is not None:
        return [(link, b"")]
    if member.name != "paddock-backup.json":
        return [(member, data)]
    listed = json.loads(data) | {"engine": engine}
    for entry in listed["entries"]:
        if entry["path"] == "data/paddock.db" and fields:
            entry |= {"mode": 0o644, "size": 0, "sha256": ""} | fields
    return [(member, json.dumps(listed).encode())]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_backup_that_is_not_what_was_written_is_refused_and_the_home_stays_empty(
    kept: tuple[Paddock, Path], tmp_path: Path, damage: str
) -> None:
    _, backup = kept
    other = Paddock(tmp_path / "other")
    change = DAMAGES[damage]
    broken = rewritten(backup, tmp_path / "broken.tar", lambda member, data: change(member, data, tmp_path))

    assert other.quickly("restore", broken, "--json", code=6).error["code"] == "backup.damaged"
    assert contents(other.home) == {}
    assert not (tmp_path / "escaped").exists()


def test_a_package_that_is_not_what_its_name_says_is_refused(kept: tuple[Paddock, Path], tmp_path: Path) -> None:
    """Although the list of files has the new digest: whoever changed the one could change the other."""

    def exchange(member: tarfile.TarInfo, data: bytes) -> list[tuple[tarfile.TarInfo, bytes]]:
        if member.name == "paddock-backup.json":
            listed = json.loads(data)
            for entry in listed["entries"]:
                if entry["kind"] == "file" and entry["path"].startswith("data/packages/"):
                    entry["sha256"], entry["size"] = hashlib.sha256(b"other").hexdigest(), len(b"other")
            return [(member, json.dumps(listed).encode())]
        return [(member, b"other" if member.isreg() and member.name.startswith("data/packages/") else data)]

    other = Paddock(tmp_path / "other")
    broken = rewritten(kept[1], tmp_path / "broken.tar", exchange)
    refused = other.quickly("restore", broken, "--json", code=6).error
    assert (refused["code"], "data/packages/" in refused["message"]) == ("backup.damaged", True)


def backed_up_around(paddock: Paddock, backup: Path, change: Callable[[], object], *, code: int = 0) -> Said:
    """Back a home up, and change it while keys, database and packages are copied and what plugins store is not."""
    (paddock.home / "data" / "storage").mkdir(exist_ok=True)
    held = sqlite3.connect(paddock.home / "data" / "storage" / "held.sqlite", isolation_level=None)
    held.execute("CREATE TABLE t (a)")
    held.execute("BEGIN EXCLUSIVE")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(paddock, "backup", backup, "--json", code=code)
        copies = ".paddock-backup-*/held.sqlite"
        eventually(lambda: bool(list(backup.parent.glob(copies))), "it never came to the plugin's database")
        change()
        held.close()
        return running.result()


@pytest.fixture
def copied(kept: tuple[Paddock, Path], tmp_path: Path) -> Paddock:
    """A home of one's own to change, like that which is kept."""
    shutil.copytree(kept[0].home, tmp_path / "home", ignore=shutil.ignore_patterns("run"))
    return Paddock(tmp_path / "home")


def test_a_home_whose_key_is_replaced_while_it_is_copied_is_not_kept(copied: Paddock, tmp_path: Path) -> None:
    key = copied.home / "state" / "keys" / "ledger.key"
    said = backed_up_around(copied, tmp_path / "b.tar", lambda: key.write_bytes(bytes(32)), code=1)
    assert (said.error["code"], "a key was replaced" in said.error["message"]) == ("backup.changed", True)
    assert not (tmp_path / "b.tar").exists()


def test_a_home_that_a_plugin_is_removed_from_while_it_is_copied_is_not_kept(copied: Paddock, tmp_path: Path) -> None:
    shutil.rmtree(copied.home / "data" / "packages")  # as if it went after the database was copied

    def remove() -> None:
        with closing(sqlite3.connect(copied.home / "data" / "paddock.db", isolation_level=None)) as database:
            database.execute("PRAGMA foreign_keys = OFF")
            database.execute("DELETE FROM plugin_versions")

    said = backed_up_around(copied, tmp_path / "b.tar", remove, code=1)
    assert (said.error["code"], "a plugin was removed" in said.error["message"]) == ("backup.changed", True)
    assert not (tmp_path / "b.tar").exists()


def test_what_is_recorded_while_a_home_is_copied_does_not_look_lost_in_its_backup(
    copied: Paddock, tmp_path: Path
) -> None:
    backed_up_around(copied, tmp_path / "b.tar", lambda: copied.quickly("user", "add", "ann"))
    restored = Paddock(tmp_path / "other").quickly("restore", tmp_path / "b.tar", "--json").json
    assert [chain["verdict"] for chain in restored["ledger"]] == ["sound"]


@pytest.mark.parametrize("place", ["config/data", "config/state/x", "data/paddock.lock", "data/staging/x"])
def test_a_backup_puts_nothing_where_paddock_itself_works(
    kept: tuple[Paddock, Path], tmp_path: Path, place: str
) -> None:
    def add(member: tarfile.TarInfo, data: bytes) -> list[tuple[tarfile.TarInfo, bytes]]:
        parents = [forged(place.rpartition("/")[0], tarfile.DIRTYPE)] if place.count("/") > 1 else []
        first = [*((one, b"") for one in parents), (forged(place), b"x")]
        return [*(first if member.name == "data/paddock.db" else []), (member, data)]

    _, backup = kept
    other = Paddock(tmp_path / "other")
    broken = rewritten(backup, tmp_path / "broken.tar", add)
    assert other.quickly("restore", broken, "--json", code=6).error["code"] == "backup.reserved_place"
    assert contents(other.home) == {}


def test_a_home_with_a_part_that_cannot_be_moved_is_as_it_was_after_the_refused_restore(
    kept: tuple[Paddock, Path], tmp_path: Path
) -> None:
    _, backup = kept
    mine = Paddock(tmp_path / "home")
    mine.quickly("plugin", "install", parrot(tmp_path / "parrot"), "--yes")
    with small_disk(mine.home / "data" / "storage", "1m") as disk:
        (disk / "mine.sqlite").write_bytes(b"mine")
        before = contents(mine.home)
        said = mine.quickly("restore", backup, "--replace", "--json", code=1)
        assert said.error["code"] == "system_refused" and "storage" in said.error["message"]
        assert contents(mine.home) == before
        assert list(mine.listed()) == ["parrot"]
        assert not list(mine.home.rglob("restor*-*")) and not list(mine.home.rglob("before-restore-*"))


def test_a_database_at_a_place_of_its_own_is_backed_up_once_and_an_unused_one_is_not(
    kept: tuple[Paddock, Path], tmp_path: Path
) -> None:
    paddock, _ = kept
    shutil.copytree(paddock.home, tmp_path / "home", ignore=shutil.ignore_patterns("run"))
    shutil.copy(paddock.home / "data" / "paddock.db", tmp_path / "elsewhere.db")
    moved = Paddock(tmp_path / "home", store=f"sqlite:///{tmp_path / 'elsewhere.db'}")
    moved.quickly("plugin", "install", parrot(tmp_path / "parrot"), "--yes")
    moved.quickly("backup", tmp_path / "moved.tar")

    other = Paddock(tmp_path / "other", store=moved.store)
    said = other.quickly("restore", tmp_path / "moved.tar")
    assert "store.url" in said.err and str(tmp_path / "elsewhere.db") in said.err
    assert list(Paddock(other.home).listed()) == ["notes", "parrot", "weather"]


def test_a_backup_that_finds_no_room_leaves_nothing_and_a_restore_into_too_little_neither(
    kept: tuple[Paddock, Path], tmp_path: Path
) -> None:
    paddock, backup = kept
    with small_disk(tmp_path / "disk", "300k") as disk:
        full = paddock.quickly("backup", disk / "backup.tar", "--json", code=1)
        assert (full.error["code"], list(disk.iterdir())) == ("store.full", [])
        assert "write it to another disk" in full.error["hint"]

        other = Paddock(disk / "home")
        full = other.quickly("restore", backup, "--json", code=1)
        assert (full.error["code"], contents(other.home)) == ("store.full", {})
        assert "PADDOCK_HOME on another disk" in full.error["hint"]


def test_half_a_backup_and_what_is_none_are_refused(kept: tuple[Paddock, Path], tmp_path: Path) -> None:
    _, backup = kept
    other = Paddock(tmp_path / "other")
    half = tmp_path / "half.tar"
    half.write_bytes(backup.read_bytes()[: backup.stat().st_size // 2])
    text = tmp_path / "text"
    text.write_text("no backup at all")
    for file in (half, text):
        assert other.quickly("restore", file, "--json", code=6).error["code"] == "backup.damaged"
    assert contents(other.home) == {}


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ("UPDATE ledger SET plugin = 'other' WHERE seq = 1", "tampered"),
        ("DELETE FROM ledger WHERE seq = (SELECT max(seq) FROM ledger)", "truncated"),
    ],
)
def test_a_ledger_that_was_changed_is_not_restored(copied: Paddock, tmp_path: Path, change: str, verdict: str) -> None:
    with sqlite3.connect(copied.home / "data" / "paddock.db") as database:
        database.execute(change)
    backup = copied.quickly("backup", tmp_path / "forged.tar", "--json", code=1 if verdict == "tampered" else 2)
    assert verdict in [one["verdict"] for one in backup.json["ledger"]]
    assert f"the ledger in it is {verdict}" in backup.err and "restore will refuse" in backup.err

    other = Paddock(tmp_path / "other")
    refused = other.quickly("restore", tmp_path / "forged.tar", "--json", code=1)
    assert refused.error["code"] == "backup.ledger" and verdict in refused.error["message"]
    assert contents(other.home) == {}


@pytest.mark.slow
def test_a_destroyed_home_comes_back_from_a_backup_that_was_made_while_calls_were_running(
    tmp_path: Path,
) -> None:
    paddock = Paddock(tmp_path / "home")
    paddock("plugin", "install", EXAMPLES / "native-notes", "--yes")
    paddock("plugin", "enable", "native-notes")
    backup = tmp_path / "backup.tar"
    with daemon(paddock) as running:

        def write() -> None:
            running.ask("POST", "/plugins/native-notes/call/add_note", {"text": "kept"})

        write()
        with again_and_again(write):
            paddock("backup", backup)
    rows = paddock.quickly("ledger", "verify", "--json").json["chains"][0]["rows"]
    shutil.rmtree(paddock.home)

    said = paddock("restore", backup, "--json").json
    assert 0 < said["ledger"][0]["rows"] <= rows
    assert paddock.quickly("ledger", "verify", "--json").json["verdict"] == "sound"
    assert paddock.listed()["native-notes"]["state"] == "enabled"
    with daemon(paddock) as running:
        answer = running.ask("POST", "/plugins/native-notes/call/list_notes", {})
        assert answer.status == 200 and "kept" in json.dumps(answer.body)


def test_a_home_that_was_only_looked_at_is_empty_and_without_secrets_no_key_is_missed(tmp_path: Path) -> None:
    plain, looked_at, used = (Paddock(tmp_path / name / "home") for name in ("plain", "looked-at", "used"))
    plain.quickly("user", "add", "ann")
    backup = tmp_path / "plain.tar"
    said = plain.quickly("backup", backup, "--json")
    assert (said.json["not_included"], "wrapping key" in said.err) == ([], False)

    looked_at.quickly("plugin", "list")
    restored = looked_at.quickly("restore", backup, "--json")
    assert (restored.json["not_included"], "wrapping key" in restored.err) == ([], False)
    assert [one["name"] for one in looked_at.quickly("user", "list", "--json").json["people"]] == ["ann"]
    used.quickly("user", "add", "bob")
    assert used.quickly("restore", backup, "--json", code=1).error["code"] == "backup.home_not_empty"


def test_a_backup_on_postgresql_says_what_is_kept_elsewhere(kept: tuple[Paddock, Path], tmp_path: Path) -> None:
    paddock, _ = kept
    shared = Paddock(paddock.home, store="postgresql://nobody@127.0.0.1:1/none")
    said = shared.quickly("backup", tmp_path / "shared.tar", "--json")

    assert said.json["engine"] == "postgresql"
    assert "what is in PostgreSQL" in said.err and "pg_dump" in said.json["not_included"][0]
    restored = Paddock(tmp_path / "other").quickly("restore", tmp_path / "shared.tar", "--json").json
    assert (restored["ledger"], restored["not_included"]) == ([], said.json["not_included"])
