"""pip, from wherever it is installed, in one process that may start no other. Run as a script: `pip_alone.py PLACE …`.

pip builds what is not built yet, which runs the package's own code. `--only-binary` forbids that for what an index
offers, but not for what a package demands from some address or repository. A build always begins with a process, so
here none begins.
"""

import errno
import sys
from importlib.machinery import ModuleSpec, PathFinder

REFUSAL = "pip was about to start a program"
_STARTS = frozenset({"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty", "os.spawn"})
# The loader says which packages fit a machine with musl; keyring knows the password of a private index.
_HARMLESS = ("ld-musl", "keyring")


class _OnlyPip:
    """Finds pip where it is, and nothing beside it: those packages belong to another environment."""

    def __init__(self, place: str) -> None:
        self._place = place

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG002
        return PathFinder.find_spec(name, [self._place]) if name == "pip" else None


def _refuse(event: str, arguments: tuple[object, ...]) -> None:
    if event in _STARTS and not str(arguments[0] if arguments else "").rpartition("/")[2].startswith(_HARMLESS):
        # An error of the system: where pip only wants to know more about the machine, it does without.
        raise PermissionError(errno.EPERM, REFUSAL)


def main() -> int:
    sys.meta_path.insert(0, _OnlyPip(sys.argv[1]))  # pyright: ignore[reportArgumentType]
    sys.argv = ["pip", *sys.argv[2:]]
    from pip._internal.cli.main import main as pip

    sys.addaudithook(_refuse)
    return pip()


if __name__ == "__main__":
    sys.exit(main())
