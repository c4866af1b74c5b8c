"""What things are called on a wire: some plugins know the host as `kaged`, all others as `paddock`."""

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

EXECUTE_METHOD = "execute"  # what a plugin that is one single callable is asked to do


def method_prefix(manifest: Manifest) -> str:
    """How the host's own methods begin for this plugin."""
    return "kaged" if manifest.dialect is Dialect.KAGED else "paddock"


def call_method(manifest: Manifest, spec: CallableSpec) -> str:
    """The method that a callable is on the wire."""
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
    """The notification that asks a plugin to stop working on a request: `{"id": …}`."""
    return f"{method_prefix(manifest)}.cancel"


def event_method(manifest: Manifest) -> str:
    """The notification by which a plugin tells about a request it is working on: `{"id": …, "event": {…}}`."""
    return f"{method_prefix(manifest)}.event"
