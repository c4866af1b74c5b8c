"""How the worker starts where no code of the plugin may run in it: only in the copies that it makes for calls. Pure."""

from __future__ import annotations

from paddock.manifest.model import Kind

WALLED = frozenset({Kind.AGENT})
# An interpreter runs code when it starts, of files that it finds by variables and in directories of packages. With
# these it looks nowhere but in its own library, as a warm one does. The worker sets the rest of its path itself, and is
# told the manifest's variables in its orders.
ISOLATED = ("-I", "-S")
