"""Method names of the native protocol: kaged plugins know the host as `kaged`, all others as `paddock`."""

from __future__ import annotations

from paddock.manifest.model import CallableForm, CallableSpec, Dialect, Manifest

API_VERSION = 1

INITIALIZE = "initialize"
INITIALIZED = "initialized"
SHUTDOWN = "shutdown"
PING = "ping"
CONFIG_UPDATE = "config.update"
PROJECT_ACTIVATED = "projects.activated"
PROJECT_DEACTIVATED = "projects.deactivated"
RATE_LIMITED = "system.rate_limited"

# Optional features that a plugin may announce in its answer to `initialize`.
CALL_TOKENS = "call_tokens"  # requests carry an opaque `_call`, which the plugin echoes when it asks the host
CANCEL = "cancel"  # the plugin understands `<namespace>.cancel`
EVENTS = "events"  # the plugin may send `<namespace>.event` while it works on a call
FEATURES = frozenset({CALL_TOKENS, CANCEL, EVENTS})

EXECUTE_METHOD = "execute"  # the method of a plugin that is one single callable


def method_prefix(manifest: Manifest) -> str:
    """Return the prefix of the host's own methods for this plugin."""
    return "kaged" if manifest.dialect is Dialect.KAGED else "paddock"


def call_method(manifest: Manifest, spec: CallableSpec) -> str:
    """Return the JSON-RPC method of a callable."""
    match spec.form:
        case CallableForm.METHOD:
            return spec.name
        case CallableForm.WHOLE:
            return EXECUTE_METHOD
        case _:
            return f"{manifest.name}.{spec.name}"


def hook_method(manifest: Manifest, hook: str) -> str:
    return f"{method_prefix(manifest)}.hook.{hook}"


def cancel_method(manifest: Manifest) -> str:
    """Return the notification that cancels a request: `{"id": …}`."""
    return f"{method_prefix(manifest)}.cancel"


def event_method(manifest: Manifest) -> str:
    """Return the notification that reports on an in-flight request: `{"id": …, "event": {…}}`."""
    return f"{method_prefix(manifest)}.event"
