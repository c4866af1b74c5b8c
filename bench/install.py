"""How long installing a plugin of 200 files takes, against copying the same files with `cp -r`."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from _side_by_side import Report, alternate, milliseconds, options, timed

SOURCE = Path(__file__).parents[1] / "src"
sys.path.insert(0, str(SOURCE))

FILES = 200
SIZE = 2_000_000


def main() -> None:
    given = options(__doc__)
    with tempfile.TemporaryDirectory(prefix="paddock-bench-") as folder:
        place = Path(folder)
        numbers = itertools.count()
        for side in ("ours", "theirs"):
            _write_plugin(place / side)
        with _install_in_process(place, place / "ours", numbers) as install:
            times = alternate(
                {
                    "cp -r": _copy(place, place / "theirs", numbers),
                    "cp -r, then sync of the copy": _copy(place, place / "theirs", numbers, sync=True),
                    "install: prepare and commit": install,
                    "paddock plugin install --yes": _install_by_command(place, place / "ours", numbers),
                },
                rounds=3 if given.quick else 25,
            )
    report = Report(
        "install",
        given,
        f"{FILES} files, {SIZE / 1e6:g} MB, in the page cache; a new plugin name each time. Installing in one process "
        "counts staging (a checked and hashed copy), reading the manifest, looking for a signature, keeping it as "
        "one blob that is synced to disk, moving the tree to its place, and the rows with their event, synced too. "
        "The command adds starting Python, sweeping and reading the settings. `cp -r` counts starting cp and syncs "
        "nothing.",
        ["what", "fastest", "median", "against cp -r"],
    )
    copied = times["cp -r"]
    for name, measured in times.items():
        ratio = f"{measured.best / copied.best:.2f}×"
        report.row(name, milliseconds(measured.best), milliseconds(measured.median), ratio)
    report.at_most("install", times["install: prepare and commit"].best / copied.best, 5.0)
    report.finish()


def _write_plugin(directory: Path) -> None:
    chance = random.Random(1)
    for number in range(FILES - 1):
        path = directory / f"part{number % 12}" / f"module{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(chance.randbytes(SIZE // (FILES - 1)))
    _rename(directory, 0)


def _rename(directory: Path, number: int) -> None:
    """Give the plugin another name, so that each install is a first one."""
    text = f"paddock: 1\nname: big-{number}\nversion: 1.0.0\ndescription: Holds many files.\n"
    (directory / "paddock.yaml").write_text(text + "runtime:\n  command: [python3, part0/module0.py]\n")


def _copy(place: Path, directory: Path, numbers: Iterator[int], *, sync: bool = False) -> Callable[[], float]:
    def once() -> float:
        target = place / f"copy-{next(numbers)}"
        command = ["cp", "-r", str(directory), str(target)]

        def work() -> None:
            subprocess.run(command, check=True)
            if sync:
                subprocess.run(["sync", *(str(path) for path in target.rglob("*") if path.is_file())], check=True)

        spent = timed(work)
        shutil.rmtree(target)
        return spent

    return once


@contextmanager
def _install_in_process(place: Path, directory: Path, numbers: Iterator[int]) -> Iterator[Callable[[], float]]:
    from paddock.host.wiring.local_store import open_local_store
    from paddock.plugins.install.commit import commit_install
    from paddock.plugins.install.consent import full_consent
    from paddock.plugins.install.resolve import resolve_package
    from paddock.plugins.manage.remove import uninstall
    from paddock.plugins.package.source import parse_source

    with open_local_store({"PADDOCK_HOME": str(place / "home-process")}, place) as host:

        def once() -> float:
            number = next(numbers)
            _rename(directory, number)

            def work() -> None:
                with resolve_package(host.plugins, parse_source(str(directory))) as prepared:
                    commit_install(host.plugins, prepared, full_consent(prepared))

            spent = timed(work)
            uninstall(host.plugins, f"big-{number}")
            return spent

        yield once


def _install_by_command(place: Path, directory: Path, numbers: Iterator[int]) -> Callable[[], float]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PADDOCK", "XDG"))}
    environ = kept | {
        "PYTHONPATH": str(SOURCE),
        "PYTHONPYCACHEPREFIX": str(place / "bytecode"),
        "PADDOCK_HOME": str(place / "home-command"),
    }

    def paddock(*arguments: str) -> None:
        command = [sys.executable, "-m", "paddock.cli", "plugin", *arguments, "--yes"]
        subprocess.run(command, env=environ, cwd=place, check=True, capture_output=True)

    def once() -> float:
        number = next(numbers)
        _rename(directory, number)
        spent = timed(lambda: paddock("install", str(directory)))
        paddock("uninstall", f"big-{number}")
        return spent

    return once


if __name__ == "__main__":
    main()
