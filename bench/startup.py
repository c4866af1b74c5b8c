"""How long a command takes from nothing, against an empty click command that prints its help."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from _manifests import package
from _side_by_side import Report, alternate, milliseconds, options, timed

SOURCE = Path(__file__).parents[1] / "src"
PLUGINS = 100

EMPTY_COMMAND = '''
import click


@click.command()
def main() -> None:
    """Do nothing."""


main()
'''
# What an installed `paddock` command consists of.
PADDOCK = """
import sys

from paddock.cli.main import main

sys.exit(main())
"""


def main() -> None:
    given = options(__doc__)
    with tempfile.TemporaryDirectory(prefix="paddock-bench-") as folder:
        place = Path(folder)
        environ = _environment(place)
        _install_plugins(place, environ)
        (place / "empty.py").write_text(EMPTY_COMMAND)
        (place / "paddock-command.py").write_text(PADDOCK)
        times = alternate(
            {
                "python -c pass": _run(environ, place, "-c", "pass"),
                "empty click command --help": _run(environ, place, "empty.py", "--help"),
                "paddock --help": _run(environ, place, "paddock-command.py", "--help"),
                f"paddock plugin list ({PLUGINS} installed)": _run(
                    environ, place, "paddock-command.py", "plugin", "list"
                ),
            },
            rounds=4 if given.quick else 40,
            warm_up=2,
        )
    report = Report(
        "startup",
        given,
        "Whole processes, bytecode compiled, output to a pipe. Ratios are of the fastest runs.",
        ["command", "fastest", "median", "against the empty command"],
    )
    empty = times["empty click command --help"]
    for name, measured in times.items():
        ratio = f"{measured.best / empty.best:.2f}×"
        report.row(name, milliseconds(measured.best), milliseconds(measured.median), ratio)
    listing = times[f"paddock plugin list ({PLUGINS} installed)"]
    report.at_most("paddock --help", times["paddock --help"].best / empty.best, 1.3)
    report.at_most(f"paddock plugin list with {PLUGINS} installed", listing.best / empty.best, 2.0)
    report.finish()


def _environment(place: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PADDOCK", "XDG"))}
    # Everybody's bytecode is written on the first run and read on the others.
    return kept | {
        "PYTHONPATH": str(SOURCE),
        "PYTHONPYCACHEPREFIX": str(place / "bytecode"),
        "PADDOCK_HOME": str(place / "home"),
    }


def _install_plugins(place: Path, environ: Mapping[str, str]) -> None:
    sys.path.insert(0, str(SOURCE))
    from paddock.host.wiring.local_store import open_local_store
    from paddock.plugins.install.commit import commit_install
    from paddock.plugins.install.consent import full_consent
    from paddock.plugins.install.resolve import resolve_package
    from paddock.plugins.package.source import parse_source

    with open_local_store(environ, place) as host:
        for number in range(PLUGINS):
            directory = place / "packages" / str(number)
            package(number).write(directory)
            with resolve_package(host.plugins, parse_source(str(directory))) as prepared:
                commit_install(host.plugins, prepared, full_consent(prepared))


def _run(environ: Mapping[str, str], place: Path, *arguments: str) -> Callable[[], float]:
    command = [sys.executable, *arguments]

    def once() -> float:
        return timed(lambda: subprocess.run(command, env=environ, cwd=place, check=True, stdout=subprocess.PIPE))

    return once


if __name__ == "__main__":
    main()
