"""pip, from wherever it is installed, in a process that may start no other. `pip_no_subprocess.py PLACE ROOT …`.

pip builds what is not built yet, which runs the package's own code. `--only-binary` forbids that for what an index
offers, but not for what a package demands from some address or repository. A build always begins with a process, so
here none begins.

It installs below ROOT, as it would in a virtual environment there. But it does not run in one: an interpreter that
starts in a virtual environment runs what the packages in it want run at every start.
"""

import errno
import sys
from importlib.machinery import ModuleSpec, PathFinder

SUBPROCESS_REFUSED = "pip was about to start a program"
_PROCESS_EVENTS = frozenset(
    {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty", "os.spawn"}
)
# The loader says which packages fit a machine with musl; keyring knows the password of a private index.
_ALLOWED_FAILURES = ("ld-musl", "keyring")


class _PipFinder:
    """Finds pip where it is, and nothing beside it: those packages belong to another environment."""

    def __init__(self, place: str) -> None:
        self._place = place

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG002
        return PathFinder.find_spec(name, [self._place]) if name == "pip" else None


def _refuse_subprocess(event: str, arguments: tuple[object, ...]) -> None:
    if event in _PROCESS_EVENTS and not str(arguments[0] if arguments else "").rpartition("/")[2].startswith(
        _ALLOWED_FAILURES
    ):
        # An error of the system: where pip only wants to know more about the machine, it does without.
        raise PermissionError(errno.EPERM, SUBPROCESS_REFUSED)


def main() -> int:
    sys.meta_path.insert(0, _PipFinder(sys.argv[1]))  # pyright: ignore[reportArgumentType]
    # All by which pip tells where it is; what it was loaded from and what it may load stays as it is.
    sys.prefix = sys.exec_prefix = sys.argv[2]
    sys.argv = ["pip", *sys.argv[3:]]
    from pip._internal.cli.main import main as pip

    sys.addaudithook(_refuse_subprocess)
    return pip()


if __name__ == "__main__":
    sys.exit(main())
