"""How a root daemon shows trees to plugins that are nobody."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.cage.daemons import FOREVER, Daemon, open_daemon, running

from paddock.host.doctor.cage_checks import check_landlock
from paddock.host.doctor.check import CheckStatus


def test_a_tree_that_only_root_can_reach_is_read_and_written_and_stays_roots(root_daemon: Daemon) -> None:
    tree = root_daemon.folder / "private" / "tree"
    tree.mkdir(parents=True, mode=0o700)
    tree.parent.chmod(0o700)
    (tree / "old").write_text("old")
    (tree / "old").chmod(0o600)
    script = f"""
from pathlib import Path
tree = Path({str(tree)!r})
(tree / "new").write_text((tree / "old").read_text() + " and new")
print("ready", flush=True)
"""
    number = running(root_daemon, script, f"write:fs:{tree}", f"read:fs:{tree}")
    assert root_daemon.tell("end", number=number)["code"] == 0
    assert (tree / "new").read_text() == "old and new"
    assert (tree / "new").stat().st_uid == os.geteuid()


def test_a_tree_that_cannot_be_shown_under_another_owner_is_refused_with_a_hint() -> None:
    with open_daemon(prepare='mkdir "$1/odd" && mount -t ramfs none "$1/odd"') as daemon:
        tree = daemon.folder / "odd"
        refused = daemon.refusal(FOREVER, f"write:fs:{tree}")
        assert refused["refused"] == "cage.idmap_unsupported"
        assert str(tree) in refused["message"]
        assert "65534" in refused["hint"]
        running(daemon)


def test_what_is_written_below_a_mount_in_a_granted_tree_reaches_the_file_system_that_is_mounted_there() -> None:
    with open_daemon(prepare='mkdir -p "$1/tree/disk" && mount -t tmpfs none "$1/tree/disk"') as daemon:
        tree = daemon.folder / "tree"
        script = f"""
from pathlib import Path
Path({str(tree / "disk" / "new")!r}).write_text("kept")
print("ready", flush=True)
"""
        number = running(daemon, script, f"write:fs:{tree}")
        assert daemon.tell("end", number=number)["code"] == 0
        mounted = Path(f"/proc/{daemon.process.pid}/root{tree}/disk/new")
        assert (mounted.read_text(), mounted.stat().st_uid) == ("kept", os.geteuid())


def test_a_tree_in_which_something_is_mounted_that_cannot_be_shown_is_refused_as_well() -> None:
    with open_daemon(prepare='mkdir -p "$1/tree/odd" && mount -t ramfs none "$1/tree/odd"') as daemon:
        refused = daemon.refusal(FOREVER, f"write:fs:{daemon.folder / 'tree'}")
        assert refused["refused"] == "cage.idmap_unsupported"
        assert str(daemon.folder / "tree") in refused["message"]
        running(daemon)


# A mount namespace like a machine's own, whose mounts reach those who listen; of the test alone all the same.
LIKE_A_MACHINE = 'mount --make-rshared / && mkdir -p "$1/tree/inner"'


def test_a_disk_that_is_mounted_while_the_warden_runs_is_shown_to_the_next_plugin_and_not_kept_when_it_goes() -> None:
    with open_daemon(prepare=LIKE_A_MACHINE) as daemon:
        running(daemon)
        tree = daemon.folder / "tree"
        on_the_machine(daemon, f"mount -t tmpfs none {tree} && echo from the disk > {tree}/note")
        script = f"print(open({str(tree / 'note')!r}).read(), end='', flush=True)"
        number = daemon.launch(script, f"read:fs:{tree}")
        assert daemon.tell("line", number=number) == "from the disk"
        assert daemon.tell("end", number=number)["code"] == 0
        on_the_machine(daemon, f"umount {tree}")
        assert str(tree) not in Path(f"/proc/{daemon.warden}/mounts").read_text()


def test_what_the_warden_mounts_is_not_seen_by_the_machine() -> None:
    with open_daemon(prepare=LIKE_A_MACHINE) as daemon:
        daemon.tell("descriptors")  # it is where it is to be
        before = Path(f"/proc/{daemon.process.pid}/mounts").read_text()
        running(daemon)
        assert "paddock-cages-" in Path(f"/proc/{daemon.warden}/mounts").read_text()
        assert Path(f"/proc/{daemon.process.pid}/mounts").read_text() == before


def test_what_is_mounted_later_in_a_granted_tree_does_not_come_into_a_cage_that_stands() -> None:
    with open_daemon(prepare=LIKE_A_MACHINE) as daemon:
        inner = daemon.folder / "tree" / "inner"
        script = f"import os\nprint('ready', flush=True)\ninput()\nprint(os.listdir({str(inner)!r}), flush=True)"
        number = running(daemon, script, f"read:fs:{daemon.folder / 'tree'}")
        on_the_machine(daemon, f"mount -t tmpfs none {inner} && touch {inner}/late")
        daemon.tell("write", number=number, text="go\n")
        assert daemon.tell("line", number=number) == "[]"


def test_for_an_ordinary_daemon_it_does_come_and_landlock_keeps_it_from_being_written_to() -> None:
    if os.geteuid() != 0 or check_landlock().status is not CheckStatus.OK:
        pytest.skip("only root can mount, and not every kernel has Landlock")
    # Not below /tmp, where Landlock lets a plugin write.
    machine = "mount --make-rshared / && mount -t tmpfs none /srv && mkdir -p /srv/tree/inner"
    script = """
import os
print("ready", flush=True)
input()
try: open("/srv/tree/inner/new", "w")
except OSError as error: print(os.listdir("/srv/tree/inner"), type(error).__name__, flush=True)
"""
    with open_daemon(prepare=machine, ordinary=True) as daemon:
        number = running(daemon, script, "read:fs:/srv/tree")
        on_the_machine(daemon, "mount -t tmpfs -o mode=1777 none /srv/tree/inner && touch /srv/tree/inner/late")
        daemon.tell("write", number=number, text="go\n")
        assert daemon.tell("line", number=number) == "['late'] PermissionError"


def on_the_machine(daemon: Daemon, line: str) -> None:
    """Have a shell do something in the mount namespace that the daemon is in."""
    subprocess.run(["nsenter", "--mount", "--target", str(daemon.process.pid), "sh", "-ec", line], check=True)


@pytest.mark.parametrize(
    "unusable",
    [
        "mount -t tmpfs -o ro none /run",
        "mount -t tmpfs -o mode=700 none /run",
        # Nothing can be made anywhere: something empty is covered.
        'mount -t tmpfs -o ro none /run && mount --bind "$1" "$1" && mount --rbind /tmp /tmp'
        " && mount -o remount,bind,ro /tmp && mount --bind /var/tmp /var/tmp && mount -o remount,bind,ro /var/tmp"
        " && mount -t tmpfs none /mnt",
    ],
)
def test_a_root_daemon_starts_plugins_where_run_cannot_be_used_and_leaves_nothing_behind(unusable: str) -> None:
    with open_daemon(prepare=unusable) as daemon:
        assert daemon.tell("end", number=running(daemon, "print('ready', flush=True)"))["code"] == 0
        warden = daemon.warden
    for place in ("/run", "/tmp", "/var/tmp"):
        assert not Path(f"{place}/paddock-cages-{warden}").exists()


def test_a_root_daemon_that_may_not_mount_says_so_every_time_and_what_to_do() -> None:
    with open_daemon(prepare='shift && exec setpriv --bounding-set=-sys_admin -- "$@"') as daemon:
        for _ in range(7):
            refused = daemon.refusal(FOREVER)
            assert refused["refused"] == "cage.staging_failed"
            assert "CAP_SYS_ADMIN" in refused["hint"]
