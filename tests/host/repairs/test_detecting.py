"""What somebody has to see to, by the facts alone: what is found, how bad it is, and when an old word still counts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from paddock.core.ids import Tenant
from paddock.host.repairs.facts import (
    ApiKeyFacts,
    HostProblem,
    MachineFacts,
    MissingSecret,
    PluginFacts,
    RepairFacts,
    UnknownOutcomeFacts,
    WebhookFacts,
    WrappingKeyFacts,
)
from paddock.host.repairs.repair import Repair, RepairButton, Severity
from paddock.host.repairs.repair_service import detect_repairs, is_transient

NOW = datetime(2030, 1, 31, 8, 0, tzinfo=UTC)
ACME = Tenant("acme")
GROUPS = {"memory": "cgroup v2", "pids": "cgroup v2", "cpu": "cgroup v2"}
WELL = RepairFacts(
    NOW,
    plugins=(PluginFacts("notes", "1.0.0", runtime="running"), PluginFacts("idle", state="disabled", enabled=False)),
    webhooks=(WebhookFacts("wh_1", "tickets", attempts=1, reason="busy"),),
    keys=(ApiKeyFacts("abc", "mailer", "ann", (NOW + timedelta(days=90)).isoformat()),),
    unknown_outcomes=UnknownOutcomeFacts(total=2, waiting=0),
    wrapping_key=WrappingKeyFacts("k1"),
    machine=MachineFacts(1 << 40, "/data", GROUPS),
)


def only(facts: RepairFacts) -> Repair:
    (found,) = detect_repairs(facts)
    return found


def plugin(**facts: Any) -> RepairFacts:
    return replace(WELL, plugins=(PluginFacts("notes", "1.0.0", **facts),))


def actions(one: Repair) -> list[str]:
    return [way.action for way in one.ways if isinstance(way, RepairButton)]


def test_where_all_is_well_nothing_needs_repair() -> None:
    assert detect_repairs(WELL) == []
    assert detect_repairs(replace(WELL, machine=None)) == []


@pytest.mark.parametrize(
    ("facts", "kind", "severity", "pressed"),
    [
        ({"state": "modified"}, "plugin.modified", Severity.BROKEN, ["restore"]),
        ({"state": "version missing", "pinned": "0.9.0"}, "plugin.version_gone", Severity.BROKEN, ["unpin"]),
        ({"enabled": False, "given_up": "it crashed"}, "plugin.given_up", Severity.BROKEN, ["enable"]),
        ({"runtime": "failed", "reason": "it ended"}, "plugin.down", Severity.BROKEN, ["restart"]),
        ({"runtime": "crashed", "reason": "it ended"}, "plugin.down", Severity.NOTICE, ["restart"]),
        ({"unfilled": ("folder",)}, "plugin.configuration", Severity.BROKEN, []),
        ({"unset": {"key": ("SMTP_KEY is not set",)}}, "plugin.configuration", Severity.BROKEN, []),
        ({"unused_config": "it says no"}, "plugin.configuration_unused", Severity.NOTICE, ["restart"]),
        ({"waiting": 2}, "plugin.definitions", Severity.NOTICE, []),
        ({"secrets": (MissingSecret("key", ("send",)),)}, "secret.missing", Severity.BROKEN, []),
        ({"secrets": (MissingSecret("key", ("send",), personal_too=True),)}, "secret.missing", Severity.NOTICE, []),
    ],
)
def test_a_plugin_that_needs_somebody_is_told_once_with_a_way_out(
    facts: dict[str, Any], kind: str, severity: Severity, pressed: list[str]
) -> None:
    found = only(plugin(**facts))

    assert (found.kind, found.severity, actions(found)) == (kind, severity, pressed)
    assert found.title.startswith(("notes", "The files of notes were modified"))
    assert found.ways


def test_one_cause_is_one_repair() -> None:
    reason = "the files of notes 1.0.0 are not the ones you consented to: changed main.py"
    modified = only(plugin(state="modified", runtime="failed", reason=reason, code="plugin.modified", waiting=1))
    assert modified.kind == "plugin.modified"
    assert modified.cause.endswith("consented to: changed main.py.")

    unset = only(plugin(runtime="disabled", reason="no folder", code="config.missing", unfilled=("folder",)))
    assert unset.kind == "plugin.configuration"


def test_what_is_disabled_is_left_alone() -> None:
    assert detect_repairs(plugin(enabled=False, unfilled=("folder",), secrets=(MissingSecret("key", ("send",)),))) == []


@pytest.mark.parametrize(
    ("facts", "kind", "severity"),
    [
        ({"machine": MachineFacts(50 << 20, "/data", GROUPS)}, "machine.disk", Severity.URGENT),
        ({"machine": MachineFacts(500 << 20, "/data", GROUPS)}, "machine.disk", Severity.NOTICE),
        ({"machine": MachineFacts(1 << 40, "/d", {"cpu": "niceness"}, ("cpu",))}, "machine.limits", Severity.NOTICE),
        ({"machine": MachineFacts(1 << 40, "/d", cage_error="no bwrap")}, "machine.cage", Severity.URGENT),
        ({"wrapping_key": WrappingKeyFacts("k1", "the key is not here")}, "secret.key_missing", Severity.BROKEN),
        ({"wrapping_key": WrappingKeyFacts("k2", replaced=1)}, "secret.rotation", Severity.NOTICE),
        ({"unknown_outcomes": UnknownOutcomeFacts(3, 1, "call_1")}, "effect.in_doubt", Severity.BROKEN),
        (
            {"host_problems": (HostProblem("ledger", "store.full", "no room", rejects_calls=True),)},
            "host.ledger",
            Severity.URGENT,
        ),
        ({"host_problems": (HostProblem("checkpoints", "ledger.key", "no key"),)}, "host.checkpoints", Severity.BROKEN),
        ({"host_problems": (HostProblem("rules", "policy.invalid", "line 3"),)}, "host.rules", Severity.BROKEN),
    ],
)
def test_what_is_wrong_with_the_host_is_told_by_how_bad_it_is(
    facts: dict[str, Any], kind: str, severity: Severity
) -> None:
    found = only(replace(WELL, **facts))

    assert (found.kind, found.severity) == (kind, severity)
    assert found.ways


def test_the_machine_and_its_keys_are_no_affair_of_other_tenants() -> None:
    wrong = replace(
        WELL,
        tenant=ACME,
        machine=MachineFacts(1, "/data", cage_error="no"),
        wrapping_key=WrappingKeyFacts("k1", "gone"),
        plugins=(),
    )
    assert detect_repairs(wrong) == []


def test_a_webhook_is_told_of_when_it_takes_nothing_is_off_or_left_letters_behind() -> None:
    failing = WebhookFacts("wh_1", "tickets", attempts=5, reason="refused")
    off = WebhookFacts("wh_2", "", enabled=False, disabled_why="gone", dead=3, last_dead=40)
    by_somebody = WebhookFacts("wh_3", "", enabled=False, disabled_why="operator")

    found = detect_repairs(replace(WELL, webhooks=(failing, off, by_somebody)))

    assert [(one.kind, one.subject, actions(one)) for one in found] == [
        ("webhook.off", "wh_2", ["webhook.on", "webhook.remove"]),
        ("webhook.dead_letters", "wh_2", ["webhook.retry"]),
        ("webhook.failing", "wh_1", ["webhook.test"]),
    ]


@pytest.mark.parametrize(("days", "kind"), [(-31, None), (-1, "api_key.expired"), (3, "api_key.expiring"), (15, None)])
def test_a_key_is_told_of_shortly_before_and_after_it_expires(days: int, kind: str | None) -> None:
    key = ApiKeyFacts("abc", "mailer", "ann", (NOW + timedelta(days=days)).isoformat())
    assert [one.kind for one in detect_repairs(replace(WELL, keys=(key,)))] == ([kind] if kind else [])


def test_the_worst_comes_first() -> None:
    facts = replace(
        plugin(state="modified"),
        machine=MachineFacts(1, "/data", {"cpu": "niceness"}, ("cpu",)),
        unknown_outcomes=UnknownOutcomeFacts(1, 1, "call_1"),
    )
    found = detect_repairs(facts)

    assert [one.severity for one in found] == [Severity.URGENT, Severity.BROKEN, Severity.BROKEN, Severity.NOTICE]


def test_a_cause_is_the_same_while_it_only_counts_on_and_another_once_it_changes() -> None:
    def disk(free: int) -> str:
        return only(replace(WELL, machine=MachineFacts(free, "/data", GROUPS))).fingerprint

    assert disk(500 << 20) == disk(400 << 20)
    assert disk(500 << 20) != disk(50 << 20)

    def files(seen: str) -> str:
        return only(plugin(state="modified", files=seen)).fingerprint

    assert files("one") == only(plugin(state="modified", files="one", reason="x", code="plugin.modified")).fingerprint
    assert files("one") != files("two")

    def doubts(latest: str) -> str:
        return only(replace(WELL, unknown_outcomes=UnknownOutcomeFacts(2, 2, latest))).fingerprint

    assert doubts("call_1") != doubts("call_2")


def test_what_may_only_seem_to_be_gone_is_not_forgotten() -> None:
    assert is_transient("plugin.down:notes")
    assert is_transient("machine.limits:")
    assert not is_transient("plugin.modified:notes")
    assert not is_transient("plugin.given_up:notes")
