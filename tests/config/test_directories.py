from __future__ import annotations

import os
from pathlib import Path

import pytest

from paddock.config.directories import create_directories, find_directories, wrong_owner_hint
from paddock.core.errors import OperatorError

HOME = Path("/home/ada")


def test_with_paddock_home_everything_stands_below_it() -> None:
    found = find_directories({"PADDOCK_HOME": "/srv/paddock", "XDG_DATA_HOME": "/elsewhere"}, HOME)
    assert found.config_file == Path("/srv/paddock/config.toml")
    assert found.local_file == Path("/srv/paddock/local.toml")
    assert [path.name for path in found.all()] == ["paddock", "data", "state", "cache", "run"]
    assert all(path.is_relative_to("/srv/paddock") for path in found.all())


def test_without_it_the_xdg_places_are_used() -> None:
    found = find_directories({"PADDOCK_HOME": "", "XDG_DATA_HOME": "/data", "XDG_RUNTIME_DIR": "/run/user/7"}, HOME)
    assert found.config == Path("/home/ada/.config/paddock")
    assert found.data == Path("/data/paddock")
    assert found.state == Path("/home/ada/.local/state/paddock")
    assert found.cache == Path("/home/ada/.cache/paddock")
    assert found.run == Path("/run/user/7/paddock")


def test_a_relative_xdg_place_is_ignored_and_no_runtime_directory_means_the_state_directory() -> None:
    found = find_directories({"XDG_CACHE_HOME": "cache"}, HOME)
    assert found.cache == Path("/home/ada/.cache/paddock")
    assert found.run == found.state / "run"


def test_a_relative_home_is_refused_because_two_commands_could_mean_two_places() -> None:
    with pytest.raises(OperatorError) as refused:
        find_directories({"PADDOCK_HOME": "here"}, HOME)
    assert refused.value.error_code == "config.home_relative"
    assert "PADDOCK_HOME" in refused.value.hint


def test_directories_are_made_private_whatever_the_umask(tmp_path: Path) -> None:
    directories = find_directories({"PADDOCK_HOME": str(tmp_path / "new" / "home")}, HOME)
    before = os.umask(0)
    try:
        create_directories(directories)
        create_directories(directories)
    finally:
        os.umask(before)
    assert {oct(path.stat().st_mode & 0o777) for path in directories.all()} == {"0o700"}


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_home_that_others_can_write_is_refused_with_the_line_to_type(tmp_path: Path, mode: int) -> None:
    home = tmp_path / "it's here"
    home.mkdir()
    home.chmod(mode)
    with pytest.raises(OperatorError) as refused:
        create_directories(find_directories({"PADDOCK_HOME": str(home)}, HOME))
    assert refused.value.error_code == "config.home_writable"
    assert os.waitstatus_to_exitcode(os.system(refused.value.hint)) == 0
    create_directories(find_directories({"PADDOCK_HOME": str(home)}, HOME))


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a directory away needs root")
def test_a_home_of_someone_else_is_refused(tmp_path: Path) -> None:
    os.chown(tmp_path, 4711, -1)
    with pytest.raises(OperatorError) as refused:
        create_directories(find_directories({"PADDOCK_HOME": str(tmp_path)}, HOME))
    assert refused.value.error_code == "config.home_foreign"
    assert refused.value.hint.startswith("run it as user 4711: sudo -u '#4711' paddock")
    assert "chown" not in refused.value.hint


def test_what_root_left_behind_is_taken_back_and_nothing_else_is_taken() -> None:
    place = Path("/home/ada/.config/paddock")
    assert wrong_owner_hint(0, place, user=1000) == "sudo chown -R 1000 /home/ada/.config/paddock"
    assert wrong_owner_hint(1001, place, user=1000).startswith("run it as user 1001: ")
    assert wrong_owner_hint(1001, place, user=0).startswith("run it as user 1001: ")


def test_a_file_in_the_place_of_a_directory_is_an_error_and_not_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(OperatorError) as refused:
        create_directories(find_directories({"PADDOCK_HOME": str(tmp_path)}, HOME))
    assert refused.value.error_code == "config.home_unusable"
