"""`paddock run …`: calls whose outcome is unknown."""

from __future__ import annotations

import typer

from paddock.cli.commands import unresolved

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="See what is not known of calls with an effect, and settle it."
)
app.add_typer(unresolved.unresolved_app, name="doubt")


@app.callback()
def run() -> None:
    """See what is not known of calls with an effect, and settle it."""
