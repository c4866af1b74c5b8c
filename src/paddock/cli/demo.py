"""`paddock demo`: the example plugins, installed into a temporary home and shown."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import typer

from paddock.cli.output import AsJson, document, reporting, say, styled

app = typer.Typer(add_completion=False)

CONSENT_SHOWN = "fourth-generation-formula"
SHOWN_IN_FULL = "memory-markdown"


def examples_directory() -> Path:
    """Where the examples are: beside the source in a checkout, inside the package when installed."""
    package = Path(__file__).parents[1]
    packaged = package / "examples"
    return packaged if packaged.is_dir() else package.parents[1] / "examples"


@app.command("demo", epilog="Example: paddock demo")
@reporting
def demo(*, as_json: AsJson = False) -> None:
    """Install the example plugins into a temporary home, then list them, look at one, and show one consent screen."""
    from paddock.cli.consent import show_screen
    from paddock.cli.plugin_views import info, list_
    from paddock.core.errors import NotFound
    from paddock.host.command import open_for_command
    from paddock.plugins.consent import install_screen
    from paddock.plugins.install import commit
    from paddock.plugins.preparing import prepare
    from paddock.plugins.sources import parse_source

    directories = (
        sorted(path for path in examples_directory().iterdir() if path.is_dir())
        if examples_directory().is_dir()
        else []
    )
    if not directories:
        raise NotFound(
            "the example plugins are not here", code="demo.no_examples", hint="run it from a checkout: ./run demo"
        )
    with tempfile.TemporaryDirectory(prefix="paddock-demo-") as home:
        os.environ["PADDOCK_HOME"] = home
        installed: list[dict[str, str]] = []
        with open_for_command(os.environ, Path(home)) as host:
            for directory in directories:
                with prepare(host.plugins, parse_source(str(directory))) as prepared:
                    if prepared.manifest.name == CONSENT_SHOWN and not as_json:
                        say(styled("Before a plugin is installed, you see what it will do:", "bold"))
                        say()
                        show_screen(install_screen(prepared))
                    row = commit(host.plugins, prepared, prepared.to_acknowledge)
                    installed.append({"name": row.plugin, "version": row.version, "dialect": row.dialect})
        if as_json:
            document({"installed": installed})
            return
        say(styled(f"{len(installed)} example plugins, one for each way a manifest can be written:", "bold"))
        say()
        list_(kind=None, verbose=False, as_json=False)
        say()
        say(styled("And one of them from close by:", "bold"))
        say()
        info(SHOWN_IN_FULL, as_json=False)
        say()
        say("The temporary home is gone now. Next: ./run paddock plugin install examples/memory-markdown")
