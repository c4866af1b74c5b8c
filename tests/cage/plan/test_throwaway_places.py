"""No path of a plugin's settings silently leads to a place that ends with its cage. On a machine written down."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cage.plan.pretend import DEBIAN, PretendMachine, caged, refusals

from fixtures.all_cases import all_cases
from paddock.cage.errors import CageUnavailable

MACHINE = PretendMachine(
    {
        **DEBIAN,
        "/home/ada/docs/out": "-> /tmp/out.json",
        "/home/ada/docs/a.md": "-",
        "/tmp/one.json": "-",
        "/tmp/shared/b.json": "-",
    }
)
COMMAND = ("python3", "./main.py")


def lost(*capabilities: str, text: str, **given: Any) -> dict[str, str]:
    return refusals(*capabilities, command=(*COMMAND, text), machine=MACHINE, **given)


@all_cases(
    "text",
    [
        "/tmp/new.json",
        "/tmp/one.json",
        "/tmp/shared",  # a folder of the host's, which the cage does not have
        "/tmp/shared/b.json",
        "/tmp/shared/deep/new.json",
        "/tmp",  # the cage's own, and not the one that a person means
        "/dev/shm/new.json",
        "//tmp/new.json",
        "/srv/../tmp/new.json",
        "../../../../../../../../tmp/new.json",
        "--store=/tmp/new.json",
        "store=/tmp/new.json",
        "-s/tmp/new.json",
        "file:///tmp/new.json",
        "sqlite:////tmp/new.db?mode=rwc",
        '{"store": ["/tmp/new.json"]}',
        "/home/ada:/tmp/shared",
        "/home/ada/docs/out",  # a link
    ],
)
def test_a_path_in_a_throw_away_place_is_refused_however_it_is_written(text: str) -> None:
    assert lost(text=text) == {"its arguments": "cage.throwaway_path"}


def test_it_is_refused_wherever_it_is_set() -> None:
    expected = {"its variable STORE": "cage.throwaway_path", "its setting roots": "cage.throwaway_path"}
    config = {"roots": [{"path": "/tmp/shared"}], "greeting": "hello"}
    assert refusals(env={"STORE": "/tmp/x"}, config=config, machine=MACHINE) == expected


@pytest.mark.parametrize("text", ["/tmp/shared", "/tmp/shared/b.json", "/tmp/shared/deep/new.json"])
def test_it_is_bound_where_its_folder_is_granted(text: str) -> None:
    assert caged("write:fs:/tmp/shared", command=(*COMMAND, text), machine=MACHINE)


def test_a_database_is_not_granted_without_the_folder_for_its_journal() -> None:
    files = {"/srv/db/log": "SQLite format 3\0", "/srv/db/new.sqlite3": "", "/srv/db/notes.txt": "-"}
    machine = PretendMachine({**DEBIAN, **files})
    for path in ("/srv/db/log", "/srv/db/new.sqlite3"):
        grant = f"write:fs:{path}"
        assert refusals(grant, machine=machine) == {grant: "cage.database_without_folder"}
        assert caged(grant, "write:fs:/srv/db", machine=machine)
        beside = refusals(grant, "read:fs:/srv/db", machine=machine)
        assert beside == {grant: "cage.database_without_folder"}, "no journal is made in a folder that is only read"
        assert caged(f"read:fs:{path}", machine=machine), "it is only read"
    assert caged("write:fs:/srv/db/notes.txt", machine=machine), "another file"
    with pytest.raises(CageUnavailable) as refused:
        caged("write:fs:/srv/db/log", machine=machine)
    assert refused.value.hint == "grant write:fs:/srv/db in place of it"


def test_a_link_in_a_granted_folder_does_not_lead_there_unseen() -> None:
    assert lost("write:fs:/home/ada/docs", text="/home/ada/docs/out") == {"its arguments": "cage.throwaway_path"}
    assert caged("write:fs:/home/ada/docs", command=(*COMMAND, "/home/ada/docs/a.md"), machine=MACHINE)


@pytest.mark.parametrize(
    ("words", "env"),
    [
        (("-c", "sort > /tmp/sorted && cat /tmp/sorted"), {}),  # a script's own scratch file
        (("--cache-dir", "/tmp/cache"), {}),
        (("--tmp=/tmp/x",), {}),
        ((), {"TMPDIR": "/tmp/x", "UV_CACHE_DIR": "/tmp/uv", "scratchFolder": "/dev/shm"}),
        (("http://tmp/x", "/tmpfiles/x", "config:/tmp/x"), {}),
    ],
)
def test_scratch_files_may_be_there(words: tuple[str, ...], env: dict[str, str]) -> None:
    assert caged(command=(*COMMAND, *words), env=env, machine=MACHINE)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("/tmp/new.json", "name a path in its own folder, as config:/NAME, or in a folder that you grant"),
        ("/tmp", "name a path in its own folder, as config:/NAME, or in a folder that you grant"),
        ("/tmp/shared", "grant write:fs:/tmp/shared (read:fs: if it only reads)"),
        ("/tmp/shared/new.json", "grant write:fs:/tmp/shared (read:fs: if it only reads)"),
    ],
)
def test_the_hint_names_the_grant_that_helps(text: str, hint: str) -> None:
    with pytest.raises(CageUnavailable) as caught:
        caged(env={"STORE": text}, machine=MACHINE)
    assert f"{text} is not granted" in caught.value.message
    assert caught.value.hint.startswith(hint)
