"""Labels and sentences for plugins: installation, processes and use of capabilities. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from paddock.core.printable import count_text
from paddock.ledger.text.sentence_template import EntryValues, SentenceTemplate, size_text

_DEFINITION_STATUS_TEXT: Final = {
    "accepted": "it was accepted",
    "quarantined": "it is withheld until a person accepts it",
    "bad": "it cannot be used",
    "gone": "it is not offered any more",
}
_TRUSTED_WORDS: Final = {"reads": "only reads", "errors": "has done nothing where it answers with an error"}


def _claims_trusted(values: EntryValues) -> str:
    return f"{values.who} takes the word of {values['name']} {values['version']} {_trusted_word(values)}"


def _claims_distrusted(values: EntryValues) -> str:
    return f"{values.who} no longer takes the word of {values['name']} {_trusted_word(values)}"


def _trusted_word(values: EntryValues) -> str:
    return f"that each of these {_TRUSTED_WORDS.get(values['word'], values['word'])}: {values['tools']}"


def _definition_changed(values: EntryValues) -> str:
    status = _DEFINITION_STATUS_TEXT.get(str(values.fields.get("standing")), values["standing"])
    return f"What {values['name']} says of its {values['kind']} {values['definition']} changed: {status}"


def _crashed(values: EntryValues) -> str:
    signal, code = (
        values.text_if_present("signal", " (signal {})"),
        values.text_if_present("exit_code", " (exit code {})"),
    )
    return f"{values['name']} crashed{signal or code}"


def _upgraded(values: EntryValues) -> str:
    diff = EntryValues(values.fields.get("capability_diff") or {})
    added = diff.text_if_present("added", ", which may do more now: {}")
    sentence = f"{values.who} upgraded {values['name']} from {values['old_version']} to {values['new_version']}"
    return sentence + added


def _pinned(values: EntryValues) -> str:
    if values.fields.get("version") is None:
        return f"{values.who} unpinned {values['name']}"
    return f"{values.who} pinned {values['name']} to {values['version']}"


def _differ(values: EntryValues) -> str:
    extra, missing = values.text_if_present("extra", " more: {}"), values.text_if_present("missing", " missing: {}")
    return f"{values['name']} serves other methods than it declares;{';'.join(filter(None, (extra, missing)))}"


def _disabled(values: EntryValues) -> str:
    return f"{values['name']} was disabled{values.text_if_present('reason', ': {}')}"


def _configured(values: EntryValues) -> str:
    parts = (values.text_if_present("fields", "set {}"), values.text_if_present("forgotten", "cleared {}"))
    return f"{values.who} configured {values['name']}: {', '.join(filter(None, parts)) or 'nothing changed'}"


def _tried(values: EntryValues) -> str:
    tried = f"{values.who} tried what {values['name']} needs"
    if not values.fields.get("error"):
        return tried
    if values.fields["error"] == "trial.cancelled":
        return f"{tried}, and the trial was cancelled"
    return f"{tried}, without a result: {values['error']}{values.text_if_present('tool', ' (its tool {})')}"


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
    "plugin.tried": SentenceTemplate("Tried", _tried),
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
    "plugin.claims_trusted": SentenceTemplate("Word taken", _claims_trusted),
    "plugin.claims_distrusted": SentenceTemplate("Word no longer taken", _claims_distrusted),
    "plugin.definitions_left_out": SentenceTemplate(
        "Offers too much", "{name} lists more than is kept; {left_out} cannot be used"
    ),
    "plugin.flagged": SentenceTemplate("Suspicious wording", "{name} has suspicious wording: {flags}"),
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


def _fetched(values: EntryValues) -> str:
    status = values.fields.get("status")
    outcome = f"answered {status}" if status is not None else f"no answer ({values['error_code']})"
    return (
        f"{values['name']} asked {values['host']} ({values['method']}): {outcome}"
        f" in {values['duration_ms~took']}, {values['bytes_down~size']} received"
    )


def _connected(values: EntryValues) -> str:
    address = f"{values['host']}:{values['port']}"
    if values.fields.get("error"):
        return f"{values['name']} could not reach {address}: {values['error']}"
    transferred = size_text(values.number("bytes_up") + values.number("bytes_down"))
    return f"{values['name']} was connected to {address} for {values['duration_ms~took']}, {transferred}"


def _denied(values: EntryValues) -> str:
    reason = "the rules forbid it" if values.fields.get("policies") else f"{values['capability']} was never granted"
    return f"{values['name']} was not allowed to use {values['method']}: {reason}"


def _withheld(values: EntryValues) -> str:
    address = f"{values['host']}{values.text_if_present('port', ':{}')}"
    times = values.number("times")
    repeats = f" ({count_text(int(times), 'time')})" if times > 1 else ""
    return f"{values['name']} was kept from reaching {address}{repeats}: {values['reason']}"


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
    "plugin.artifact_created": SentenceTemplate(
        "File made",
        "{plugin_id} made a {artifact_type} of {size_bytes~size}",
    ),
    "secret.used": SentenceTemplate("Secret used", "{plugin} was given the secret {secret}"),
}
