"""Plugin entries of `local.toml`: read, edited in place, never lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from fixtures.commands import SOURCE
from paddock.config.local_file import read_entries, record_installed, remove_entry, set_system_value
from paddock.core.errors import Invalid, OperatorError
from paddock.core.secret import Secret

WRITTEN_BY_HAND = """\
# my machine
[limits]
pids = 50   # small box

# get a token at the provider's page
[plugins."@kaged/memory-hindsight"]
api_token = "${HINDSIGHT_TOKEN}"   # from the vault
[plugins."@kaged/memory-hindsight".advanced]
retries = 3
paths = ["${BASE}/a", "$${literal}"]

[plugins."@example/smart-compactor"]
license_key = "raw-key"
"""


@pytest.fixture
def local(tmp_path: Path) -> Path:
    return tmp_path / "local.toml"


def write(path: Path, text: str, mode: int = 0o600) -> None:
    path.write_text(text)
    path.chmod(mode)


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.mark.req("G-12", "variables")
def test_system_configuration_is_read_by_package_name_with_variables_filled_and_hidden(local: Path) -> None:
    write(local, WRITTEN_BY_HAND)
    entry = read_entries(local)["@kaged/memory-hindsight"]
    values = entry.system_values({"HINDSIGHT_TOKEN": "hunter2", "BASE": "/srv"})
    assert values == {
        "api_token": Secret("hunter2"),
        "advanced": {"retries": 3, "paths": [Secret("/srv/a"), Secret("${literal}")]},
    }
    assert "hunter2" not in repr(values) + str(values) + repr(entry)
    assert "raw-key" not in repr(read_entries(local))


@pytest.mark.req("G-12", "variables")
def test_a_variable_that_is_not_set_names_its_key_and_troubles_no_other_plugin(local: Path) -> None:
    write(local, WRITTEN_BY_HAND)
    entries = read_entries(local)
    with pytest.raises(Invalid) as refused:
        entries["@kaged/memory-hindsight"].system_values({"BASE": "/srv"})
    (problem,) = refused.value.problems
    assert problem.path == 'plugins."@kaged/memory-hindsight".api_token'
    assert problem.hint == "export HINDSIGHT_TOKEN=…"
    assert entries["@example/smart-compactor"].system_values({}) == {"license_key": Secret("raw-key")}


def test_an_install_is_noted_and_every_comment_stays(local: Path) -> None:
    write(local, WRITTEN_BY_HAND)
    record_installed(local, "oh-my-pi", "1.4.2")
    record_installed(local, "@kaged/memory-hindsight", "0.9.0", local=False)
    for line in WRITTEN_BY_HAND.splitlines():
        assert line in local.read_text()
    entries = read_entries(local)
    assert (entries["oh-my-pi"].installed, entries["oh-my-pi"].local) == ("1.4.2", True)
    assert '[plugins.oh-my-pi]\ninstalled = "1.4.2"\nlocal = true\n' in local.read_text()
    assert (entries["@kaged/memory-hindsight"].installed, entries["@kaged/memory-hindsight"].local) == ("0.9.0", False)
    assert "api_token" in entries["@kaged/memory-hindsight"].raw_values


def test_the_first_entry_makes_a_private_file(local: Path) -> None:
    before = os.umask(0)
    try:
        record_installed(local, "@scope/p", "1.0.0")
    finally:
        os.umask(before)
    assert mode_of(local) == 0o600
    assert local.read_text() == '[plugins."@scope/p"]\ninstalled = "1.0.0"\nlocal = true\n'


def test_removing_an_entry_takes_everything_below_it_and_nothing_else(local: Path) -> None:
    write(local, WRITTEN_BY_HAND)
    assert remove_entry(local, "@kaged/memory-hindsight")
    values = tomllib.loads(local.read_text())
    assert values == {"limits": {"pids": 50}, "plugins": {"@example/smart-compactor": {"license_key": "raw-key"}}}
    assert "# my machine" in local.read_text()
    assert not remove_entry(local, "@kaged/memory-hindsight")


def test_the_last_entry_leaves_nothing_behind_and_another_can_follow(local: Path) -> None:
    write(local, "# mine\n")
    record_installed(local, "p", "1.0.0")
    set_system_value(local, "p", "deep", {"er": [1, {"x": "y"}]})
    assert remove_entry(local, "p")
    assert local.read_text().strip() == "# mine"
    record_installed(local, "q", "1.0.0")
    assert list(read_entries(local)) == ["q"]


@pytest.mark.parametrize(
    "text",
    [
        'plugins.p.token = "x"\nplugins.q.token = "y"\n',
        'plugins = { p = { token = "x" }, q = { token = "y" } }\n',
        '[plugins]\nmcp_timeout_ms = 3000\np = { token = "x" }\n[plugins.q]\ntoken = "y"\n',
        '[plugins.p]\ntoken = "x"\n[limits]\npids = 9\n[plugins.q]\ntoken = "y"\n[plugins.p.sub]\na = 1\n',
    ],
)
def test_entries_are_edited_however_they_are_written(local: Path, text: str) -> None:
    write(local, text)
    expected = tomllib.loads(text)
    record_installed(local, "p", "2.0.0")
    expected["plugins"]["p"] |= {"installed": "2.0.0", "local": True}
    assert tomllib.loads(local.read_text()) == expected
    remove_entry(local, "p")
    del expected["plugins"]["p"]
    assert tomllib.loads(local.read_text()) == expected


def test_a_secret_is_set_and_our_own_notes_cannot_be_overwritten_by_it(local: Path) -> None:
    record_installed(local, "p", "1.0.0")
    set_system_value(local, "p", "token", 'a "quoted"\nsecret\x1b')
    assert read_entries(local)["p"].raw_values["token"] == 'a "quoted"\nsecret\x1b'
    with pytest.raises(OperatorError) as refused:
        set_system_value(local, "p", "installed", "9.9.9")
    assert refused.value.error_code == "config.reserved"


def test_a_file_that_is_not_toml_is_never_overwritten(local: Path) -> None:
    write(local, '[plugins.p]\ntoken = "hunter2"\n]broken\n')
    for edit in (lambda: record_installed(local, "q", "1.0.0"), lambda: remove_entry(local, "p")):
        with pytest.raises(Invalid) as refused:
            edit()
        assert refused.value.problems[0].line == 3
        assert "hunter2" not in str(refused.value) + repr(refused.value.problems)
    assert local.read_text().endswith("]broken\n")


def test_entries_of_the_wrong_shape_are_all_reported(local: Path) -> None:
    write(local, '[plugins.p]\ninstalled = 1\n[plugins.q]\nlocal = "yes"\n')
    with pytest.raises(Invalid) as refused:
        read_entries(local)
    assert len(refused.value.problems) == 2


def test_a_plugin_named_like_a_setting_is_told_apart_or_refused(local: Path) -> None:
    write(local, "[plugins]\nenabled = true\n")
    with pytest.raises(OperatorError) as refused:
        record_installed(local, "enabled", "1.0.0")
    assert refused.value.error_code == "config.name_taken"
    assert local.read_text() == "[plugins]\nenabled = true\n"


def test_a_file_that_others_can_read_is_repaired_by_the_next_write(local: Path) -> None:
    write(local, '[plugins.p]\ninstalled = "1.0.0"\nlocal = true\n', mode=0o644)
    record_installed(local, "p", "1.0.0")
    assert mode_of(local) == 0o600


def test_a_file_that_others_can_write_is_neither_believed_nor_edited(local: Path) -> None:
    write(local, "", mode=0o666)
    for act in (lambda: read_entries(local), lambda: record_installed(local, "p", "1.0.0")):
        with pytest.raises(OperatorError) as refused:
            act()
        assert refused.value.hint == f"chmod go-w {local}"


def test_our_own_link_is_followed_and_stays_a_link(local: Path, tmp_path: Path) -> None:
    target = tmp_path / "dotfiles" / "paddock.toml"
    target.parent.mkdir()
    write(target, "# linked\n")
    local.symlink_to(target)
    record_installed(local, "p", "1.0.0")
    assert local.is_symlink()
    assert target.read_text().startswith("# linked\n")
    assert read_entries(local)["p"].installed == "1.0.0"


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a link away needs root")
def test_a_link_of_someone_else_is_not_written_through(local: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    write(target, "")
    local.symlink_to(target)
    os.chown(local, 4711, -1, follow_symlinks=False)
    with pytest.raises(OperatorError) as refused:
        record_installed(local, "p", "1.0.0")
    assert refused.value.error_code == "config.foreign_link"
    assert target.read_text() == ""


def editor(local: Path, script: str) -> subprocess.Popen[str]:
    setup = f"from pathlib import Path\nfrom paddock.config.local_file import *\npath = Path({str(local)!r})\n"
    return subprocess.Popen(
        [sys.executable, "-c", setup + script],
        env={"PYTHONPATH": str(SOURCE)},
        stdout=subprocess.PIPE,
        text=True,
    )


def test_commands_that_edit_at_the_same_time_lose_nothing(local: Path) -> None:
    write(local, WRITTEN_BY_HAND)
    editors = [
        editor(local, f"for n in range(5): record_installed(path, f'p{number}-{{n}}', '1.0.0')") for number in range(4)
    ]
    for process in editors:
        process.communicate(timeout=60)
        assert process.returncode == 0
    entries = read_entries(local)
    assert {f"p{number}-{n}" for number in range(4) for n in range(5)} <= set(entries)
    assert "# from the vault" in local.read_text()


def test_a_command_killed_in_the_middle_leaves_the_old_file_or_the_new_one(local: Path) -> None:
    write(local, WRITTEN_BY_HAND)
    for edits_seen in range(1, 9):
        process = editor(
            local,
            "for n in range(10**6):\n    record_installed(path, 'p', f'{n}.0.0')\n    print(n, flush=True)",
        )
        assert process.stdout is not None
        for _ in range(edits_seen):
            assert process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=30)
        process.stdout.close()
        assert "# from the vault" in local.read_text()
        assert read_entries(local)["@example/smart-compactor"].raw_values == {"license_key": "raw-key"}
        assert mode_of(local) == 0o600
    # The lock died with its holder, and what it left behind is cleared away.
    record_installed(local, "q", "1.0.0")
    assert sorted(path.name for path in local.parent.iterdir()) == [".local.toml.lock", "local.toml"]
