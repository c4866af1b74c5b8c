"""`paddock run …`: calls whose outcome is unknown."""

from __future__ import annotations

from paddock.cli.command import PaddockGroup
from paddock.cli.commands import unresolved

app = PaddockGroup("run", help="See what is not known of calls with an effect, and settle it.")
app.add_command(unresolved.unresolved_app)
