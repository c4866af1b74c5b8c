"""Every source becomes a plain tree, or nothing at all."""

from __future__ import annotations

import dataclasses
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from paddock.core.errors import Invalid, OperatorError
from paddock.plugins.package.extract import InstallProgress
from paddock.plugins.package.from_git import GIT_LIMITS
from paddock.plugins.package.rules import PackageLimits
from paddock.plugins.package.source import PackageSource, SourceKind, parse_source
from paddock.plugins.package.stage import stage_package, sweep_staging
from paddock.plugins.package.tree import scan_tree

Git = Callable[..., str]


def refused(source: PackageSource, root: Path, limits: PackageLimits | None = None) -> set[tuple[str, str]]:
    with pytest.raises(Invalid) as caught, stage_package(source, root, limits=limits or PackageLimits()):
        pass
    assert list(root.iterdir()) == []
    return {(problem.path, problem.code) for problem in caught.value.problems}


def test_a_directory_becomes_a_tree_of_plain_files(plugin: Path, tmp_path: Path) -> None:
    (plugin / "code" / "main.py").chmod(0o4600)
    with stage_package(parse_source(str(plugin)), tmp_path / "s") as staged:
        assert staged.tree == scan_tree(staged.root)
        modes = {file.path: stat.S_IMODE((staged.root / file.path).stat().st_mode) for file in staged.tree.files}
        assert modes == {"paddock.yaml": 0o644, "code/main.py": 0o644, "code/run.sh": 0o755}
        assert stat.S_IMODE((staged.root / "code").stat().st_mode) == 0o755
    assert list((tmp_path / "s").iterdir()) == []


def test_a_strict_umask_changes_nothing(plugin: Path, tmp_path: Path) -> None:
    program = (
        "import os, sys; os.umask(0o077)\n"
        "from pathlib import Path\n"
        "from paddock.plugins.package.source import parse_source\n"
        "from paddock.plugins.package.stage import stage_package\n"
        "with stage_package(parse_source(sys.argv[1]), Path(sys.argv[2])) as s:\n"
        "    print(s.tree.digest, oct((s.root / 'code').stat().st_mode & 0o777), "
        "oct((s.root / 'paddock.yaml').stat().st_mode & 0o777))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(plugin), str(tmp_path / "s")], check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == [scan_tree(plugin).digest, "0o755", "0o644"]


def test_repositories_byte_code_and_desktop_droppings_are_left_out(plugin: Path, tmp_path: Path) -> None:
    expected = scan_tree(plugin)
    for name in (".git/config", "code/__pycache__/main.cpython-311.pyc", "code/old.pyc", ".DS_Store"):
        (plugin / name).parent.mkdir(exist_ok=True)
        (plugin / name).write_text("x")
    with stage_package(parse_source(str(plugin)), tmp_path / "s") as staged:
        assert staged.tree == expected


@pytest.mark.req("S-07", "links")
def test_links_and_special_files_in_a_directory_are_all_refused_by_name(plugin: Path, tmp_path: Path) -> None:
    (plugin / "link").symlink_to("/etc/passwd")
    (plugin / "folder-link").symlink_to(tmp_path)
    os.mkfifo(plugin / "code" / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.open(plugin, os.O_RDONLY)
        listener.bind(f"/proc/self/fd/{here}/socket")
        os.close(here)
    names = {"link", "folder-link", "code/pipe", "socket"}
    assert refused(parse_source(str(plugin)), tmp_path / "s") == {(name, "package.not_a_file") for name in names}


def test_case_collisions_in_a_directory_are_refused(plugin: Path, tmp_path: Path) -> None:
    (plugin / "CODE").mkdir()
    (plugin / "CODE" / "x.py").touch()
    (plugin / "Paddock.yaml").touch()
    codes = {code for _, code in refused(parse_source(str(plugin)), tmp_path / "s")}
    assert codes == {"package.collision"}


def test_too_many_files_too_many_bytes_and_no_files_are_refused(tmp_path: Path) -> None:
    many = tmp_path / "many"
    many.mkdir()
    assert refused(parse_source(str(many)), tmp_path / "s") == {("", "package.empty")}
    (many / "big").write_bytes(bytes(1001))
    assert refused(parse_source(str(many)), tmp_path / "s", PackageLimits(total_bytes=1000)) == {
        ("", "package.too_big")
    }
    for number in range(2_000):
        (many / str(number)).touch()
    assert refused(parse_source(str(many)), tmp_path / "s") == {("", "package.too_many_files")}


def test_a_file_that_grows_while_it_is_read_cannot_pass_the_limit(plugin: Path, tmp_path: Path) -> None:
    endless = plugin / "zz-endless"
    endless.write_bytes(bytes(10))

    def grow(progress: InstallProgress) -> None:
        endless.write_bytes(bytes(2_000_000))

    with (
        pytest.raises(Invalid, match="too big"),
        stage_package(parse_source(str(plugin)), tmp_path / "s", grow, limits=PackageLimits(total_bytes=100_000)),
    ):
        pass


def test_a_directory_swapped_for_a_link_while_it_is_walked_leads_nowhere(plugin: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    (plugin / "zz").mkdir()

    def swap(progress: InstallProgress) -> None:
        if not (plugin / "zz").is_symlink():
            (plugin / "zz").rmdir()
            (plugin / "zz").symlink_to(tmp_path / "outside")

    with pytest.raises(Invalid) as caught, stage_package(parse_source(str(plugin)), tmp_path / "s", swap):
        pass
    assert [problem.path for problem in caught.value.problems] == ["zz"]


def test_a_receiver_of_progress_can_stop_the_work(plugin: Path, tmp_path: Path) -> None:
    def stop(progress: InstallProgress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), stage_package(parse_source(str(plugin)), tmp_path / "s", stop):
        pass
    assert list((tmp_path / "s").iterdir()) == []


def test_a_staged_tree_can_be_renamed_away(plugin: Path, tmp_path: Path) -> None:
    with stage_package(parse_source(str(plugin)), tmp_path / "s") as staged:
        staged.root.rename(tmp_path / "kept")
    assert scan_tree(tmp_path / "kept") == staged.tree
    assert list((tmp_path / "s").iterdir()) == []


def test_what_a_killed_owner_left_is_swept_and_what_is_alive_stays(plugin: Path, tmp_path: Path) -> None:
    root = tmp_path / "s"
    program = (
        "import sys; from pathlib import Path\n"
        "from paddock.plugins.package.source import parse_source\n"
        "from paddock.plugins.package.stage import stage_package\n"
        "with stage_package(parse_source(sys.argv[1]), Path(sys.argv[2])) as s:\n"
        "    print(s.root.parent.name, flush=True); sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", program, str(plugin), str(root)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        name = owner.stdout.readline().strip()
        with stage_package(parse_source(str(plugin)), root) as mine:
            assert sweep_staging(root) == ()
            owner.send_signal(signal.SIGKILL)
            owner.wait()
            assert sweep_staging(root) == (name,)
            assert scan_tree(mine.root) == mine.tree
    assert list(root.iterdir()) == []


def test_a_directory_whose_owner_died_before_locking_is_swept(tmp_path: Path) -> None:
    (tmp_path / "s" / "half").mkdir(parents=True)
    assert sweep_staging(tmp_path / "s") == ("half",)
    assert sweep_staging(tmp_path / "nowhere") == ()


@pytest.fixture
def repository(plugin: Path, git: Git) -> Path:
    """Two commits: the first tagged v1 (and v1-light), the second on main; a branch `side` in between."""
    git(plugin, "init", "-q")
    git(plugin, "add", ".")
    git(plugin, "commit", "-qm", "one")
    git(plugin, "tag", "-a", "v1", "-m", "first")
    git(plugin, "tag", "v1-light")
    git(plugin, "branch", "feature/side")
    (plugin / "second.py").touch()
    git(plugin, "add", ".")
    git(plugin, "commit", "-qm", "two")
    return plugin


@pytest.mark.parametrize("ref", ["v1", "v1-light", "feature/side", "refs/tags/v1", "COMMIT", "SHORT"])
def test_git_by_tag_branch_or_commit_gives_the_files_of_that_day(
    ref: str, repository: Path, git: Git, tmp_path: Path
) -> None:
    first = git(repository, "rev-parse", "HEAD~1")
    ref = {"COMMIT": first, "SHORT": first[:8]}.get(ref, ref)
    with stage_package(parse_source(f"git+{repository}#{ref}"), tmp_path / "s") as staged:
        assert staged.source.commit == first
        assert {file.path for file in staged.tree.files} == {"paddock.yaml", "code/main.py", "code/run.sh"}
        assert staged.tree == scan_tree(staged.root)


def test_git_without_a_ref_gives_the_head_and_the_same_digest_as_the_directory(
    repository: Path, git: Git, tmp_path: Path
) -> None:
    with (
        stage_package(parse_source(f"git+{repository}"), tmp_path / "s") as fetched,
        stage_package(parse_source(str(repository)), tmp_path / "s") as copied,
    ):
        assert fetched.source.commit == git(repository, "rev-parse", "HEAD")
        assert fetched.tree == copied.tree


def test_a_repository_in_a_place_with_an_odd_name_is_found(repository: Path, tmp_path: Path) -> None:
    odd = repository.rename(tmp_path / 'my plug-in %41 "ü"')
    with stage_package(parse_source(f"git+{odd}"), tmp_path / "s") as staged:
        assert len(staged.tree.files) == 4


@pytest.mark.parametrize("ref", ["nope", "a" * 40, "abcdef12", "refs/heads/nope"])
def test_a_ref_that_is_not_there_is_told_plainly(ref: str, repository: Path, tmp_path: Path) -> None:
    with pytest.raises(OperatorError) as caught, stage_package(parse_source(f"git+{repository}#{ref}"), tmp_path / "s"):
        pass
    assert caught.value.error_code == "source.bad_ref"


def test_a_hostile_ref_never_reaches_git(repository: Path, tmp_path: Path) -> None:
    source = PackageSource(SourceKind.GIT, repository.as_uri(), f"--upload-pack=touch {tmp_path}/owned")
    with pytest.raises(OperatorError), stage_package(source, tmp_path / "s"):
        pass
    assert not (tmp_path / "owned").exists()


def test_a_protocol_that_runs_programs_is_refused_by_git_itself(tmp_path: Path) -> None:
    source = PackageSource(SourceKind.GIT, f"ext::touch {tmp_path}/owned")
    with pytest.raises(OperatorError), stage_package(source, tmp_path / "s"):
        pass
    assert not (tmp_path / "owned").exists()


def test_links_and_submodules_in_a_repository_are_refused_by_name(repository: Path, git: Git, tmp_path: Path) -> None:
    (repository / "link").symlink_to("/etc/passwd")
    git(repository, "add", ".")
    git(repository, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub")
    git(repository, "commit", "-qm", "hostile")
    found = refused(parse_source(f"git+{repository}"), tmp_path / "s")
    assert found == {("link", "package.not_a_file"), ("sub", "package.not_a_file")}


def test_filters_hooks_and_attributes_of_a_repository_do_not_run(repository: Path, git: Git, tmp_path: Path) -> None:
    (repository / ".gitattributes").write_text("*.py filter=evil ident text eol=crlf export-ignore\n")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "filters")
    git(repository, "config", "filter.evil.smudge", f"touch {tmp_path}/owned")
    git(repository, "config", "uploadpack.packObjectsHook", f"touch {tmp_path}/owned;")
    with stage_package(parse_source(f"git+{repository}"), tmp_path / "s") as staged:
        assert (staged.root / "code" / "main.py").read_bytes() == b"print('hello')\n"
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize("ending", ["timeout", "cancelled"])
def test_git_that_hangs_or_is_cancelled_is_killed_with_all_its_children(
    ending: str, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    # The grandchild holds the pipe open until it is killed too.
    (programs / "git").write_text(f"#!/bin/sh\nsleep 1000 3>{tmp_path}/alive &\nwait\n")
    (programs / "git").chmod(0o755)
    os.mkfifo(tmp_path / "alive")
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    started, ended = threading.Event(), threading.Event()

    def watch() -> None:
        with (tmp_path / "alive").open("rb") as pipe:
            started.set()
            pipe.read()
        ended.set()

    def when_started(progress: InstallProgress) -> None:
        assert started.wait(30)
        if ending == "cancelled":
            raise KeyboardInterrupt

    threading.Thread(target=watch, daemon=True).start()
    expected = KeyboardInterrupt if ending == "cancelled" else OperatorError
    with (
        pytest.raises(expected),
        stage_package(
            parse_source(f"git+{repository}"),
            tmp_path / "s",
            when_started,
            git_limits=dataclasses.replace(GIT_LIMITS, timeout_s=0.1),
        ),
    ):
        pass
    assert ended.wait(30)
    assert list((tmp_path / "s").iterdir()) == []


def test_a_repository_that_is_far_too_big_is_cut_off_while_it_is_fetched(
    repository: Path, git: Git, tmp_path: Path
) -> None:
    (repository / "noise").write_bytes(os.urandom(4_000_000))
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "big")
    with (
        pytest.raises(OperatorError) as caught,
        stage_package(
            parse_source(f"git+{repository}"),
            tmp_path / "s",
            git_limits=dataclasses.replace(GIT_LIMITS, file_bytes=1_000_000),
        ),
    ):
        pass
    assert caught.value.error_code == "git.failed"
    assert refused(parse_source(f"git+{repository}"), tmp_path / "s", PackageLimits(total_bytes=1_000_000)) == {
        ("", "package.too_big")
    }


def test_a_machine_without_git_is_told_what_to_type(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OperatorError) as caught, stage_package(parse_source(f"git+{repository}"), tmp_path / "s"):
        pass
    assert caught.value.hint == "apt install git"
