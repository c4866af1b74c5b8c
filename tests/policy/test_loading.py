"""The rules of a machine: the shipped ones and a folder of one's own that nobody else can write."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.policy.rulebook import CALL, policy_of, rule

from paddock.config.directories import Directories
from paddock.config.settings import PolicySettings
from paddock.core.errors import Invalid, OperatorError, PaddockError, Unreachable
from paddock.policy.load import load_policy, read_rule_folder, rules_fingerprint

OWN = rule("own", f'permit({CALL}) when {{ resource.tags.contains(Tag::"mine") }}')


@pytest.fixture
def home(tmp_path: Path) -> Directories:
    tmp_path.chmod(0o700)
    return Directories(*(tmp_path / name for name in ("config", "data", "state", "cache", "run")))


def write(folder: Path, name: str = "own.cedar", text: str = OWN) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = folder / name
    file.write_text(text)
    file.chmod(0o600)
    return file


def test_without_a_folder_the_shipped_rules_hold(home: Directories) -> None:
    assert load_policy(home, PolicySettings()).version == policy_of(shipped=True).version


def test_the_usual_folder_is_read_with_its_files_in_order_and_nothing_else_in_it(home: Directories) -> None:
    folder = home.config / "policies"
    for name in ("b.cedar", "a.cedar"):
        write(folder, name, rule(name[0], f"permit({CALL})"))
    write(folder, ".hidden.cedar", "nonsense")
    write(folder, "notes.txt", "nonsense")
    write(folder / "deeper", text="nonsense")

    rules = load_policy(home, PolicySettings()).rules.rules

    assert [one.id for one in rules if one.origin != "shipped"] == ["a", "b"]


def test_settings_name_another_folder_and_tags_of_ones_own(home: Directories, tmp_path: Path) -> None:
    write(tmp_path / "rules")

    policy = load_policy(home, PolicySettings(directory=str(tmp_path / "rules"), tags=("mine",)))

    assert policy.rules.by_id["own"].origin == str(tmp_path / "rules" / "own.cedar")


def test_a_folder_that_a_setting_names_must_be_there(home: Directories, tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match=r"which policy\.directory names"):
        load_policy(home, PolicySettings(directory=str(tmp_path / "nowhere")))


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_rules_that_others_could_have_written_do_not_decide(home: Directories, mode: int) -> None:
    write(home.config / "policies").chmod(mode)

    with pytest.raises(OperatorError, match="others can write") as told:
        load_policy(home, PolicySettings(tags=("mine",)))

    assert told.value.hint.startswith("chmod go-w ")


def test_a_folder_that_others_can_write_is_refused(home: Directories) -> None:
    write(home.config / "policies").parent.chmod(0o770)

    with pytest.raises(OperatorError, match="can be written by others"):
        load_policy(home, PolicySettings(tags=("mine",)))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_rules_of_another_user_do_not_decide(home: Directories) -> None:
    os.chown(write(home.config / "policies"), 12345, -1)

    with pytest.raises(OperatorError, match="belongs to user 12345"):
        load_policy(home, PolicySettings(tags=("mine",)))


def test_a_file_that_is_not_text_is_told_with_its_line(tmp_path: Path) -> None:
    write(tmp_path).write_bytes(b"// fine\n// \xff\n")

    with pytest.raises(Invalid) as told:
        read_rule_folder(tmp_path, guarded=False)

    assert [(one.message, one.line) for one in told.value.problems] == [("is not UTF-8 text", 2)]


def test_what_is_no_file_does_not_hold_us_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.cedar")

    with pytest.raises(PaddockError, match="is not an ordinary file"):
        read_rule_folder(tmp_path, guarded=False)


def test_a_glance_tells_whether_somebody_touched_the_rules(home: Directories) -> None:
    looks = [rules_fingerprint(home, PolicySettings())]
    file = write(home.config / "policies")
    looks.append(rules_fingerprint(home, PolicySettings()))
    file.write_text(OWN + "// more")
    looks.append(rules_fingerprint(home, PolicySettings()))
    file.chmod(0o644)
    looks.append(rules_fingerprint(home, PolicySettings()))
    file.unlink()
    looks.append(rules_fingerprint(home, PolicySettings()))

    assert rules_fingerprint(home, PolicySettings()) == looks[-1]
    assert all(looks[index] != looks[index + 1] for index in range(len(looks) - 1))
    assert "no folder" in str(rules_fingerprint(home, PolicySettings(directory="/nowhere/at/all")))
