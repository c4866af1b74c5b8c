"""Words for plugins: installed and changed by people, and as processes that start, work and fall. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from paddock.ledger.words.phrase import Told, Words

_STANDING: Final = {
    "accepted": "it was accepted",
    "quarantined": "it is held back until somebody accepts it",
    "bad": "it cannot be used",
    "gone": "it is not offered any more",
}


def _definition_changed(told: Told) -> str:
    became = _STANDING.get(str(told.said.get("standing")), told["standing"])
    return f"What {told['name']} says of its {told['kind']} {told['definition']} changed: {became}"


def _crashed(told: Told) -> str:
    signal, code = told.when("signal", " (signal {})"), told.when("exit_code", " (exit code {})")
    return f"{told['name']} crashed{signal or code}"


def _upgraded(told: Told) -> str:
    diff = Told(told.said.get("capability_diff") or {})
    more = diff.when("added", ", which may do more now: {}")
    words = f"{told.who} upgraded {told['name']} from {told['old_version']} to {told['new_version']}"
    return words + more


def _pinned(told: Told) -> str:
    if told.said.get("version") is None:
        return f"{told.who} unpinned {told['name']}"
    return f"{told.who} pinned {told['name']} to {told['version']}"


def _differ(told: Told) -> str:
    extra, missing = told.when("extra", " more: {}"), told.when("missing", " missing: {}")
    return f"{told['name']} serves other methods than it declares;{';'.join(filter(None, (extra, missing)))}"


def _disabled(told: Told) -> str:
    return f"{told['name']} was disabled{told.when('reason', ': {}')}"


def _configured(told: Told) -> str:
    parts = (told.when("fields", "set {}"), told.when("forgotten", "cleared {}"))
    return f"{told.who} configured {told['name']}: {', '.join(filter(None, parts)) or 'nothing changed'}"


INSTALLED: Final[Mapping[str, Words]] = {
    "plugin.installed": Words("Installed", "{who} installed {name} {version}"),
    "plugin.upgraded": Words("Upgraded", _upgraded),
    "plugin.rolled_back": Words(
        "Rolled back",
        "{who} rolled {name} back from {old_version} to {new_version}",
    ),
    "plugin.pinned": Words("Pinned", _pinned),
    "plugin.uninstalled": Words("Removed", "{who} removed {name} {version}"),
    "plugin.repaired": Words("Repaired", "{who} restored the files of {name}"),
    "plugin.modified_detected": Words(
        "Files changed", "The files of {name} {version} were changed, so it does not run"
    ),
    "plugin.enabled": Words("Enabled", "{who} enabled {name}"),
    "plugin.disabled": Words("Disabled", _disabled),
    "plugin.granted": Words("Granted more", "{who} allowed {name} more: {capabilities}"),
    "plugin.config_validation_failed": Words(
        "Settings do not fit", "The {side} settings of {name} are not valid: {errors}"
    ),
    "plugin.configured": Words("Configured", _configured),
    "plugin.knob_write": Words("Setting tuned", "{who} changed {knob} of {name}"),
    "plugin.activated": Words("Activated", "{user_id} activated {plugin_id}"),
    "plugin.deactivated": Words("Deactivated", "{user_id} deactivated {plugin_id}"),
    "plugin.definitions_trusted": Words("First met", "{name} said what it offers: {accepted~thing}"),
    "plugin.definition_changed": Words("Definition changed", _definition_changed),
    "plugin.definition_accepted": Words(
        "Definition accepted", "{accepted_by} accepted what {name} says now of its {kind} {definition}"
    ),
    "plugin.definitions_left_out": Words(
        "Offers too much", "{name} lists more than is kept; {left_out} cannot be used"
    ),
    "plugin.flagged": Words("Odd words", "{name} has wording that somebody should look at: {flags}"),
    "key.trusted": Words("Signing key trusted", "{who} trusts the signing key {key_id}"),
    "key.removed": Words("Signing key removed", "{who} does not trust the signing key {key_id} any more"),
}

RUNNING: Final[Mapping[str, Words]] = {
    "plugin.spawned": Words("Started", "{name} {version} started"),
    "plugin.embedded": Words("Embedded", "{name} {version} runs inside the application"),
    "plugin.connected": Words("Connected", "{name} {version} was connected to at {host}"),
    "plugin.initialized": Words("Ready", "{name} is ready"),
    "plugin.stopped": Words("Stopped", "{name} stopped as asked"),
    "plugin.exited": Words("Exited", "{name} ended by itself (exit code {exit_code})"),
    "plugin.crashed": Words("Crashed", _crashed),
    "plugin.killed": Words("Killed", "{name} did not stop in time and was killed"),
    "plugin.failed": Words("Given up", "{name} failed {total_failures} times in a row and is not started any more"),
    "plugin.health_fail": Words(
        "Health check failed",
        "{name} failed its health check ({consecutive_failures~time})",
    ),
    "plugin.initialize_timeout": Words("Did not get ready", "{name} was not ready within {timeout_sec} s"),
    "plugin.api_mismatch": Words("Wrong protocol version", "{name} speaks version {received}, and not {expected}"),
    "plugin.name_mismatch": Words("Wrong name", "{name} calls itself {received}"),
    "plugin.version_mismatch": Words("Wrong version", "{name} says it is {received}, and not {expected}"),
    "plugin.methods_differ": Words("Other methods", _differ),
    "plugin.protocol_violation": Words("Broke the protocol", "{name} broke the protocol ({violation_type}): {detail}"),
    "protocol.oversize_message": Words(
        "Message too long",
        "{name} sent a message of more than {limit_bytes~size} and was stopped",
    ),
    "plugin.notification": Words("Announcement", "{name} announced {notification_type}"),
    "plugin.notification_flood": Words("Too many announcements", "{name} announced more than it may"),
    "plugin.stdout_noise": Words("Stray output", "{name} wrote stray output: {line}"),
    "plugin.tool_registered": Words("Tool registered", "{name} offers {tool}"),
    "plugin.tool_name_collision": Words("Same name twice", "{first} and {second} both offer {tool}"),
    "plugin.role_violation": Words("Two for one role", "{second} was refused: {first} has that role already"),
    "plugin.conflict": Words("Plugins disagreed", "{plugins} disagreed about {conflict_type}; settled by {resolution}"),
    "plugin.hook.fired": Words("Hook called", "The hook {hook} of {name} was called"),
    "plugin.hook.returned": Words(
        "Hook answered",
        "The hook {hook} of {name} answered in {duration_ms~took}",
    ),
    "plugin.hook.timeout": Words("Hook too slow", "The hook {hook} of {name} took longer than {timeout_sec} s"),
    "plugin.hook.failed": Words("Hook failed", "The hook {hook} of {name} failed: {error_message}"),
    "plugin.hook.illegal": Words("Hook not allowed", "{name} declares {hook}, which only a primary agent may have"),
    "compaction.triggered": Words("Compaction began", "A session with {message_count} messages is being shortened"),
    "compaction.completed": Words(
        "Compaction done", "A session was shortened from {messages_before} to {messages_after} messages"
    ),
    "compaction.failed": Words("Compaction failed", "Shortening a session by {strategy} failed: {reason}"),
    "compaction.flagged": Words("Compaction to check", "A shortened session should be looked at: {reason}"),
    "compactor_dropped_always_keep": Words(
        "Compactor lost messages", "{name} left out messages that must stay, so its answer was not used"
    ),
}
