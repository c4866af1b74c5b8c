"""What `paddock doctor` finds, on machines that are really broken in the way described."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.commands import SOURCE, Paddock
from fixtures.packages import native
from paddock.cage.cgroups.discovery import CgroupView, find_locations
from paddock.cage.probe import diagnose_bwrap, diagnose_namespace
from paddock.core.action import Action
from paddock.host.doctor.cage_checks import (
    check_bubblewrap,
    check_cage_launch,
    check_cgroups,
    check_landlock,
    check_seccomp,
)
from paddock.host.doctor.check import Check, CheckStatus, exit_status, text_lines, to_json
from paddock.host.doctor.run import check_machine, run_probes
from paddock.host.doctor.system_checks import check_git, check_python, evaluate_disk
from paddock.store.lock import StoreLock


@pytest.fixture
def programs() -> Iterator[Path]:
    """A directory for programs that any user may run; pytest's own is private to us."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory)
        path.chmod(0o755)
        yield path


def put_program(directory: Path, name: str, script: str) -> None:
    (directory / name).write_text(f"#!/bin/sh\n{script}\n")
    (directory / name).chmod(0o755)


def look(home: Path, **environ: str) -> dict[str, Check]:
    found = check_machine({"PATH": os.environ["PATH"], "PADDOCK_HOME": str(home), **environ}, home)
    return {check.name: check for check in found}


def test_everything_is_looked_at_and_a_fresh_home_is_fine_and_stays_untouched(tmp_path: Path) -> None:
    found = look(tmp_path / "home")
    assert list(found) == [
        "settings", "Python", "SQLite", "disk", "permissions", "bubblewrap", "user namespaces",
        "seccomp", "Landlock", "cgroups", "cage", "plugins", "configuration", "secrets", "effects", "ledger", "rules",
        "ledger anchors", "git", "node",
    ]  # fmt: skip
    assert {found[name].status for name in ("settings", "Python", "SQLite", "permissions", "git")} == {CheckStatus.OK}
    assert list(tmp_path.iterdir()) == []


def test_a_first_cage_is_really_built() -> None:
    assert check_bubblewrap({"PATH": os.environ["PATH"]}).status is CheckStatus.OK


def test_a_plugin_is_really_started_in_a_cage_as_the_daemon_would() -> None:
    found = check_cage_launch({"PATH": os.environ["PATH"]})
    assert (found.status, found.found) == (CheckStatus.OK, "a plugin was started in one, and ended"), found


def test_a_root_daemon_that_may_not_mount_is_found_out_though_each_wall_is_fine() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can be a root that may not mount")
    script = "import os; from paddock.host.doctor.cage_checks import check_cage_launch as c; print(c(os.environ).code)"
    ran = subprocess.run(
        ["setpriv", "--bounding-set=-sys_admin", "--", sys.executable, "-c", script],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCE)},
        stdout=subprocess.PIPE,
        timeout=60,
        check=True,
    )
    assert ran.stdout.decode().strip() == "cage.staging_failed"


def test_a_machine_without_bubblewrap_is_told_what_to_type(tmp_path: Path) -> None:
    found = look(tmp_path, PATH=str(tmp_path))
    assert found["bubblewrap"].status is CheckStatus.FAIL
    assert found["bubblewrap"].code == "cage.bwrap_missing"
    assert found["cage"].status is CheckStatus.WARN, "and is told so once"
    assert "apt install bubblewrap" in found["bubblewrap"].fix
    assert (found["git"].status, found["node"].status) == (CheckStatus.WARN, CheckStatus.WARN)
    assert exit_status(list(found.values())) == 1


def test_a_bubblewrap_that_is_too_old_is_refused_with_its_version(programs: Path) -> None:
    put_program(programs, "bwrap", "echo bubblewrap 0.6.2")
    found = check_bubblewrap({"PATH": str(programs)})
    assert (found.status, found.code) == (CheckStatus.FAIL, "cage.bwrap_old")
    assert "0.6.2" in found.found


def test_a_bubblewrap_that_says_nonsense_cannot_hurt_the_terminal(programs: Path) -> None:
    put_program(programs, "bwrap", r"printf '\033[2J\007gone\n'; exit 3")
    found = check_bubblewrap({"PATH": str(programs)})
    assert found.status is CheckStatus.FAIL
    assert all(line.isprintable() for line in text_lines([found]))


@pytest.mark.parametrize(
    ("complaint", "code"),
    [
        ("bwrap: setting up uid map: Permission denied", "cage.userns_apparmor"),
        ("bwrap: Failed to make / slave: Permission denied", "cage.container_mount"),
        ("bwrap: Creating new namespace failed, max_*_namespaces exceeded", "cage.userns_disabled"),
        ("bwrap: something new", "cage.bwrap_failed"),
    ],
)
def test_a_cage_that_cannot_be_built_is_explained(programs: Path, complaint: str, code: str) -> None:
    put_program(
        programs, "bwrap", f'[ "$1" = --version ] && exec echo bubblewrap 0.9.0\necho "{complaint}" >&2; exit 1'
    )
    found = check_bubblewrap({"PATH": str(programs)})
    assert (found.status, found.code, diagnose_bwrap(complaint)) == (CheckStatus.FAIL, code, code)
    assert complaint in found.found
    assert found.fix


@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs util-linux")
def test_a_machine_with_user_namespaces_turned_off_is_recognised() -> None:
    # Inside a namespace of our own the switch really is off, and the machine outside does not notice.
    script = (
        "from paddock.host.doctor.cage_checks import check_user_namespaces;"
        " c = check_user_namespaces(); print(c.status, c.code, c.fix, sep='|')"
    )
    inside = f'echo 0 > /proc/sys/user/max_user_namespaces && exec "{sys.executable}" -c "{script}"'
    ran = subprocess.run(
        ["unshare", "--user", "--map-root-user", "sh", "-c", inside],
        env={"PYTHONPATH": str(SOURCE), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if ran.returncode:
        pytest.skip(f"no user namespace to try in: {ran.stderr.strip()}")
    status, code, fix = ran.stdout.strip().split("|")
    assert (status, code) == ("fail", "cage.userns_disabled")
    assert fix == "sudo sysctl -w user.max_user_namespaces=15000"


@pytest.mark.parametrize(
    ("step", "error", "sysctls", "code"),
    [
        ("unshare", 1, {"user/max_user_namespaces": "0"}, "cage.userns_disabled"),
        ("unshare", 28, {}, "cage.userns_disabled"),
        ("unshare", 1, {"kernel/unprivileged_userns_clone": "0"}, "cage.userns_forbidden"),
        ("map", 13, {"kernel/apparmor_restrict_unprivileged_userns": "1"}, "cage.userns_apparmor"),
        ("mount", 13, {}, "cage.container_mount"),
    ],
)
def test_each_way_a_namespace_fails_has_its_code(step: str, error: int, sysctls: dict[str, str], code: str) -> None:
    assert diagnose_namespace(step, error, sysctls) == code


def test_the_kernel_is_asked_about_its_other_walls() -> None:
    assert check_seccomp().status is CheckStatus.OK
    assert check_landlock().status in (CheckStatus.OK, CheckStatus.WARN)


def cgroup_view(mounts: str, membership: str, controllers: set[str], *, writable: bool) -> CgroupView:
    return CgroupView(mounts, membership, lambda _: controllers, lambda _: writable)


def held(view: CgroupView) -> dict[str, str]:
    return {resource: place.mechanism for resource, place in find_locations(view).items()}


def test_cgroups_are_named_resource_by_resource() -> None:
    unified = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0"
    hybrid = (
        "cgroup /c/memory cgroup rw,memory 0 0\ncgroup2 /c/unified cgroup2 rw 0 0\ncgroup /c/pids cgroup rw,pids 0 0"
    )
    delegated = cgroup_view(unified, "0::/user.slice/me", {"memory", "pids", "cpu", "io"}, writable=True)
    assert held(delegated) == {"memory": "cgroup v2", "pids": "cgroup v2", "cpu": "cgroup v2"}
    assert held(cgroup_view(hybrid, "0::/", {"pids"}, writable=True)) == {"memory": "cgroup v1", "pids": "cgroup v2"}
    foreign = check_cgroups(cgroup_view(unified, "0::/", {"memory", "pids", "cpu"}, writable=False))
    assert foreign.status is CheckStatus.WARN
    assert "memory by rlimits and a watchdog" in foreign.found
    assert "cpu by niceness" in foreign.found
    assert "limits.cpu_quota) is not kept" in foreign.why
    delegated = (Action.of("daemon.start_delegated"),)
    assert check_cgroups(cgroup_view("", "", set(), writable=False)).actions == delegated


def test_a_quota_is_said_to_be_lost_only_where_nothing_keeps_it() -> None:
    only_cpu = check_cgroups(cgroup_view("cgroup /c/cpu cgroup rw,cpu 0 0", "1:cpu:/", set(), writable=True))
    assert (only_cpu.status, "cpu_quota" in only_cpu.why) == (CheckStatus.WARN, False)


def test_a_group_that_is_shared_with_others_is_not_said_to_hold_anything() -> None:
    shared = CgroupView(
        "cgroup2 /c cgroup2 rw 0 0", "0::/me", lambda _: {"memory", "pids", "cpu"}, lambda _: True, lambda _: True
    )
    found = check_cgroups(shared)
    assert found.status is CheckStatus.WARN
    assert "memory by rlimits and a watchdog" in found.found
    assert "others share the group /c/me" in found.found


def test_a_local_file_that_others_can_read_fails_and_the_printed_line_mends_it(tmp_path: Path) -> None:
    home = tmp_path / "my home"
    (home / "data").mkdir(parents=True, mode=0o700)
    home.chmod(0o700)
    for path in (home / "local.toml", home / "data" / "paddock.db"):
        path.write_text("")
        path.chmod(0o644)
    (home / "data").chmod(0o777)
    found = look(home)["permissions"]
    assert found.status is CheckStatus.FAIL
    assert found.found.count("has mode") == 3
    subprocess.run(["sh", "-c", found.fix], check=True)
    assert look(home)["permissions"].status is CheckStatus.OK
    assert (home / "local.toml").stat().st_mode & 0o777 == 0o600


def test_wrong_settings_are_a_finding_with_every_mistake(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[limits]\npids = 0\nmemory = 3\n")
    found = look(tmp_path)["settings"]
    assert found.status is CheckStatus.FAIL
    first, second = found.details
    assert "limits.pids (line 2)" in first
    assert "did you mean limits.memory_mb?" in second
    assert found.found == "the settings have 2 mistakes"
    assert found.fix == f"$EDITOR {tmp_path / 'config.toml'}"
    assert sum(line.lstrip().startswith("- ") for line in text_lines([found])) == 2
    assert look(tmp_path, PADDOCK_HOME="relative")["settings"].status is CheckStatus.FAIL


def test_the_line_to_type_names_the_file_or_the_variable_with_the_mistake(tmp_path: Path) -> None:
    (tmp_path / "local.toml").write_text("[plugins.weather]\n[plugins.weather]\n")
    (tmp_path / "local.toml").chmod(0o600)
    found = look(tmp_path)["settings"]
    assert "line 2" in found.found and "twice" in found.found
    assert found.fix == f"$EDITOR {tmp_path / 'local.toml'}"
    (tmp_path / "local.toml").write_text("")
    assert look(tmp_path, PADDOCK_LIMITS_PIDS="many")["settings"].fix == "unset PADDOCK_LIMITS_PIDS"


def test_modified_plugins_are_a_finding_with_the_line_that_restores_them(tmp_path: Path) -> None:
    paddock = Paddock(tmp_path / "home")
    assert look(paddock.home)["plugins"].found == "none are installed"
    assert not paddock.home.exists()
    paddock.quickly("plugin", "install", native(tmp_path / "notes"), "--yes")
    assert look(paddock.home)["plugins"].status is CheckStatus.OK
    (paddock.trees / "notes" / "1.0.0" / "run.sh").write_text("#!/bin/sh\n")
    found = look(paddock.home)["plugins"]
    assert (found.status, found.code) == (CheckStatus.WARN, "plugin.modified")
    assert found.actions == (Action.of("plugin.repair", plugin="notes"),)
    assert "notes" in found.found


def test_a_store_that_a_daemon_holds_is_looked_at_beside_it(tmp_path: Path) -> None:
    paddock = Paddock(tmp_path / "home")
    paddock.quickly("plugin", "list")
    lock = StoreLock.take(paddock.home / "data", "daemon")
    try:
        found = look(paddock.home)["plugins"]
    finally:
        lock.release()
    assert found.status is CheckStatus.OK


def test_looks_side_by_side_do_not_lock_each_other_out_of_a_store_that_has_to_be_brought_up_to_date(
    tmp_path: Path,
) -> None:
    database = tmp_path / "home" / "data" / "paddock.db"
    database.parent.mkdir(parents=True, mode=0o700)
    database.touch(0o600)
    found = look(tmp_path / "home")
    assert [name for name, one in found.items() if "could not be checked" in one.found] == []


def test_the_report_fits_a_narrow_terminal_and_keeps_lines_to_type_whole() -> None:
    long = "word " * 30
    lines = text_lines([Check("name", CheckStatus.WARN, long, long, "type " * 30, details=(long, long))], 60)
    assert all(len(line) <= 60 for line in lines if "→" not in line)
    assert sum("→" in line for line in lines) == 1


def test_a_data_directory_that_cannot_hold_a_database_fails() -> None:
    found = {check.name: check for check in check_machine({"PADDOCK_HOME": "/proc/self", "PATH": ""}, Path("/"))}
    assert found["SQLite"].status is CheckStatus.FAIL


@pytest.mark.parametrize(
    ("free", "status"),
    [
        (1 << 30, CheckStatus.OK),
        ((1 << 30) - 1, CheckStatus.WARN),
        (100 << 20, CheckStatus.WARN),
        ((100 << 20) - 1, CheckStatus.FAIL),
    ],
)
def test_little_room_is_a_warning_and_hardly_any_a_failure(free: int, status: CheckStatus) -> None:
    assert evaluate_disk(free, Path("/")).status is status


def test_an_old_python_is_told_what_to_type() -> None:
    assert check_python((3, 10, 9)).status is CheckStatus.FAIL
    assert "apt install python3.11" in check_python((3, 10, 9)).fix


def test_postgresql_is_looked_at_only_when_it_is_the_store_and_its_password_stays_hidden(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    found = look(tmp_path, PADDOCK_STORE_URL=f"postgresql://ada:hunter2@127.0.0.1:{port}/paddock")
    assert found["PostgreSQL"].status is CheckStatus.FAIL
    broken = look(tmp_path, PADDOCK_STORE_URL="postgresql://ada:hunter2@[oops/paddock?nonsense=hunter2")
    assert broken["PostgreSQL"].status is CheckStatus.FAIL
    assert "hunter2" not in json.dumps(to_json([*found.values(), *broken.values()]))


def test_a_postgresql_server_that_answers_is_fine(tmp_path: Path, postgres_address: str) -> None:
    found = look(tmp_path, PADDOCK_STORE_URL=postgres_address)["PostgreSQL"]
    assert found.status is CheckStatus.OK, found.found


def test_a_probe_that_breaks_or_hangs_is_one_failed_check_and_the_others_still_answer() -> None:
    release = threading.Event()

    def breaks() -> Check:
        raise RuntimeError("\x1b[31mno")

    def hangs() -> Check:
        release.wait(30)
        return Check("hangs", CheckStatus.OK, "late")

    try:
        found = run_probes(
            [("hangs", hangs), ("breaks", breaks), ("fine", lambda: Check("fine", CheckStatus.OK, "yes"))], 0.5
        )
    finally:
        release.set()
    assert [check.status for check in found] == [CheckStatus.FAIL, CheckStatus.FAIL, CheckStatus.OK]
    assert "did not answer" in found[0].found
    assert found[1].code == "doctor.probe"
    assert all(line.isprintable() for line in text_lines(found))


def test_a_program_that_never_stops_talking_is_cut_short(programs: Path) -> None:
    put_program(programs, "git", "exec yes")
    found = check_git({"PATH": f"{programs}:{os.environ['PATH']}"})
    assert found.status is CheckStatus.WARN
    assert found.found.endswith("printed more than 65536 bytes")


def test_the_report_says_why_and_what_to_type_only_where_something_is_wrong() -> None:
    checks = [
        Check("a", CheckStatus.OK, "fine", "why not", "nothing"),
        Check("bcd", CheckStatus.WARN, "hm", "because", "type this"),
    ]
    assert text_lines(checks) == [
        "ok    a    fine",
        "warn  bcd  hm",
        "           because",
        "           → type this",
        "",
        "1 fine, 1 to look at, 0 failed",
    ]
    assert to_json(checks)["ok"] is True
    assert to_json(checks)["checks"][1] == {
        "name": "bcd", "status": "warn", "found": "hm", "why": "because", "fix": "type this", "code": "", "details": [],
        "actions": [],
    }  # fmt: skip
    assert exit_status(checks) == 0
