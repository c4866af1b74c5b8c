"""How long a command takes from nothing, against the least that a program with click could do.

Help is held against an empty click command that prints its own; a listing against a click command that reads the same
rows from the same store and prints them. What stands between is what our commands import and check: settings, the
store's lock and version, and whether the files of each plugin are still those that were installed.
"""

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
BARE = "python -c pass"
EMPTY, HELP = "empty click command --help", "paddock --help"
ROWS, LIST = "click command that reads the rows", "paddock plugin list"

EMPTY_COMMAND = '''
import click


@click.command()
def main() -> None:
    """Do nothing."""


main()
'''
LISTING_COMMAND = '''
import apsw
import click


@click.command()
@click.argument("store")
def main(store: str) -> None:
    """Print the installed plugins."""
    rows = apsw.Connection(store).execute("SELECT plugin, version, manifest FROM plugin_versions ORDER BY plugin")
    for plugin, version, manifest in rows:
        click.echo(f"{plugin} {version} {len(manifest)}")


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
        store = _install_plugins(place, environ)
        for name, program in (("empty", EMPTY_COMMAND), ("listing", LISTING_COMMAND), ("paddock-command", PADDOCK)):
            (place / f"{name}.py").write_text(program)
        times = alternate(
            {
                BARE: _run(environ, place, "-c", "pass"),
                EMPTY: _run(environ, place, "empty.py", "--help"),
                HELP: _run(environ, place, "paddock-command.py", "--help"),
                ROWS: _run(environ, place, "listing.py", str(store)),
                LIST: _run(environ, place, "paddock-command.py", "plugin", "list"),
            },
            rounds=4 if given.quick else 40,
            warm_up=2,
        )
    report = Report(
        "startup",
        given,
        f"Whole processes, bytecode compiled, output to a pipe, {PLUGINS} plugins installed. Ratios are of the fastest "
        "runs.",
        ["command", "fastest", "median", "against its floor"],
    )
    floors = {HELP: EMPTY, LIST: ROWS}
    for name, measured in times.items():
        ratio = f"{measured.best / times[floors[name]].best:.2f}×" if name in floors else ""
        report.row(name, milliseconds(measured.best), milliseconds(measured.median), ratio)
    report.at_most("paddock --help against the empty command", times[HELP].best / times[EMPTY].best, 1.3)
    report.at_most("paddock plugin list against reading the rows", times[LIST].best / times[ROWS].best, 4.0)
    report.finish()


def _environment(place: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PADDOCK", "XDG"))}
    # Everybody's bytecode is written on the first run and read on the others.
    return kept | {
        "PYTHONPATH": str(SOURCE),
        "PYTHONPYCACHEPREFIX": str(place / "bytecode"),
        "PADDOCK_HOME": str(place / "home"),
    }


def _install_plugins(place: Path, environ: Mapping[str, str]) -> Path:
    """The store that they are in."""
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
    return place / "home" / "data" / "paddock.db"


def _run(environ: Mapping[str, str], place: Path, *arguments: str) -> Callable[[], float]:
    command = [sys.executable, *arguments]

    def once() -> float:
        return timed(lambda: subprocess.run(command, env=environ, cwd=place, check=True, stdout=subprocess.PIPE))

    return once


if __name__ == "__main__":
    main()
