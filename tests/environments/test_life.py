"""An environment's life: shared, removed with its last user, mended, and never half there."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from tests.environments.looking import environments, printed
from tests.environments.shops import PythonIndex

from fixtures.commands import PATIENCE, Paddock

SERVER = "pypi:tiny-server"
LIBRARY = "/files/tiny_lib-2.1.0-py3-none-any.whl"


def processes_of(home: Path) -> list[int]:
    """Living processes that were started with a path below this home."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.fsencode(home) in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue  # it ended while we looked
    return found


@pytest.mark.slow
def test_plugins_with_equal_locks_share_one_environment_which_goes_with_the_last(
    paddock: Paddock, index: PythonIndex
) -> None:
    paddock.quickly("plugin", "install", SERVER, "--yes")
    index.requests.clear()
    paddock.quickly("plugin", "install", SERVER, "--name", "second", "--yes")
    assert LIBRARY not in index.requests, "what is here is not fetched again"
    assert len(environments(paddock)) == 1
    paddock.quickly("plugin", "remove", "tiny-server", "--yes")
    assert printed(paddock, "second") == "42"
    paddock.quickly("plugin", "remove", "second", "--yes")
    assert list((paddock.home / "data" / "environments").iterdir()) == []


def test_an_install_that_is_killed_while_it_builds_leaves_nothing_that_counts(
    paddock: Paddock, index: PythonIndex
) -> None:
    index.held = {LIBRARY}
    process = paddock.start("plugin", "install", SERVER, "--yes")
    with process:
        assert index.asked.wait(PATIENCE)
        assert processes_of(paddock.staging), "uv is at work there"
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=PATIENCE)
    deadline = time.monotonic() + PATIENCE
    while processes_of(paddock.staging):
        assert time.monotonic() < deadline, "uv outlived whoever started it"
    assert not paddock.listed()
    assert environments(paddock) == []
    assert list(paddock.staging.iterdir()), "it had no chance to tidy up"

    index.held = set()
    index.released.set()
    paddock.quickly("plugin", "install", SERVER, "--yes")
    assert list(paddock.staging.iterdir()) == []
    assert printed(paddock, "tiny-server") == "42"


@pytest.mark.slow
def test_a_directory_without_its_note_does_not_count_and_is_swept(paddock: Paddock, index: PythonIndex) -> None:
    paddock.quickly("plugin", "install", SERVER, "--yes")
    [root] = environments(paddock)
    root.with_suffix(".json").unlink()  # as if killed before the last step
    stranger = root.with_name("0" * 32)
    (stranger / "lib").mkdir(parents=True)
    said = paddock.quickly("plugin", "enable", "tiny-server", "--json", code=6)
    [problem] = [one for one in said.error["errors"] if one["code"] == "environment.missing"]
    assert problem["action"] == {"kind": "plugin.repair", "arguments": {"plugin": "tiny-server"}}
    assert not root.exists()
    assert not stranger.exists()


@pytest.mark.slow
def test_two_installs_at_once_end_with_one_environment_that_both_use(paddock: Paddock, index: PythonIndex) -> None:
    with (
        paddock.start("plugin", "install", SERVER, "--yes") as one,
        paddock.start("plugin", "install", SERVER, "--name", "second", "--yes") as other,
    ):
        for process in (one, other):
            assert process.wait(timeout=PATIENCE) == 0, process.communicate()
    assert len(environments(paddock)) == 1
    assert (printed(paddock, "tiny-server"), printed(paddock, "second")) == ("42", "42")


@pytest.mark.parametrize(
    "damage",
    ["changed", pytest.param("removed", marks=pytest.mark.slow), pytest.param("added", marks=pytest.mark.slow)],
)
def test_an_environment_that_was_touched_is_not_used_and_repair_builds_it_anew(
    paddock: Paddock, index: PythonIndex, damage: str
) -> None:
    paddock.quickly("plugin", "install", SERVER, "--yes")
    [root] = environments(paddock)
    [library] = root.rglob("tiny_lib.py")
    library.parent.chmod(0o755)
    library.chmod(0o644)
    if damage == "changed":
        library.write_text("ANSWER = 13\n")
    elif damage == "removed":
        library.unlink()
    else:
        library.with_name("json.py").write_text("raise SystemExit(1)\n")
    said = paddock.quickly("plugin", "enable", "tiny-server", "--json", code=6)
    assert "environment.missing" in [one["code"] for one in said.error["errors"]]
    assert paddock.quickly("plugin", "repair", "tiny-server", "--json").json["restored"] == ["1.0.0"]
    assert printed(paddock, "tiny-server") == "42"
    assert paddock.quickly("plugin", "repair", "tiny-server", "--json").json["restored"] == []


@pytest.mark.slow
def test_the_index_is_read_once_and_a_repair_which_looks_files_up_by_name_makes_the_same_environment(
    paddock: Paddock, index: PythonIndex
) -> None:
    paddock.quickly("plugin", "install", SERVER, "--yes")
    looked_up = [path for path in index.requests if path.startswith("/simple/")]
    assert len(looked_up) == len(set(looked_up)) == 2
    [root] = environments(paddock)
    made = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    record = next(name for name in made if name.endswith("tiny_lib-2.1.0.dist-info/RECORD"))
    assert "direct_url" not in record + str(made[record])

    program = root / "programs" / "tiny-server"
    program.parent.chmod(0o755)
    program.unlink()
    index.requests.clear()
    assert paddock.quickly("plugin", "repair", "tiny-server", "--json").json["restored"] == ["1.0.0"]
    assert any(path.startswith("/simple/") for path in index.requests)
    assert {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()} == made


@pytest.mark.slow
def test_files_of_a_private_index_are_looked_up_by_name_where_their_address_alone_is_refused(
    paddock: Paddock, index: PythonIndex
) -> None:
    address = index.address.removeprefix("http://")
    with_password = {"PIP_INDEX_URL": f"http://ann:hunter2@{address}/simple"}
    index.password = "ann:hunter2"
    private = Paddock(paddock.home, more=paddock.more | with_password)
    private.quickly("plugin", "install", SERVER, "--yes")
    assert printed(private, "tiny-server") == "42"


@pytest.mark.slow
def test_repair_refuses_another_file_under_the_name_that_was_consented_to(paddock: Paddock, index: PythonIndex) -> None:
    paddock.quickly("plugin", "install", SERVER, "--yes")
    [root] = environments(paddock)
    root.with_suffix(".json").unlink()
    index.wheel("tiny-lib", "2.1.0", modules={"tiny_lib.py": "ANSWER = 666\n"}, programs={})
    said = paddock.quickly("plugin", "repair", "tiny-server", "--json", code=7)
    assert said.error["code"] == "environment.hash_mismatch"
    assert environments(paddock) == []


@pytest.mark.slow
def test_a_yes_in_the_next_command_is_to_what_was_shown_and_asks_no_registry_anew(
    paddock: Paddock, index: PythonIndex
) -> None:
    asked = paddock.quickly("plugin", "install", SERVER, code=4)
    assert "exactly version 1.0.0" in asked.err
    index.wheel("tiny-server", "1.1.0", needs=("tiny-lib>=2",))
    index.requests.clear()
    assert paddock.quickly("plugin", "install", SERVER, "--yes", "--json").json["version"] == "1.0.0"
    assert "/files/tiny_server-1.1.0-py3-none-any.whl.metadata" not in index.requests
    assert printed(paddock, "tiny-server") == "42"
    # What was agreed to is done with: the next command looks again.
    assert paddock.quickly("plugin", "install", SERVER, "--yes", "--json").json["version"] == "1.1.0"


@pytest.mark.slow
def test_a_restored_home_runs_its_servers_without_a_registry_and_a_lost_environment_is_found_by_the_check(
    paddock: Paddock, index: PythonIndex, tmp_path: Path
) -> None:
    paddock.quickly("plugin", "install", SERVER, "--yes")
    paddock.quickly("backup", tmp_path / "backup.tar")
    index.requests.clear()
    other = Paddock(tmp_path / "other")
    other.quickly("restore", tmp_path / "backup.tar")
    assert other.listed() == paddock.listed(), "every file of a package is in a backup, its lock too"
    assert printed(other, "tiny-server") == "42"
    assert index.requests == []

    [root] = environments(other)
    root.with_suffix(".json").unlink()
    [check] = [one for one in other.quickly("doctor", "--json").json["checks"] if one["name"] == "plugins"]
    assert (check["code"], check["actions"][0]["kind"]) == ("environment.missing", "plugin.repair")
