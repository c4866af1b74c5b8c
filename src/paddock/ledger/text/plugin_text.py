"""Words for plugins: installed and changed by people, and as processes that start, work and fall. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from paddock.ledger.text.sentence_template import EntryValues, SentenceTemplate, count_text, size_text

_DEFINITION_STATUS_TEXT: Final = {
    "accepted": "it was accepted",
    "quarantined": "it is held back until somebody accepts it",
    "bad": "it cannot be used",
    "gone": "it is not offered any more",
}


def _definition_changed(told: EntryValues) -> str:
    became = _DEFINITION_STATUS_TEXT.get(str(told.fields.get("standing")), told["standing"])
    return f"What {told['name']} says of its {told['kind']} {told['definition']} changed: {became}"


def _crashed(told: EntryValues) -> str:
    signal, code = told.text_if_present("signal", " (signal {})"), told.text_if_present("exit_code", " (exit code {})")
    return f"{told['name']} crashed{signal or code}"


def _upgraded(told: EntryValues) -> str:
    diff = EntryValues(told.fields.get("capability_diff") or {})
    more = diff.text_if_present("added", ", which may do more now: {}")
    words = f"{told.who} upgraded {told['name']} from {told['old_version']} to {told['new_version']}"
    return words + more


def _pinned(told: EntryValues) -> str:
    if told.fields.get("version") is None:
        return f"{told.who} unpinned {told['name']}"
    return f"{told.who} pinned {told['name']} to {told['version']}"


def _differ(told: EntryValues) -> str:
    extra, missing = told.text_if_present("extra", " more: {}"), told.text_if_present("missing", " missing: {}")
    return f"{told['name']} serves other methods than it declares;{';'.join(filter(None, (extra, missing)))}"


def _disabled(told: EntryValues) -> str:
    return f"{told['name']} was disabled{told.text_if_present('reason', ': {}')}"


def _configured(told: EntryValues) -> str:
    parts = (told.text_if_present("fields", "set {}"), told.text_if_present("forgotten", "cleared {}"))
    return f"{told.who} configured {told['name']}: {', '.join(filter(None, parts)) or 'nothing changed'}"


INSTALL_SENTENCES: Final[Mapping[str, SentenceTemplate]] = {
    "plugin.installed": SentenceTemplate("Installed", "{who} installed {name} {version}"),
    "plugin.upgraded": SentenceTemplate("Upgraded", _upgraded),
    "plugin.rolled_back": SentenceTemplate(
        "Rolled back",
        "{who} rolled {name} back from {old_version} to {new_version}",
    ),
    "plugin.pinned": SentenceTemplate("Pinned", _pinned),
    "plugin.uninstalled": SentenceTemplate("Removed", "{who} removed {name} {version}"),
    "plugin.repaired": SentenceTemplate("Repaired", "{who} restored the files of {name}"),
    "plugin.modified_detected": SentenceTemplate(
        "Files changed", "The files of {name} {version} were changed, so it does not run"
    ),
    "plugin.enabled": SentenceTemplate("Enabled", "{who} enabled {name}"),
    "plugin.disabled": SentenceTemplate("Disabled", _disabled),
    "plugin.granted": SentenceTemplate("Granted more", "{who} allowed {name} more: {capabilities}"),
    "plugin.config_validation_failed": SentenceTemplate(
        "Settings do not fit", "The {side} settings of {name} are not valid: {errors}"
    ),
    "plugin.configured": SentenceTemplate("Configured", _configured),
    "plugin.knob_write": SentenceTemplate("Setting tuned", "{who} changed {knob} of {name}"),
    "plugin.activated": SentenceTemplate("Activated", "{user_id} activated {plugin_id}"),
    "plugin.deactivated": SentenceTemplate("Deactivated", "{user_id} deactivated {plugin_id}"),
    "plugin.definitions_trusted": SentenceTemplate("First met", "{name} said what it offers: {accepted~thing}"),
    "plugin.definition_changed": SentenceTemplate("Definition changed", _definition_changed),
    "plugin.definition_accepted": SentenceTemplate(
        "Definition accepted", "{accepted_by} accepted what {name} says now of its {kind} {definition}"
    ),
    "plugin.definitions_left_out": SentenceTemplate(
        "Offers too much", "{name} lists more than is kept; {left_out} cannot be used"
    ),
    "plugin.flagged": SentenceTemplate("Odd words", "{name} has wording that somebody should look at: {flags}"),
    "key.trusted": SentenceTemplate("Signing key trusted", "{who} trusts the signing key {key_id}"),
    "key.removed": SentenceTemplate("Signing key removed", "{who} does not trust the signing key {key_id} any more"),
}

PROCESS_SENTENCES: Final[Mapping[str, SentenceTemplate]] = {
    "plugin.spawned": SentenceTemplate("Started", "{name} {version} started"),
    "plugin.embedded": SentenceTemplate("Embedded", "{name} {version} runs inside the application"),
    "plugin.connected": SentenceTemplate("Connected", "{name} {version} was connected to at {host}"),
    "plugin.initialized": SentenceTemplate("Ready", "{name} is ready"),
    "plugin.stopped": SentenceTemplate("Stopped", "{name} stopped as asked"),
    "plugin.exited": SentenceTemplate("Exited", "{name} ended by itself (exit code {exit_code})"),
    "plugin.crashed": SentenceTemplate("Crashed", _crashed),
    "plugin.killed": SentenceTemplate("Killed", "{name} did not stop in time and was killed"),
    "plugin.failed": SentenceTemplate(
        "Given up", "{name} failed {total_failures} times in a row and is not started any more"
    ),
    "plugin.health_fail": SentenceTemplate(
        "Health check failed",
        "{name} failed its health check ({consecutive_failures~time})",
    ),
    "plugin.initialize_timeout": SentenceTemplate("Did not get ready", "{name} was not ready within {timeout_sec} s"),
    "plugin.api_mismatch": SentenceTemplate(
        "Wrong protocol version", "{name} speaks version {received}, and not {expected}"
    ),
    "plugin.name_mismatch": SentenceTemplate("Wrong name", "{name} calls itself {received}"),
    "plugin.version_mismatch": SentenceTemplate("Wrong version", "{name} says it is {received}, and not {expected}"),
    "plugin.methods_differ": SentenceTemplate("Other methods", _differ),
    "plugin.protocol_violation": SentenceTemplate(
        "Broke the protocol", "{name} broke the protocol ({violation_type}): {detail}"
    ),
    "protocol.oversize_message": SentenceTemplate(
        "Message too long",
        "{name} sent a message of more than {limit_bytes~size} and was stopped",
    ),
    "plugin.notification": SentenceTemplate("Announcement", "{name} announced {notification_type}"),
    "plugin.notification_flood": SentenceTemplate("Too many announcements", "{name} announced more than it may"),
    "plugin.stdout_noise": SentenceTemplate("Stray output", "{name} wrote stray output: {line}"),
    "plugin.tool_registered": SentenceTemplate("Tool registered", "{name} offers {tool}"),
    "plugin.tool_name_collision": SentenceTemplate("Same name twice", "{first} and {second} both offer {tool}"),
    "plugin.role_violation": SentenceTemplate(
        "Two for one role", "{second} was refused: {first} has that role already"
    ),
    "plugin.conflict": SentenceTemplate(
        "Plugins disagreed", "{plugins} disagreed about {conflict_type}; settled by {resolution}"
    ),
    "plugin.hook.fired": SentenceTemplate("Hook called", "The hook {hook} of {name} was called"),
    "plugin.hook.returned": SentenceTemplate(
        "Hook answered",
        "The hook {hook} of {name} answered in {duration_ms~took}",
    ),
    "plugin.hook.timeout": SentenceTemplate(
        "Hook too slow", "The hook {hook} of {name} took longer than {timeout_sec} s"
    ),
    "plugin.hook.failed": SentenceTemplate("Hook failed", "The hook {hook} of {name} failed: {error_message}"),
    "plugin.hook.illegal": SentenceTemplate(
        "Hook not allowed", "{name} declares {hook}, which only a primary agent may have"
    ),
    "compaction.triggered": SentenceTemplate(
        "Compaction began", "A session with {message_count} messages is being shortened"
    ),
    "compaction.completed": SentenceTemplate(
        "Compaction done", "A session was shortened from {messages_before} to {messages_after} messages"
    ),
    "compaction.failed": SentenceTemplate("Compaction failed", "Shortening a session by {strategy} failed: {reason}"),
    "compaction.flagged": SentenceTemplate("Compaction to check", "A shortened session should be looked at: {reason}"),
    "compactor_dropped_always_keep": SentenceTemplate(
        "Compactor lost messages", "{name} left out messages that must stay, so its answer was not used"
    ),
}


def _fetched(told: EntryValues) -> str:
    status = told.fields.get("status")
    became = f"answered {status}" if status is not None else f"no answer ({told['error_code']})"
    return (
        f"{told['name']} asked {told['host']} ({told['method']}): {became}"
        f" in {told['duration_ms~took']}, {told['bytes_down~size']} received"
    )


def _connected(told: EntryValues) -> str:
    where = f"{told['host']}:{told['port']}"
    if told.fields.get("error"):
        return f"{told['name']} could not reach {where}: {told['error']}"
    moved = size_text(told.number("bytes_up") + told.number("bytes_down"))
    return f"{told['name']} was connected to {where} for {told['duration_ms~took']}, {moved}"


def _denied(told: EntryValues) -> str:
    why = "the rules forbid it" if told.fields.get("policies") else f"{told['capability']} was never granted"
    return f"{told['name']} was not allowed to use {told['method']}: {why}"


def _withheld(told: EntryValues) -> str:
    where = f"{told['host']}{told.text_if_present('port', ':{}')}"
    times = told.number("times")
    often = f" ({count_text(times, 'time')})" if times > 1 else ""
    return f"{told['name']} was kept from reaching {where}{often}: {told['reason']}"


CAPABILITY_SENTENCES: Final[Mapping[str, SentenceTemplate]] = {
    "plugin.capability_denied": SentenceTemplate("Denied by the host", _denied),
    "plugin.capability_overreach": SentenceTemplate(
        "Claims too much", "{name} claimed more than it declares: {claimed}"
    ),
    "plugin.denial_flood": SentenceTemplate(
        "Denied too often", "{name} was denied so often that the rest is not recorded"
    ),
    "plugin.asked": SentenceTemplate("Asked the host", "{name} used {method} {count~time}"),
    "plugin.audited": SentenceTemplate("Plugin's own note", "{name} notes: {action}"),
    "plugin.fetched": SentenceTemplate("Web request", _fetched),
    "plugin.net_connected": SentenceTemplate("Connection", _connected),
    "plugin.net_denied": SentenceTemplate("Connection refused", _withheld),
    "plugin.storage_denied": SentenceTemplate("Storage refused", "{name} reached for data that is not its own"),
    "plugin.storage_dropped": SentenceTemplate("Tables dropped", "The tables of {name} were dropped: {tables}"),
    "plugin.artifact_created": SentenceTemplate(
        "File made",
        "{plugin_id} made a {artifact_type} of {size_bytes~size}",
    ),
    "secret.used": SentenceTemplate("Secret used", "{plugin} was given the secret {secret}"),
}
