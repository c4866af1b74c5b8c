"""The environment variables that a plugin's process starts with. Pure.

Nothing of the daemon's own environment is in it. The manifest's variables override the defaults, except for the
names that identify the plugin: the host sets those.
"""

from __future__ import annotations

from collections.abc import Mapping

from paddock.cage.confine.sandbox_init import PLUGIN_ARTIFACT_FDS
from paddock.manifest.model import CommandRuntime, Dialect, Manifest, PluginKind, PythonRuntime

ISOLATED_KINDS = frozenset({PluginKind.AGENT})
# An interpreter runs code at start, from files that it finds through variables and in package directories. With these
# flags it looks nowhere but in its own library, as a zygote does. The worker sets the rest of its path itself, and gets
# the manifest's variables in its own configuration.
ISOLATED_PYTHON_FLAGS = ("-I", "-S")


CAGE_PATH = "/usr/bin:/usr/local/bin"


def with_artifact_fds(environment: Mapping[str, str], manifest: Manifest, *, granted: bool) -> dict[str, str]:
    """Add the variable that names the plugin's artifact pipes: to read from, and to write to.

    Where the plugin has none the variable is removed, whatever the manifest sets.
    """
    name = f"{_variable_prefix(manifest)}_ARTIFACTS_FDS"
    others = {key: value for key, value in environment.items() if key != name}
    return {**others, name: ",".join(str(number) for number in PLUGIN_ARTIFACT_FDS)} if granted else others


def spawn_environment(manifest: Manifest, root: str, log_level: str) -> dict[str, str]:
    """The variables for a plugin installed at `root`, an absolute path."""
    prefix = _variable_prefix(manifest)
    runtime = manifest.runtime
    own = runtime.env if isinstance(runtime, CommandRuntime | PythonRuntime) else dict[str, str]()
    if isinstance(runtime, PythonRuntime) and manifest.kind in ISOLATED_KINDS:
        own = dict[str, str]()  # its worker gets them in its configuration
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
    # A plugin written for kaged's contract gets kaged's variable names.
    return "KAGED" if manifest.dialect is Dialect.KAGED else "PADDOCK"
