"""The init program of a cage: applies rlimits and Landlock, then becomes the plugin. Runs as `python -I -S` inside.

    trampoline.py exec PROGRAM       replace this process by the program
    trampoline.py python SCRIPT      run the script right here, which saves starting a second interpreter

Its configuration and the program's arguments are in a file that only the cage sees (`init_config.py` writes it). It
fails closed: where a restriction that the kernel supports cannot be applied, the plugin does not run, and the exit
status is 125.

This file stands alone: any Python from 3.8 runs it, with as few imports as possible, because every start waits for it.
The zygote uses `confine` and `run_as_main` as they are.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # as type checkers know it, without the import
if TYPE_CHECKING:
    from collections.abc import Callable

CONFIG_PATH = "/.cage/orders"
EXIT_REFUSED = 125
GATE_FD = 3  # a socket to the warden
# The plugin's own stdin and stdout. Not 0 and 1 from the start: bubblewrap stays as the cage's init and keeps 0, 1 and
# 2 open, and the host would never see that a plugin closed its output.
STDIN_FD, STDOUT_FD = 4, 5
ARTIFACTS_IN_FD, ARTIFACTS_OUT_FD = 6, 7  # the artifact pipes, where the plugin has them
# Where the plugin finds the artifact pipes: the first numbers after its streams, once the gate is closed.
PLUGIN_ARTIFACT_FDS = (3, 4)
KEEP_ARTIFACTS_RECORD = b"artifacts"  # the record that keeps them open
ARGUMENT_RECORD = b"word"  # the record that holds one argument of the program
OBSERVE_RECORD = b"observe"  # the record of a learning cage
# They name the keys of the user that runs the daemon: the kernel shows them to every process of that user.
HIDDEN_PROC_FILES = ("/proc/keys", "/proc/key-users")
# The kernel counts inotify for each user, and cages share one. By the names of the sysctls of a user namespace.
INOTIFY_LIMITS = {"max_inotify_instances": 16, "max_inotify_watches": 8192}

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same numbers on every machine
_NO_NEW_PRIVILEGES = 38
_TELL_VERSION = 1
_BENEATH_PATH = 1
_IS_DIRECTORY = 0o040000
_FOR_FILES = 0b1100_0000_0000_0111  # execute, write, read, truncate, device control
# Access bits that each Landlock version handles; a later version handles all of these.
_HANDLED = ((1, 0x1FFF), (2, 0x3FFF), (3, 0x7FFF), (5, 0xFFFF))
_SCOPES = 0b11  # from version 6: no abstract sockets and no signals to the outside
_SET_FILTER = 1
_NEW_LISTENER, _WAIT_KILLABLE = 1 << 3, 1 << 5


class ConfinementFailed(Exception):
    """A restriction could not be applied."""


def confine(config: bytes) -> dict[bytes, bytes]:
    """Lower the limits and restrict this process as configured. Returns the configured environment.

    Raises:
        ConfinementFailed: A restriction could not be applied. The process must end.
    """
    limits: list[tuple[int, int]] = []
    rules: list[tuple[int, bytes]] = []
    environment: dict[bytes, bytes] = {}
    for record in config.split(b"\0"):
        kind, _, rest = record.partition(b" ")
        if kind == b"limit":
            number, _, value = rest.partition(b" ")
            limits.append((int(number), int(value)))
        elif kind == b"allow":
            bits, _, path = rest.partition(b" ")
            rules.append((int(bits), path))
        elif kind == b"set":
            name, _, value = rest.partition(b"=")
            environment[name] = value
        elif record and kind not in (ARGUMENT_RECORD, OBSERVE_RECORD) and record != KEEP_ARTIFACTS_RECORD:
            raise ConfinementFailed("an order is not understood")
    _lower(limits)
    _restrict(rules)
    return environment


def program_arguments(config: bytes) -> list[str]:
    """The arguments of the program."""
    records = (record.partition(b" ") for record in config.split(b"\0"))
    return [os.fsdecode(word) for kind, _, word in records if kind == ARGUMENT_RECORD]


def _lower(limits: list[tuple[int, int]]) -> None:
    import resource

    for number, requested in limits:
        _, ceiling = resource.getrlimit(number)
        value = requested if ceiling == resource.RLIM_INFINITY else min(requested, ceiling)
        try:
            resource.setrlimit(number, (value, value))
        except (OSError, ValueError) as error:
            raise ConfinementFailed(f"limit {number} cannot be set: {error}") from None


def _restrict(rules: list[tuple[int, bytes]]) -> None:
    # ctypes itself would take longer to import than everything else here together.
    import _ctypes

    library = _ctypes.dlopen(None, 0)  # pyright: ignore[reportArgumentType] None is this process
    syscall, prctl, call = _ctypes.dlsym(library, "syscall"), _ctypes.dlsym(library, "prctl"), _ctypes.call_function
    if call(prctl, (_NO_NEW_PRIVILEGES, 1, 0, 0, 0)):
        raise ConfinementFailed("new privileges cannot be given up")
    version = call(syscall, (_CREATE_RULESET, None, 0, _TELL_VERSION))
    if version < 1:
        return  # this kernel has no Landlock; the cage works without it, and `doctor` says so
    handled = [bits for since, bits in _HANDLED if since <= version][-1]
    ruleset = handled.to_bytes(8, "little")
    if version >= 6:
        ruleset += bytes(8) + _SCOPES.to_bytes(8, "little")  # no rules for the network: the cage has none of its own
    ruleset_fd = call(syscall, (_CREATE_RULESET, ruleset, len(ruleset), 0))
    if ruleset_fd < 0:
        raise ConfinementFailed("Landlock cannot be used")
    for bits, path in rules:
        try:
            path_fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        if os.fstat(path_fd).st_mode & 0o170000 != _IS_DIRECTORY:
            bits &= _FOR_FILES
        rule = (bits & handled).to_bytes(8, "little") + path_fd.to_bytes(4, "little")
        if call(syscall, (_ADD_RULE, ruleset_fd, _BENEATH_PATH, rule, 0)):
            raise ConfinementFailed("no Landlock rule can be made for " + os.fsdecode(path))
        os.close(path_fd)
    if call(syscall, (_RESTRICT_SELF, ruleset_fd, 0)):
        raise ConfinementFailed("Landlock cannot be applied")
    os.close(ruleset_fd)


def prepare_observed_start(config: bytes) -> Callable[[], None] | None:
    """Return the function that lets a learning cage be observed and reports to the warden; None in all others.

    From then on each call that names a file waits for the observer. So everything is imported here, before that.
    """
    records = (record.partition(b" ") for record in config.split(b"\0"))
    order = next((rest.split(b" ") for kind, _, rest in records if kind == OBSERVE_RECORD), None)
    if order is None:
        return None
    import _socket
    import ctypes

    number, code = int(order[0]), bytes.fromhex(order[1].decode())

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))

    program = Program(len(code) // 8, code)
    syscall = ctypes.CDLL(None).syscall
    gate = _socket.socket(fileno=GATE_FD)

    def report() -> None:
        for flags in (_NEW_LISTENER | _WAIT_KILLABLE, _NEW_LISTENER):  # the second flag is newer
            listener = syscall(number, _SET_FILTER, flags, ctypes.byref(program))
            if listener >= 0:
                break
        else:
            raise ConfinementFailed("this kernel cannot observe system calls")
        rights = listener.to_bytes(4, sys.byteorder)
        gate.sendmsg([b"R"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
        gate.detach()
        os.close(listener)

    return report


def _report_ready() -> None:
    os.write(GATE_FD, b"R")


def wait_for_release(report: Callable[[], None] = _report_ready) -> None:
    """Tell the warden that the restrictions are applied, and wait until it has set limits and network outside.

    Raises:
        ConfinementFailed: The warden is gone or refuses this plugin. The process must end.
    """
    report()
    if os.read(GATE_FD, 1) != b"G":
        raise ConfinementFailed("the warden did not open the gate")
    os.close(GATE_FD)


def park_artifact_fds(read_fd: int, write_fd: int) -> int:
    """Move the artifact pipes right behind the gate, whose number the first of them gets later. Returns the highest
    number.

    Both must be open under numbers beyond that.
    """
    for number, descriptor in enumerate((read_fd, write_fd), GATE_FD + 1):
        os.dup2(descriptor, number)
    return GATE_FD + 2


def restore_artifact_fds() -> None:
    """Move the artifact pipes to the plugin's numbers, now that the gate is closed."""
    for number in PLUGIN_ARTIFACT_FDS:
        os.dup2(number + 1, number)
    os.close(GATE_FD + 2)


def run_script(script: str, arguments: list[str]) -> None:
    """Run a script as `python3 SCRIPT ARGUMENT…` would, in this interpreter; ends the process as that would."""
    sys.argv = [script, *arguments]
    extra = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    sys.path[:0] = [os.path.dirname(script), *extra]  # noqa: PTH120 pathlib would take longer than the rest
    import site

    site.main()
    run_as_main(script)


def run_as_main(script: str) -> None:
    """Run a script as `__main__` of this interpreter, whose arguments and paths are set; ends the process with it."""
    module = type(sys)("__main__")
    module.__file__ = script
    module.__builtins__ = sys.modules["builtins"]
    module.__annotations__ = {}
    module.__cached__ = None
    sys.modules["__main__"] = module
    try:
        with open(script, "rb") as file:  # noqa: PTH123
            code = compile(file.read(), script, "exec", dont_inherit=True)
        exec(code, module.__dict__)  # noqa: S102 this is what we are for
    except SystemExit:
        raise
    except BaseException as error:
        # Without the frame of this file: the plugin's author knows only their own.
        trace = error.__traceback__
        error.__traceback__ = trace.tb_next if trace else None
        sys.excepthook(type(error), error, error.__traceback__)
        if isinstance(error, KeyboardInterrupt):
            # The traceback is printed. The interpreter itself then ends by the signal, as its sender expects.
            sys.excepthook = _silence_output
            raise
        sys.exit(1)


def _silence_output(*_: object) -> None:
    pass


def main() -> None:
    try:
        import resource

        os.dup2(STDIN_FD, 0)
        os.dup2(STDOUT_FD, 1)
        with open(CONFIG_PATH, "rb") as file:  # noqa: PTH123
            config = file.read()
        last_fd = GATE_FD
        if KEEP_ARTIFACTS_RECORD in config.split(b"\0"):
            last_fd = park_artifact_fds(ARTIFACTS_IN_FD, ARTIFACTS_OUT_FD)
        # Before the limit on open files is lowered: descriptors above it could not be closed afterwards.
        ceiling = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        os.closerange(last_fd + 1, ceiling if ceiling > 0 else 1 << 20)
        report = prepare_observed_start(config) or _report_ready
        environment = confine(config)
        wait_for_release(report)
        if last_fd > GATE_FD:
            restore_artifact_fds()
    except BaseException as error:
        os.write(2, f"cage: {error or type(error).__name__}\n".encode("utf-8", "replace"))
        os._exit(EXIT_REFUSED)
    mode, target, arguments = sys.argv[1], sys.argv[2], program_arguments(config)
    if mode == "python":
        for name in list(os.environb):
            if name not in environment:
                del os.environb[name]
        os.environb.update(environment)
        run_script(target, arguments)
    else:
        try:
            os.execve(target, [target, *arguments], environment)  # noqa: S606 as above
        except OSError as error:
            os.write(2, f"cage: cannot run {target}: {error.strerror}\n".encode("utf-8", "replace"))
            os._exit(127 if isinstance(error, FileNotFoundError) else 126)


if __name__ == "__main__":
    main()
