"""Attempts to see or change files of the host: what a cage shows, and that it stays as it is."""

from __future__ import annotations

import ctypes
import os
import stat
from contextlib import suppress

from .trying import Facts, Room, checked, libc

room = Room()


def _read(path: str) -> str:
    with open(path, "rb") as file:
        return file.read(300).decode("utf-8", "replace")


def _first(*paths: str) -> str | None:
    """What the first of these that can be read says."""
    for path in paths:
        with suppress(OSError):
            return _read(path)
    return None


def _create(path: str) -> str:
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o644))
    os.unlink(path)
    return f"created {path}"


@room.attempt("read the password file of the host")
def _(facts: Facts) -> str | None:
    text = _read("/etc/passwd")
    return text if "root:" in text else None


@room.attempt("read the shadow passwords")
def _(facts: Facts) -> str | None:
    return os.stat("/etc/shadow") and "there it is"


@room.attempt("look into root's home")
def _(facts: Facts) -> str | None:
    return str(os.stat("/root"))


@room.attempt("look into the homes of the users")
def _(facts: Facts) -> str | None:
    return str(os.listdir("/home"))


@room.attempt("learn the names of keys of the user it runs as")
def _(facts: Facts) -> str | None:
    with open("/proc/keys", "rb") as file:
        keys = file.read().decode("utf-8", "replace")
    return keys if facts["key_name"] in keys else None


@room.attempt("read a world-readable file of the host")
def _(facts: Facts) -> str | None:
    return _read(facts["secret_file"])


@room.attempt("read it through the root of its own process")
def _(facts: Facts) -> str | None:
    return _read(f"/proc/self/root{facts['secret_file']}")


@room.attempt("climb out of its working directory")
def _(facts: Facts) -> str | None:
    return _read("../" * 40 + facts["secret_file"].lstrip("/"))


@room.attempt("read another plugin's program")
def _(facts: Facts) -> str | None:
    return _read(facts["neighbour_file"])


@room.attempt("list the other plugins")
def _(facts: Facts) -> str | None:
    around = os.path.dirname(facts["own_folder"])
    others = [name for name in os.listdir(around) if name != os.path.basename(facts["own_folder"])]
    return str(others) if others else None


@room.attempt("read the host's kernel objects below /sys")
def _(facts: Facts) -> str | None:
    return str(os.listdir("/sys"))


@room.attempt("find the control groups")
def _(facts: Facts) -> str | None:
    for path in ("/sys/fs/cgroup", "/cgroup", "/run/cgroup"):
        with suppress(OSError):
            return str(os.listdir(path))
    return None


@room.attempt("find the sockets of the host's services below /run")
def _(facts: Facts) -> str | None:
    return str(os.listdir("/run"))


@room.attempt("read the orders that built its walls")
def _(facts: Facts) -> str | None:
    return _first("/.cage/orders", "/.cage/0", "/.cage/1")


@room.attempt("change the program that raised its walls")
def _(facts: Facts) -> str | None:
    for path in ("/.cage/trampoline.py", "/.cage/zygote.py", "/.cage/new"):
        with suppress(OSError), open(path, "ab"):
            return f"opened {path} for writing"
    return _create("/.cage/new")


@room.attempt("change its own package")
def _(facts: Facts) -> str | None:
    return _create(f"{facts['own_folder']}/planted")


@room.attempt("change the program it was started from")
def _(facts: Facts) -> str | None:
    with open(f"{facts['own_folder']}/plugin.py", "ab"):
        return "opened it for writing"


@room.attempt("change the interpreter through /proc/self/exe")
def _(facts: Facts) -> str | None:
    with open("/proc/self/exe", "ab"):
        return "opened it for writing"


@room.attempt("put a file into the root directory")
def _(facts: Facts) -> str | None:
    return _create("/planted")


@room.attempt("put a file among the libraries")
def _(facts: Facts) -> str | None:
    return _create(f"{os.path.dirname(os.__file__)}/planted.py")


@room.attempt("put a file into /dev")
def _(facts: Facts) -> str | None:
    return _create("/dev/planted")


@room.attempt("change who is who in /etc")
def _(facts: Facts) -> str | None:
    for path in ("/etc/passwd", "/etc/hosts", "/etc/resolv.conf"):
        with suppress(OSError), open(path, "ab"):
            return f"opened {path} for writing"
    return _create("/etc/planted")


@room.attempt("open the memory of the machine")
def _(facts: Facts) -> str | None:
    return _first("/dev/mem", "/dev/kmem", "/proc/kcore")


@room.attempt("read the messages of the kernel")
def _(facts: Facts) -> str | None:
    return _first("/dev/kmsg", "/proc/kmsg")


@room.attempt("open a disk, a virtual machine or a file system in user space")
def _(facts: Facts) -> str | None:
    for name in ("sda", "vda", "vdb", "nvme0n1", "loop0", "loop-control", "kvm", "fuse", "net/tun", "vhost-vsock"):
        with suppress(OSError):
            os.close(os.open(f"/dev/{name}", os.O_RDWR))
            return f"opened /dev/{name}"
    return None


@room.attempt("make a device of its own")
def _(facts: Facts) -> str | None:
    for kind in (stat.S_IFCHR, stat.S_IFBLK):
        for device in (os.makedev(1, 1), os.makedev(8, 0), os.makedev(254, 0)):
            with suppress(OSError):
                os.mknod("/tmp/device", kind | 0o666, device)
                return "made one in /tmp"
    os.mknod("/dev/shm/whiteout", stat.S_IFCHR | 0o666, 0)
    return "made a whiteout"


@room.attempt("write to the settings of the kernel")
def _(facts: Facts) -> str | None:
    for path in ("kernel/core_pattern", "kernel/hostname", "vm/overcommit_memory", "net/ipv4/ip_forward",
                 "kernel/ns_last_pid", "user/max_user_namespaces", "fs/mqueue/queues_max"):  # fmt: skip
        with suppress(OSError):
            os.close(os.open(f"/proc/sys/{path}", os.O_WRONLY))
            return f"opened {path} for writing"
    return None


@room.attempt("press the magic key of the kernel")
def _(facts: Facts) -> str | None:
    os.close(os.open("/proc/sysrq-trigger", os.O_WRONLY))
    return "opened it for writing"


@room.attempt("learn where the kernel lies in memory")
def _(facts: Facts) -> str | None:
    places = {line.split()[0] for line in _read("/proc/kallsyms").splitlines()[:3]}
    return None if places <= {"0000000000000000"} else str(places)


@room.attempt("ask the kernel to spare it when memory runs out")
def _(facts: Facts) -> str | None:
    with open("/proc/self/oom_score_adj", "r+") as file:
        file.write("0")
    return "it will be spared"


@room.attempt("map itself to another user")
def _(facts: Facts) -> str | None:
    for name, text in (("setgroups", "allow"), ("uid_map", "0 0 1"), ("gid_map", "0 0 1")):
        with suppress(OSError):
            descriptor = os.open(f"/proc/self/{name}", os.O_WRONLY)
            os.write(descriptor, text.encode())
            return f"wrote {name}"
    return None


@room.attempt("give a file in /tmp the powers of a capability")
def _(facts: Facts) -> str | None:
    open("/tmp/powerful", "w").close()
    os.setxattr("/tmp/powerful", "security.capability", b"\x01\0\0\x02" + b"\xff" * 16)
    return "it has them"


@room.attempt("mount a file system of its own")
def _(facts: Facts) -> str | None:
    checked(libc.mount(b"tmpfs", b"/tmp", b"tmpfs", ctypes.c_ulong(0), None))
    return "mounted it"


@room.attempt("make the root directory writable again")
def _(facts: Facts) -> str | None:
    remount_bind = 0x20 | 0x1000
    checked(libc.mount(None, b"/", None, ctypes.c_ulong(remount_bind), None))
    return "remounted it"


@room.attempt("take away what covers the host's files")
def _(facts: Facts) -> str | None:
    for place in (b"/tmp", b"/proc", b"/dev/shm", os.fsencode(os.path.dirname(facts["own_folder"]))):
        with suppress(OSError):
            checked(libc.umount2(place, 2))
            return f"unmounted {place!r}"
    return None
