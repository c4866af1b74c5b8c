"""Detects repairs of everything but plugins: each function looks for one cause in the facts. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from paddock.core.ids import DEFAULT_TENANT
from paddock.core.printable import count_text
from paddock.host.repairs.facts import ApiKeyFacts, HostProblem, RepairFacts, WebhookFacts
from paddock.host.repairs.repair import Repair, RepairButton, RepairCommand, RepairLink, RepairOption, Severity

EXPIRY_WARNING_PERIOD = timedelta(days=14)
"""How long before a key expires it is reported."""
EXPIRED_NOTICE_PERIOD = timedelta(days=30)
"""How long an expired key is reported: its users have noticed by then."""
_MIB, _GIB = 1 << 20, 1 << 30
DISK_LOW_BYTES, DISK_CRITICAL_BYTES = _GIB, 100 * _MIB
_WEBHOOKS_LINK = RepairLink("/settings/webhooks", "Look at webhooks")
_DOCTOR_LINK = RepairLink("/settings/host/check", "Check this machine", host_only=True)
_MIN_FAILED_ATTEMPTS = 3  # a single failure is not reported

_PROBLEM_TEXT = {
    "ledger": ("The ledger cannot be written", "Calls that cannot be recorded do not run, so they are rejected."),
    "checkpoints": (
        "The ledger has no new checkpoint",
        "Calls still run. Until the next checkpoint, it cannot be proven that the newest entries are unchanged.",
    ),
    "rules": ("The rules have mistakes", "The rules from before the change stay in force until they are corrected."),
}


def detect_host_problems(facts: RepairFacts) -> Iterable[Repair]:
    """Detect problems that the host reports about itself."""
    for problem in facts.host_problems:
        title, meaning = _PROBLEM_TEXT.get(problem.about, (f"There is a problem with {problem.about}", ""))
        if problem.code == "ledger.broken":
            title = "The ledger was modified"
            meaning = "Its entries are not the ones that were recorded. Calls of this tenant are rejected meanwhile."
        yield Repair(
            f"host.{problem.about}",
            problem.code,
            Severity.URGENT if problem.rejects_calls else Severity.BROKEN,
            title,
            f"{problem.message}. {problem.hint}" if problem.hint else problem.message,
            meaning,
            _problem_options(problem),
            cause_key=problem.message,
        )


def _problem_options(problem: HostProblem) -> tuple[RepairOption, ...]:
    if problem.about == "rules":
        return (RepairLink("/policy", "Look at the rules"),)
    return (RepairLink("/ledger/verify", "Verify the ledger") if problem.code == "ledger.broken" else _DOCTOR_LINK,)


def detect_low_disk(facts: RepairFacts) -> Iterable[Repair]:
    machine = facts.machine
    if machine is None or machine.free is None or machine.free >= DISK_LOW_BYTES:
        return
    critical = machine.free < DISK_CRITICAL_BYTES
    yield Repair(
        "machine.disk",
        "",
        Severity.URGENT if critical else Severity.NOTICE,
        "The disk is nearly full",
        f"{machine.free // _MIB:,} MiB are free at {machine.data_path}.",
        "With a full disk nothing can be recorded, and calls that cannot be recorded do not run.",
        (RepairCommand(f"du -xh {shlex.quote(machine.data_path)} | sort -h | tail", "See what uses the space. Type:"),),
        cause_key="hardly any room" if critical else "little room",
    )


def detect_missing_cage(facts: RepairFacts) -> Iterable[Repair]:
    machine = facts.machine
    if machine is None:
        return
    if machine.cage_error:
        yield Repair(
            "machine.cage",
            "",
            Severity.URGENT,
            "No plugin can be sandboxed on this machine",
            machine.cage_error,
            "Every plugin runs in a cage. Without one, none is started.",
            (_DOCTOR_LINK, *([RepairCommand(machine.cage_error_hint)] if machine.cage_error_hint else [])),
        )
    elif machine.limits_without_cgroup:
        mechanisms = ", ".join(f"{name} by {machine.limits[name]}" for name in machine.limits_without_cgroup)
        quota = " A CPU quota is not kept at all." if "cpu" in machine.limits_without_cgroup else ""
        yield Repair(
            "machine.limits",
            "",
            Severity.NOTICE,
            "Limits of plugins are enforced less strictly",
            f"The kernel does not enforce them here: {mechanisms}.",
            f"A plugin that exceeds a limit is stopped later.{quota}",
            (
                _DOCTOR_LINK,
                RepairCommand(
                    "systemd-run --user --scope -p Delegate=yes",
                    "Put this in front of the command that starts the host:",
                ),
            ),
        )


def detect_wrapping_key_problem(facts: RepairFacts) -> Iterable[Repair]:
    """Detect a missing wrapping key, or an unfinished rotation."""
    if facts.wrapping_key.missing:
        yield Repair(
            "secret.key_missing",
            facts.wrapping_key.key_id,
            Severity.BROKEN,
            "Secrets cannot be opened",
            f"{facts.wrapping_key.missing}. {facts.wrapping_key.hint}".removesuffix(". "),
            "Calls that need a secret fail, and Paddock does not create another key in its place.",
            (_DOCTOR_LINK,),
        )
    elif facts.wrapping_key.replaced:
        older_keys = (
            "1 older key is" if facts.wrapping_key.replaced == 1 else f"{facts.wrapping_key.replaced} older keys are"
        )
        yield Repair(
            "secret.rotation",
            "",
            Severity.NOTICE,
            "A rotation of the key for secrets was not finished",
            f"{older_keys} still kept.",
            "All secrets work. Until it is finished, an older key still opens some of them.",
            (
                RepairButton("rotate", "Finish it", "Finish the rotation?", host_only=True),
                RepairLink("/secrets", "Look at secrets"),
            ),
        )


def detect_unknown_outcomes(facts: RepairFacts) -> Iterable[Repair]:
    """Detect effects in doubt that wait for a person: the host recovers all others itself."""
    waiting = facts.unknown_outcomes.waiting
    if waiting:
        calls = count_text(waiting, "call")
        yield Repair(
            "effect.in_doubt",
            "",
            Severity.BROKEN,
            f"{calls} {'has' if waiting == 1 else 'have'} an unknown outcome",
            "The plugin or the host went down midway, time ran out, or the tool failed and did not say how far it got:"
            " it is unknown whether the effect happened.",
            "Such a call is not repeated until a person has checked and recorded the outcome.",
            (RepairLink("/unknown-outcomes", "Look and settle"),),
            cause_key=facts.unknown_outcomes.latest,
        )


def detect_expiring_api_keys(facts: RepairFacts) -> Iterable[Repair]:
    for key in facts.keys:
        remaining = datetime.fromisoformat(key.expires_at) - facts.now
        if remaining > EXPIRY_WARNING_PERIOD or remaining < -EXPIRED_NOTICE_PERIOD:
            continue
        expired = remaining <= timedelta(0)
        name = f"{key.label} ({key.id})" if key.label else key.id
        yield Repair(
            "api_key.expired" if expired else "api_key.expiring",
            key.id,
            Severity.NOTICE,
            f"The API key {name} {'has expired' if expired else 'expires soon'}",
            f"It is {key.owner}'s and {'stopped' if expired else 'stops'} working on {key.expires_at[:10]}."
            f"{_last_use_text(key)}",
            "Programs that still use it are rejected."
            if expired
            else "Programs that use it are rejected from then on.",
            (RepairLink("/settings/keys", "Look at keys"),),
            cause_key=f"{expired} {key.expires_at}",
            since=key.expires_at if expired else "",
        )


def _last_use_text(key: ApiKeyFacts) -> str:
    return f" It was last used on {key.last_used_at[:10]}." if key.last_used_at else " It was never used."


def detect_failing_webhooks(facts: RepairFacts) -> Iterable[Repair]:
    for hook in facts.webhooks:
        if hook.disabled_why not in (None, "operator") and not hook.enabled:
            yield _disabled_webhook_repair(hook)
        elif hook.enabled and hook.attempts >= _MIN_FAILED_ATTEMPTS:
            yield Repair(
                "webhook.failing",
                hook.id,
                Severity.NOTICE,
                f"The webhook {_webhook_name(hook)} does not accept events",
                f"The last attempt failed: {hook.reason or 'no reason was given'}.",
                "Its events are kept and retried for a while.",
                (RepairButton("webhook.test", "Send a test"), _WEBHOOKS_LINK),
            )
        if hook.dead:
            events = count_text(hook.dead, "event")
            yield Repair(
                "webhook.dead_letters",
                hook.id,
                Severity.NOTICE,
                f"{events} never reached the webhook {_webhook_name(hook)}",
                f"{events} reached the maximum number of attempts.",
                "Its receiver does not get them until they are sent again.",
                (RepairButton("webhook.retry", "Send again"), _WEBHOOKS_LINK),
                cause_key=str(hook.last_dead),
            )


def _disabled_webhook_repair(hook: WebhookFacts) -> Repair:
    gone = hook.disabled_why == "gone"
    return Repair(
        "webhook.off",
        hook.id,
        Severity.BROKEN,
        f"The webhook {_webhook_name(hook)} is disabled",
        "Its receiver answered that it is gone for good." if gone else "Its receiver accepted no event for too long.",
        "No events are sent to it.",
        (
            RepairButton("webhook.on", "Enable it"),
            RepairButton("webhook.remove", "Remove it", f"Remove the webhook {_webhook_name(hook)}?"),
            _WEBHOOKS_LINK,
        ),
    )


def _webhook_name(hook: WebhookFacts) -> str:
    return hook.label or hook.id


HOST_DETECTORS: tuple[Callable[[RepairFacts], Iterable[Repair]], ...] = (
    detect_host_problems,
    detect_low_disk,
    detect_missing_cage,
    detect_wrapping_key_problem,
    detect_unknown_outcomes,
    detect_expiring_api_keys,
    detect_failing_webhooks,
)


def detect_host_repairs(facts: RepairFacts) -> Iterable[Repair]:
    """Detect all repairs except those of plugins; problems of the host itself only for the default tenant."""
    for detect in HOST_DETECTORS:
        if facts.tenant == DEFAULT_TENANT or detect not in (
            detect_low_disk,
            detect_missing_cage,
            detect_wrapping_key_problem,
        ):
            yield from detect(facts)
