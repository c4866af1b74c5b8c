"""Every audit event exists, with the data its source document lists, and is plain JSON once recorded."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

import paddock
from fixtures.all_cases import all_cases
from paddock.core.call import Nondeterminism, Stability
from paddock.core.errors import HostError
from paddock.core.events import index
from paddock.core.events.event import event
from paddock.core.events.index import EVENT_TYPES, Event, to_record

# The plugin host's table; `method_called` with the names that its amendment gave to user_id and project.
TABLE = """
plugin.spawned name version pid cage_id
plugin.initialized name methods_count capabilities_count
plugin.method_called name method request_id operator_id project_id
plugin.method_returned name method request_id duration_ms success
plugin.notification name notification_type
plugin.notification_flood name rate
plugin.stdout_noise name line
plugin.health_fail name consecutive_failures
plugin.crashed name exit_code signal last_stderr
plugin.exited name exit_code
plugin.killed name
plugin.failed name total_failures
plugin.enabled name
plugin.disabled name reason
plugin.installed name version source local
plugin.upgraded name old_version new_version capability_diff
plugin.uninstalled name version
plugin.protocol_violation name violation_type detail
plugin.capability_overreach name claimed allowed
plugin.storage_denied name sql
plugin.hook.fired name hook agent_path session_id request_id
plugin.hook.returned name hook duration_ms has_result
plugin.hook.timeout name hook agent_path timeout_sec
plugin.hook.failed name hook agent_path error_code error_message
plugin.hook.illegal name hook agent_path
plugin.tool_registered name tool agent_path
plugin.tool_name_collision first second tool
plugin.role_violation first second agent_path
plugin.config_validation_failed name side errors
plugin.knob_write name knob agent_path request_id
plugin.activated plugin_id user_id tools_count
plugin.deactivated plugin_id user_id session_duration_seconds
plugin.conflict plugins conflict_type resolution user_choice
plugin.tool_invoked plugin_id tool_name duration_ms success
plugin.artifact_created plugin_id artifact_uri artifact_type size_bytes
"""
ALSO = """plugin.initialize_timeout plugin.api_mismatch plugin.name_mismatch plugin.version_mismatch plugin.stopped
protocol.oversize_message compactor_dropped_always_keep compaction.triggered compaction.completed compaction.failed
compaction.flagged plugin.granted plugin.configured plugin.tried
plugin.pinned plugin.rolled_back plugin.repaired plugin.modified_detected key.trusted key.removed
plugin.net_connected plugin.net_denied plugin.methods_differ plugin.capability_denied plugin.denial_flood
plugin.embedded plugin.connected plugin.definitions_trusted plugin.definition_changed
plugin.definition_accepted plugin.definitions_left_out plugin.claims_trusted plugin.claims_distrusted
tenant.created tenant.removed person.added person.changed
session.opened session.ended login_link.made login_link.refused
group.changed api_key.created api_key.revoked consent.given consent.revoked ledger.erased ledger.undescribed
call.started call.ended call.dry_run effect.in_doubt effect.in_progress effect.resolved
approval.requested approval.answered approval.consumed approval.ended approval.standing_given approval.standing_revoked
plugin.asked plugin.audited plugin.fetched policy.changed secret.set secret.removed secret.used secret.rotated
policy.edited queue.given_up plugin.flagged webhook.added webhook.changed webhook.removed webhook.gave_up
identity.linked sign_in.refused repair.ignored repair.unignored"""
MORE = {
    "plugin.installed": "digest capabilities accepted_dangers",
    "plugin.upgraded": "digest capabilities accepted_dangers",
}
ROWS = [line.split() for line in TABLE.strip().splitlines()]


def fields_of(kind: type[Event]) -> list[str]:
    return list(kind.__struct_fields__)


@all_cases("row", ROWS, ids=lambda row: row[0])
def test_an_event_carries_exactly_the_data_its_table_lists_and_what_we_add(row: list[str]) -> None:
    assert fields_of(EVENT_TYPES[row[0]]) == [*row[1:], *MORE.get(row[0], "").split()]


def test_the_registry_holds_these_events_and_no_others() -> None:
    assert set(EVENT_TYPES) == {row[0] for row in ROWS} | set(ALSO.split())


@all_cases("name", sorted(EVENT_TYPES))
def test_every_event_is_slotted_and_written_as_plain_json(name: str) -> None:
    kind: Any = EVENT_TYPES[name]
    fact = kind(**dict.fromkeys(fields_of(kind), "x"))
    record = to_record(fact)
    assert record == {"type": name, **json.loads(json.dumps(record, allow_nan=False))}
    assert list(record) == ["type", *fields_of(kind)]
    assert not hasattr(fact, "__dict__")


def test_every_event_is_published_by_the_program_or_reserved() -> None:
    """An event is published where code outside `core/events` constructs it, or a `SplitEvent` of its class."""
    package = Path(paddock.__file__).parent
    constructed: set[str] = set()
    for file in package.rglob("*.py"):
        if file.parent != package / "core" / "events":
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                match node:
                    case ast.Call(func=ast.Name(id="SplitEvent"), args=[ast.Name(id=name), *_]):
                        constructed.add(name)
                    case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                        constructed.add(name)
                    case _:
                        pass
    for name, kind in EVENT_TYPES.items():
        assert bool(kind.reserved) is not (kind.__name__ in constructed), name


def test_nested_values_become_plain_data() -> None:
    diff = index.CapabilityDiff(added=("net:example.com",))
    upgraded = index.PluginUpgraded("memory", "1.0.0", "2.0.0", diff, "sha256:0", ("net:example.com",))
    assert to_record(upgraded)["capability_diff"] == {"added": ["net:example.com"], "removed": []}
    reported = index.PluginAudited(
        "memory", "scored", {"sources": Nondeterminism(True, ("llm",), Stability.LOW)}, None, None
    )
    expected = {"is_nondeterministic": True, "reasons": ["llm"], "stability": "low"}
    assert to_record(reported)["details"] == {"sources": expected}


def test_what_a_plugin_printed_is_cut_to_the_documented_length() -> None:
    assert len(index.PluginStdoutNoise("p", "x" * 5000).line) == 200
    lines = tuple(str(n) for n in range(80))
    assert index.PluginCrashed("p", 1, None, lines).last_stderr == lines[-50:]


def test_two_events_cannot_share_a_type() -> None:
    with pytest.raises(HostError):

        @event("plugin.enabled")
        class Again(Event, frozen=True):  # pyright: ignore[reportUnusedClass]
            name: str
