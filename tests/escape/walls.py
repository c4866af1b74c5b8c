"""The walls of a cage, how each is taken away for a test, and which attempts then get out.

A wall is taken away by changing lines of a copy of Paddock's own source, so that everything else is as it is in
production and production has no switch for it. Lines that are no longer there fail the test: the table cannot rot.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import paddock

CAGE = "cage"


@dataclass(frozen=True, slots=True)
class Edit:
    """In this file of `paddock.cage`, one text in place of another. The text stands there exactly once."""

    file: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Removal:
    """Walls that are taken away together, and what then gets out."""

    name: str
    edits: tuple[Edit, ...]
    gets_out: tuple[str, ...]
    ways: tuple[str, ...] = ("cold", "warm")  # where it is tried: cold, granted (cold, with two trees), warm
    root: bool = False  # whether the daemon has to be root for it


def without(removal: Removal, folder: Path) -> Path:
    """A copy of the sources without these walls."""
    package = Path(paddock.__file__).parent
    copy = folder / "paddock"
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for edit in removal.edits:
        file = copy / CAGE / edit.file
        text = file.read_text(encoding="utf-8")
        assert text.count(edit.old) == 1, f"{edit.file} has no longer, or more than once: {edit.old}"
        file.write_text(text.replace(edit.old, edit.new), encoding="utf-8")
    return folder


def table() -> str:
    """The walls and what stands behind each, as the documentation shows them."""
    rows = ["| without | a plugin could |", "|---|---|"]
    for removal in REMOVALS:
        calls = sum(sentence.startswith("call ") for sentence in removal.gets_out)
        could = [sentence for sentence in removal.gets_out if not sentence.startswith("call ")]
        could += [f"make {calls} system calls that are refused"] if calls else []
        rows.append(f"| {removal.name} | {'; '.join(could)} |")
    return "\n".join(rows)


NO_FILTER = Edit("seccomp.py", "return [*program, _verdict(_ALLOW)]", "return [_verdict(_ALLOW)]")
UNFILTERED = (
    Edit("bubblewrap.py", '        *("--seccomp", str(file(fittings.seccomp))),\n', ""),
    Edit("zygote_process.py", '    zygote_walls.filter_system_calls(bytes.fromhex(asked["seccomp"]))\n', ""),
)
NO_LANDLOCK = Edit("trampoline.py", "    _restrict(rules)\n    return", "    return")
NO_NETWORK_NAMESPACE = (
    Edit("bubblewrap.py", '"--unshare-net", ', ""),
    Edit(
        "zygote_walls.py",
        '_check(_libc.unshare(_NEW_MOUNTS | _NEW_NET | _NEW_IPC | _NEW_NAMES | _NEW_CGROUP), "unshare")',
        'return _check(_libc.unshare(_NEW_MOUNTS | _NEW_IPC | _NEW_NAMES | _NEW_CGROUP), "unshare")',
    ),
)
NO_PID_NAMESPACE = (
    Edit("bubblewrap.py", '"--unshare-pid", ', ""),
    Edit("bubblewrap.py", '"--proc", "/proc"', '"--ro-bind", "/proc", "/proc"'),
)
NO_IPC_NAMESPACE = (
    Edit("bubblewrap.py", '"--unshare-ipc", ', ""),
    Edit("zygote_walls.py", "_NEW_NET | _NEW_IPC | ", "_NEW_NET | "),
)
NO_NAME_OF_ITS_OWN = (
    Edit("bubblewrap.py", '"--unshare-uts", ', ""),
    Edit("bubblewrap.py", ', "--hostname", HOST_NAME', ""),
    Edit("zygote_walls.py", "_NEW_IPC | _NEW_NAMES | ", "_NEW_IPC | "),
)
NO_SEAL_ON_USER_NAMESPACES = (
    Edit("bubblewrap.py", '"--unshare-user", "--disable-userns", uid=NOBODY', '"--unshare-user", uid=NOBODY'),
    Edit("zygote_walls.py", '    _write(proc, "sys/user/max_user_namespaces", "0")\n', ""),
)
KEPT_CAPABILITIES = (
    Edit("bubblewrap.py", '"--cap-drop", "ALL"', '"--cap-add", "ALL"'),
    Edit("zygote_walls.py", '    _check(_libc.capset(header, bytes(24)), "capset")\n', ""),
)
WRITABLE_PLACES = (
    Edit("bubblewrap.py", 'for path in (*spec.covers, "/proc", "/dev", "/") for word', "for path in () for word"),
    Edit("bubblewrap.py", 'for path in (*spec.covers, "/dev", "/") for word', "for path in () for word"),
)
WRITABLE_BINDS = (Edit("bubblewrap.py", '"--bind" if bind.writable else "--ro-bind"', '"--bind"'),)
WHOLE_VIEW = (
    # Everything is shown, as if it had been granted.
    Edit("compile.py", "    job.show_libraries()\n", '    job.show_libraries()\n    job.layout.show("/")\n'),
    Edit("layout.py", 'NEVER = ("/proc", "/sys", "/dev", "/run", "/.cage")', 'NEVER = ("/proc", "/dev", "/.cage")'),
    Edit("layout.py", '"/etc/nsswitch.conf", "/etc/passwd", ', '"/etc/nsswitch.conf", '),
)
SHOWN_BY_MISTAKE = Edit(
    # A bind that the rules of Landlock know nothing of.
    "bubblewrap.py",
    "    placed.sort(",
    '    placed.append(("/var/tmp", 0, ["--ro-bind", "/var/tmp", "/var/tmp"]))\n    placed.sort(',
)
NO_LIMITS = Edit("trampoline.py", "    _lower(limits)\n", "")
NO_GROUP = Edit("limits.py", "            group.limit(limits)\n        except", "            pass\n        except")
NO_SIZE = (
    Edit("bubblewrap.py", '"--size", str(limits.tmp_bytes), ', ""),
    Edit("zygote_walls.py", 'f"size={tmp_bytes},mode=1777"', '"mode=1777"'),
)
LEFT_OPEN = (
    Edit("trampoline.py", "        os.closerange(GATE + 1, ceiling if ceiling > 0 else 1 << 20)\n", ""),
    Edit("zygote_process.py", "    os.closerange(4, _descriptors())\n    return", "    return"),
)
KEPT_ENVIRONMENT = (
    Edit("warden_link.py", "env={},", "env=None,"),
    Edit("cold.py", "os.execve(words[0], words, {})", "os.execve(words[0], words, dict(os.environ))"),
    Edit("bubblewrap.py", ', "--clearenv"', ""),
)
ROOT_BY_NUMBER = (
    Edit("bubblewrap.py", '"--unshare-user", "--disable-userns", uid=NOBODY', '"--unshare-user", uid=0'),
    Edit("zygote_walls.py", "CAGE_ID = 65534", "CAGE_ID = 0"),
)
NO_CGROUP_NAMESPACE = (
    Edit("bubblewrap.py", ', "--unshare-cgroup-try"', ""),
    Edit("zygote_walls.py", " | _NEW_CGROUP)", ")"),
)
STILL_ROOT = Edit("cold.py", "        if as_nobody:\n", "        if False:\n")
UNCOVERED_TREES = (
    Edit("zygote_walls.py", "    _small_tmpfs(trees)\n", ""),
    # The trees of these tests lie below /tmp.
    Edit("zygote_walls.py", 'for place in ("/tmp", "/dev/shm"):', 'for place in ("/dev/shm",):'),
)
ZYGOTES_PROC = Edit(
    "zygote_walls.py", '    _mount("proc", "/proc", "proc", _READ_ONLY | _NO_SET_ID | _NO_DEVICES | _NO_EXECUTE)\n', ""
)

_ANY_DOORS = (
    "add_key", "adjtimex", "bpf", "chroot", "clock_adjtime", "clock_settime", "clone3", "execveat", "fsopen", "kcmp",
    "keyctl", "mbind", "memfd_create", "migrate_pages", "modify_ldt", "mount", "mount_setattr", "move_mount",
    "move_pages", "msgget", "name_to_handle_at", "open_tree", "openat2", "pidfd_getfd", "process_madvise",
    "process_vm_readv", "process_vm_writev", "ptrace", "quotactl_fd", "semget", "set_mempolicy", "setns",
    "settimeofday", "shmget", "umount2", "unshare",
)  # fmt: skip

REMOVALS = (
    Removal("even an empty filter", UNFILTERED, ("run without a filter of its system calls",)),
    Removal(
        "the filter of system calls",
        (NO_FILTER,),
        (
            "run a program from memory",
            "leave a set-user-id program in /tmp",
            "turn off the randomness of addresses for what it starts",
            "trace its own child past the walls",
            "read the memory of its parent by a system call",
            "take a descriptor out of its parent",
            "open a socket of any other family",
            "talk to a part of the kernel besides its routes",
            "make datagram sockets that could be pointed elsewhere",
            "fill the memory through files that have no name",
            "fill the memory through shared segments",
            "fill the memory through queues and semaphores",
            *(f"call {name}" for name in _ANY_DOORS),
        ),
    ),
    Removal(
        "the filter of system calls, where a tree is granted",
        (NO_FILTER,),
        (
            "connect to a service of the host by a socket in the tree it may read",
            "send to a service of the host from one of a pair of sockets",
            "leave a set-user-id program in the tree it may change",
        ),
        ways=("granted",),
    ),
    Removal(
        "Landlock",
        (NO_LANDLOCK,),
        (
            "run a program that it wrote to /tmp",
            "run a program that it wrote to /dev/shm",
            "make a device of its own",
        ),
    ),
    Removal(
        "Landlock, where a tree is granted",
        (NO_LANDLOCK,),
        (
            "read the orders that built its walls",
            "read the memory of the first process",
            "look through the eyes of the first process",
            "use the descriptors of the first process",
            "write to a program of the host through a pipe in the tree it may read",
            "run a program of the tree it may read",
            "run a program that it wrote to the tree it may change",
        ),
        ways=("granted",),
    ),
    Removal(
        "what the cage shows",
        WHOLE_VIEW,
        (
            "read the password file of the host",
            "read the shadow passwords",
            "read the host's kernel objects below /sys",
            "find the control groups",
            "find the sockets of the host's services below /run",
            "look into root's home",
            "look into the homes of the users",
            "read a file of the host that everybody may read",
            "read it through the root of its own process",
            "climb out of its working directory",
            "have the loader run a program that nobody granted",
            "follow a link out of the tree it may read",
            "plant a link in the tree it may change and follow it",
            "look beside the tree it may read",
        ),
        ways=("granted",),
    ),
    Removal(
        "what the cage shows, and which programs run",
        (*WHOLE_VIEW, NO_LANDLOCK),
        ("run a program that nobody granted", "become root by a set-user-id program"),
        ways=("granted",),
    ),
    Removal(
        "the network namespace",
        NO_NETWORK_NAMESPACE,
        (
            "connect to a server on the host's loopback",
            "connect to it by another name of the same machine",
            "send a datagram to the host's loopback",
            "share the net namespace with the host",
            "share a namespace with another plugin",
        ),
    ),
    Removal(
        "the network namespace, the filter and Landlock",
        (*NO_NETWORK_NAMESPACE, NO_FILTER, NO_LANDLOCK),
        (
            "connect to an abstract socket of the host",
            "send to an abstract socket of the host from one of a pair",
            "connect while sending",
        ),
    ),
    Removal(
        "the pid namespace",
        NO_PID_NAMESPACE,
        (
            "see processes that are not its own",
            "pin a process of the host to one processor",
            "make a process of the host slower",
            "share the pid namespace with the host",
        ),
        ways=("cold",),
    ),
    Removal(
        "the pid namespace and Landlock",
        (*NO_PID_NAMESPACE, NO_LANDLOCK),
        (
            "signal a process of the host",
            "signal another plugin",
            "signal a process of the host through a handle",
            "change the limits of a process of the host",
        ),
        ways=("cold",),
    ),
    Removal("the plugin's own /proc", (ZYGOTES_PROC,), ("see processes that are not its own",), ways=("warm",)),
    Removal(
        "the IPC namespace",
        NO_IPC_NAMESPACE,
        ("share the ipc namespace with the host",),
    ),
    Removal(
        "the IPC namespace and the filter",
        (*NO_IPC_NAMESPACE, NO_FILTER),
        ("use shared memory of the host", "use a queue of the host", "use semaphores of the host"),
    ),
    Removal(
        "the name of its own",
        NO_NAME_OF_ITS_OWN,
        ("learn the name of the host", "share the uts namespace with the host"),
    ),
    Removal(
        "the seal on user namespaces and the filter",
        (*NO_SEAL_ON_USER_NAMESPACES, NO_FILTER),
        (
            "make a user namespace where it is root",
            "start a child in a user namespace where it is root",
            "start one by the newer system call",
        ),
    ),
    Removal(
        "the seal on user namespaces, the filter and Landlock",
        (*NO_SEAL_ON_USER_NAMESPACES, NO_FILTER, NO_LANDLOCK),
        ("mount what it likes in a namespace of its own",),
    ),
    Removal("the loss of capabilities", KEPT_CAPABILITIES, ("keep a capability",)),
    Removal(
        "the loss of capabilities and the filter",
        (*KEPT_CAPABILITIES, NO_FILTER),
        ("keep a capability", "change its root directory"),
    ),
    Removal(
        "the loss of capabilities, the number of nobody, the filter and Landlock",
        (KEPT_CAPABILITIES[0], ROOT_BY_NUMBER[0], NO_FILTER, NO_LANDLOCK),
        (
            "mount a file system of its own",
            "make the root directory writable again",
            "take away what covers the host's files",
            "rename the machine",
            "give itself an address and a way out",
            "listen to every packet",
            "trace the first process",
            "give a file in /tmp the powers of a capability",
            "call pivot_root",
            "call sethostname",
            "call setdomainname",
        ),
        ways=("cold",),
    ),
    Removal(
        "read-only places and Landlock",
        (*WRITABLE_PLACES, NO_LANDLOCK),
        (
            "put a file into the root directory",
            "put a file into /dev",
            "change who is who in /etc",
            "fill the memory through the places that the cage is made of",
        ),
    ),
    Removal(
        "read-only places and Landlock, in a cage that bubblewrap builds",
        (*WRITABLE_PLACES, NO_LANDLOCK),
        (
            "change the program that raised its walls",
            "write to the settings of the kernel",
            "ask the kernel to spare it when memory runs out",
            "write to the memory of the first process",
        ),
        ways=("cold",),
    ),
    Removal(
        "read-only binds and Landlock",
        (*WRITABLE_BINDS, NO_LANDLOCK),
        ("change its own package", "change the program it was started from", "change a file in the tree it may read"),
        ways=("granted",),
    ),
    Removal(
        "limits of the process",
        (NO_LIMITS,),
        (
            "be dumped by a program of the host when it crashes",
            "raise a limit again",
            "write a file larger than it may",
            "open more files than it may",
            "keep memory from being swapped",
        ),
    ),
    Removal(
        "limits of the process, where a tree is granted",
        (NO_LIMITS,),
        ("write a single file larger than it may to the tree it may change",),
        ways=("granted",),
    ),
    Removal("limits of the process, and Landlock", (NO_LIMITS, NO_LANDLOCK), ("make a queue of messages",)),
    Removal(
        "the control group",
        (NO_GROUP,),
        ("start more processes than it may", "start more threads than it may"),
        ways=("cold",),
        root=True,
    ),
    Removal(
        "the size of memory file systems",
        NO_SIZE,
        ("fill the memory through /tmp", "fill the memory through /dev/shm"),
    ),
    Removal("closing descriptors", LEFT_OPEN, ("find a descriptor that was left open",), ways=("warm",)),
    Removal("the empty environment", KEPT_ENVIRONMENT, ("find a variable of the daemon",), ways=("cold",)),
    Removal(
        "the empty environment and Landlock",
        (*KEPT_ENVIRONMENT, NO_LANDLOCK),
        ("read the environment of the first process",),
        ways=("cold",),
    ),
    Removal("the number of nobody", ROOT_BY_NUMBER, ("be somebody", "have more than one user mapped")),
    Removal("the cgroup namespace", NO_CGROUP_NAMESPACE, ("share the cgroup namespace with the host",)),
    Removal(
        "being nobody",
        (STILL_ROOT,),
        ("read a private file of root in the tree it may read",),
        ways=("granted",),
        root=True,
    ),
    Removal("covers over other plugins' trees", UNCOVERED_TREES, ("list the other plugins",), ways=("warm",)),
    Removal(
        "covers over other plugins' trees, and Landlock",
        (*UNCOVERED_TREES, NO_LANDLOCK),
        ("read another plugin's program",),
        ways=("warm",),
    ),
)

# Attempts that no removal above lets out, and why.
NOT_SHOWN = {
    "a packet would leave the machine, past the same wall as the attempts on its loopback": (
        "ask the cloud for the machine's credentials",
        "connect to the internet",
        "connect to the internet of version six",
        "send a question to a name server of its choice",
        "shout to everybody on the network",
        "smuggle data out in a name that it looks up",
    ),
    "bubblewrap has no cage without it": (
        "keep the right to new privileges",
        "take back the right to new privileges",
        "share the mnt namespace with the host",
        "share the user namespace with the host",
        "use a device that lies in the tree it may change",
        "use a device that lies in the tree it may read",
    ),
    "the kernel asks for the machine's root, whom no cage contains": (
        "become root by asking",
        "change the interpreter through /proc/self/exe",
        "go before everybody else on the processor",
        "learn where the kernel lies in memory",
        "map itself to another user",
        "open a disk, a virtual machine or a file system in user space",
        "open the memory of the machine",
        "press the magic key of the kernel",
        "put a file among the libraries",
        "read the messages of the kernel",
    ),
    "the kernel itself forbids it to everybody, or to everybody but the owner": (
        "enter the namespaces of the first process",
        "give itself a capability",
        "link a file it may only read into the tree it may change",
        "link a library of the host into the tree it may change",
        "point one of a pair of stream sockets elsewhere",
        "read a private file of another user in the tree it may change",
        "rewrite a set-user-id program of the host",
        "take over the file of another user in the tree it may change",
    ),
    "there is nothing that could be taken away: it is how the host talks to a plugin": (
        "find a secret on the command line of the first process",
        "hand a descriptor out through its streams",
    ),
    "whether it gets out depends on how the kernel was built and set up": (
        "find an interface besides its own loopback",
        "find the daemon's terminal",
        "make a system call newer than any we know",
        "make a system call of another architecture",
        "run a program by its descriptor",
        "send a ping",
        "talk to the host through its virtual machine's socket",
        "type into a terminal",
        "type into a terminal with high bits set in the request",
        "use a protocol besides TCP and UDP",
        "use the ciphers of the kernel",
    ),
}
