"""The walls of a cage that are taken away for a test, and which attempts then get out."""

from __future__ import annotations

from tests.cage.refused_calls import REFUSALS
from tests.escape.edits import (
    KEPT_CAPABILITIES,
    KEPT_ENVIRONMENT,
    LEFT_OPEN,
    NO_CGROUP_NAMESPACE,
    NO_FILTER,
    NO_GROUP,
    NO_IPC_NAMESPACE,
    NO_LANDLOCK,
    NO_LIMIT_OF_WATCHES,
    NO_LIMITS,
    NO_NAME_OF_ITS_OWN,
    NO_NETWORK_NAMESPACE,
    NO_PID_NAMESPACE,
    NO_SEAL_ON_USER_NAMESPACES,
    NO_SIZE,
    ROOT_BY_NUMBER,
    SHOWN_KEYS,
    STILL_ROOT,
    UNCOVERED_TREES,
    UNFILTERED,
    WHOLE_VIEW,
    WRITABLE_BINDS,
    WRITABLE_PLACES,
    ZYGOTES_PROC,
    Removal,
)
from tests.escape.unshown import NOT_SHOWN

_DOORS_FOR_ROOT = ("call pivot_root", "call sethostname", "call setdomainname")
_ANY_DOORS = sorted({f"call {name}" for name in REFUSALS}.difference(_DOORS_FOR_ROOT, *NOT_SHOWN.values()))

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
            *_ANY_DOORS,
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
            "read a world-readable file of the host",
            "read it through the root of its own process",
            "climb out of its working directory",
            "have the loader run a program that was not granted",
            "follow a link out of the tree it may read",
            "plant a link in the tree it may change and follow it",
            "look beside the tree it may read",
        ),
        ways=("granted",),
    ),
    Removal(
        "what the cage shows, and which programs run",
        (*WHOLE_VIEW, NO_LANDLOCK),
        ("run a program that was not granted", "become root by a set-user-id program"),
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
        "the loss of capabilities, the unprivileged user id, the filter and Landlock",
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
            *_DOORS_FOR_ROOT,
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
    Removal("covers over the names of keys", SHOWN_KEYS, ("learn the names of keys of the user it runs as",)),
    Removal("limits of the user namespace", NO_LIMIT_OF_WATCHES, ("take the file watches of its user",)),
    Removal("closing descriptors", LEFT_OPEN, ("find a descriptor that was left open",), ways=("warm",)),
    Removal("the empty environment", KEPT_ENVIRONMENT, ("find a variable of the daemon",), ways=("cold",)),
    Removal(
        "the empty environment and Landlock",
        (*KEPT_ENVIRONMENT, NO_LANDLOCK),
        ("read the environment of the first process",),
        ways=("cold",),
    ),
    Removal("the unprivileged user id", ROOT_BY_NUMBER, ("have another user id", "have more than one user mapped")),
    Removal("the cgroup namespace", NO_CGROUP_NAMESPACE, ("share the cgroup namespace with the host",)),
    Removal(
        "the unprivileged user",
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


def table() -> str:
    """The walls and what stands behind each, as the documentation shows them."""
    rows = ["| without | a plugin could |", "|---|---|"]
    for removal in REMOVALS:
        calls = sum(sentence.startswith("call ") for sentence in removal.gets_out)
        could = [sentence for sentence in removal.gets_out if not sentence.startswith("call ")]
        could += [f"make {calls} system calls that are refused"] if calls else []
        rows.append(f"| {removal.name} | {'; '.join(could)} |")
    return "\n".join(rows)
