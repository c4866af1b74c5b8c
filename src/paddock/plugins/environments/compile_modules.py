"""Compiles every module below a directory. Run as a script: `compile_modules.py DIRECTORY FINAL_PATH`.

`compileall` takes a quarter longer: it looks whether each file is compiled already, renames each result into place, and
hands single files to its processes. Here nothing is compiled yet, and nothing is used before all is done.
"""

import importlib.util
import marshal
import os
import sys
from collections.abc import Iterator
from pathlib import Path

_UNCHECKED_HASH = (1).to_bytes(4, "little")
"""The flag of compiled files whose source is never looked at again."""


def main(directory: Path, final_path: Path) -> None:
    """Compile the modules in as many processes as there are processors."""
    workers = len(os.sched_getaffinity(0))
    children: list[int] = []
    for number in range(1, workers):
        child = os.fork()
        if child == 0:
            _compile_share(directory, final_path, number, workers)
            os._exit(0)
        children.append(child)
    _compile_share(directory, final_path, 0, workers)
    for child in children:
        os.waitpid(child, 0)


def _compile_share(directory: Path, final_path: Path, number: int, workers: int) -> None:
    for index, module in enumerate(_modules(directory)):
        if index % workers == number:
            _compile(module, final_path / module.relative_to(directory))


def _modules(directory: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(directory):
        folders.sort()  # each process sees the same order
        yield from (Path(folder, name) for name in sorted(names) if name.endswith(".py"))


def _compile(module: Path, final_path: Path) -> None:
    source = module.read_bytes()
    try:
        code = compile(source, str(final_path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return  # templates, and tests for other versions; they are never imported
    header = importlib.util.MAGIC_NUMBER + _UNCHECKED_HASH + importlib.util.source_hash(source)
    compiled = Path(importlib.util.cache_from_source(str(module)))
    compiled.parent.mkdir(exist_ok=True)
    try:
        compiled.write_bytes(header + marshal.dumps(code))
    except OSError:  # a full disk; half a file would be loaded, and none means that the source is
        compiled.unlink(missing_ok=True)
        raise


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
