"""Attempts that get out behind none of the walls that a test takes away, and why."""

from __future__ import annotations

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
