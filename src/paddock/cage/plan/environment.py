"""The environment that a plugin's process starts with. Pure.

Nothing of the daemon's own environment is in it. What the manifest sets is laid over the defaults, except for the
names that tell a plugin who it is: those are the host's word.
"""

from __future__ import annotations

from collections.abc import Mapping

from paddock.cage.confine.sandbox_init import PLUGIN_ARTIFACT_FDS
from paddock.manifest.model import CommandRuntime, Dialect, Manifest, PluginKind, PythonRuntime

ISOLATED_KINDS = frozenset({PluginKind.AGENT})
# An interpreter runs code when it starts, of files that it finds by variables and in directories of packages. With
# these it looks nowhere but in its own library, as a warm one does. The worker sets the rest of its path itself, and is
# told the manifest's variables in its orders.
ISOLATED_PYTHON_FLAGS = ("-I", "-S")


CAGE_PATH = "/usr/bin:/usr/local/bin"


def with_artifact_fds(environment: Mapping[str, str], manifest: Manifest, *, granted: bool) -> dict[str, str]:
    """The variables, with where the plugin finds its pipes for big bytes: to read from, and to write to.

    Where it has none, no variable says that it had, whatever the manifest sets.
    """
    name = f"{_variable_prefix(manifest)}_ARTIFACTS_FDS"
    others = {key: value for key, value in environment.items() if key != name}
    return {**others, name: ",".join(str(number) for number in PLUGIN_ARTIFACT_FDS)} if granted else others


def spawn_environment(manifest: Manifest, root: str, log_level: str) -> dict[str, str]:
    """Names and values for a plugin installed at `root`, an absolute path."""
    prefix = _variable_prefix(manifest)
    runtime = manifest.runtime
    own = runtime.env if isinstance(runtime, CommandRuntime | PythonRuntime) else dict[str, str]()
    if isinstance(runtime, PythonRuntime) and manifest.kind in ISOLATED_KINDS:
        own = dict[str, str]()  # its worker has them in its orders
    return {
        f"{prefix}_LOG_LEVEL": log_level,
        "HOME": root,
        "LANG": "C.UTF-8",
        "PATH": CAGE_PATH,
        "TMPDIR": "/tmp",  # noqa: S108 the cage's own
        **own,
        f"{prefix}_PLUGIN_NAME": manifest.name,
        f"{prefix}_PLUGIN_DIR": root,
        f"{prefix}_API_VERSION": str(manifest.api),
    }


def _variable_prefix(manifest: Manifest) -> str:
    # A plugin written to kaged's document is told in kaged's words.
    return "KAGED" if manifest.dialect is Dialect.KAGED else "PADDOCK"
