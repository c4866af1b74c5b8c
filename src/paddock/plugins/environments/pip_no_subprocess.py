"""Runs pip in a process that cannot start another one. Run as a script: `pip_no_subprocess.py PIP_DIRECTORY ROOT …`.

pip builds packages without a wheel, which runs the package's own code. `--only-binary` forbids that for packages of an
index, but not for those that a package demands by URL or repository. A build always starts a process, so here none can
start.

It installs below ROOT, as in a virtual environment there. But it does not run in one: an interpreter that starts in a
virtual environment runs what the packages in it want run at every start.
"""

import errno
import sys
from importlib.machinery import ModuleSpec, PathFinder

SUBPROCESS_REFUSED = "pip was about to start a program"
_PROCESS_EVENTS = frozenset(
    {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty", "os.spawn"}
)
# pip runs the musl loader to see which wheels fit, and keyring for the password of a private index.
_ALLOWED_FAILURES = ("ld-musl", "keyring")


class _PipFinder:
    """Finds pip in its directory, and nothing beside it: those packages belong to another environment."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG002
        return PathFinder.find_spec(name, [self._directory]) if name == "pip" else None


def _refuse_subprocess(event: str, arguments: tuple[object, ...]) -> None:
    if event in _PROCESS_EVENTS and not str(arguments[0] if arguments else "").rpartition("/")[2].startswith(
        _ALLOWED_FAILURES
    ):
        # An OSError: where pip only wants to know more about the machine, it does without.
        raise PermissionError(errno.EPERM, SUBPROCESS_REFUSED)


def main() -> int:
    sys.meta_path.insert(0, _PipFinder(sys.argv[1]))  # pyright: ignore[reportArgumentType]
    # Everything by which pip finds its prefix; where it was loaded from and what it may import stays as it is.
    sys.prefix = sys.exec_prefix = sys.argv[2]
    sys.argv = ["pip", *sys.argv[3:]]
    from pip._internal.cli.main import main as pip

    sys.addaudithook(_refuse_subprocess)
    return pip()


if __name__ == "__main__":
    sys.exit(main())
