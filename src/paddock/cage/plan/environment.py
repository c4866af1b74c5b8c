"""The environment that a plugin's process starts with. Pure.

Nothing of the daemon's own environment is in it. What the manifest sets is laid over the defaults, except for the
names that tell a plugin who it is: those are the host's word.
"""

from __future__ import annotations

from paddock.manifest.model import CommandRuntime, Dialect, Manifest, PythonRuntime

CAGE_PATH = "/usr/bin:/usr/local/bin"


def spawn_environment(manifest: Manifest, root: str, log_level: str) -> dict[str, str]:
    """Names and values for a plugin installed at `root`, an absolute path."""
    # A plugin written to kaged's document is told in kaged's words.
    prefix = "KAGED" if manifest.dialect is Dialect.KAGED else "PADDOCK"
    runtime = manifest.runtime
    own = runtime.env if isinstance(runtime, CommandRuntime | PythonRuntime) else dict[str, str]()
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
