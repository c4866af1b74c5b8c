"""Detects repairs of everything but plugins: each function looks for one cause in the facts. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from paddock.core.ids import DEFAULT_TENANT
from paddock.host.repairs.facts import ApiKeyFacts, HostProblem, RepairFacts, WebhookFacts
from paddock.host.repairs.repair import Repair, RepairButton, RepairCommand, RepairLink, RepairOption, Severity
from paddock.plugins.manage.repair_text import tenant_option

EXPIRY_WARNING_PERIOD = timedelta(days=14)
"""How long before a key expires it is reported."""
EXPIRED_NOTICE_PERIOD = timedelta(days=30)
"""How long an expired key is reported: its users have noticed by then."""
_MIB, _GIB = 1 << 20, 1 << 30
DISK_LOW_BYTES, DISK_CRITICAL_BYTES = _GIB, 100 * _MIB
_WEBHOOKS_LINK = RepairLink("/settings/webhooks", "Look at webhooks")
_DOCTOR_LINK = RepairLink("/settings/host/check", "Check this machine")
_MIN_FAILED_ATTEMPTS = 3  # a single failure is not reported

_PROBLEM_TEXT = {
    "ledger": ("The ledger cannot be written", "What cannot be recorded is not done, so calls are refused."),
    "checkpoints": (
        "The ledger has no new checkpoint",
        "Calls go on. Until the next checkpoint, nobody can prove that the newest entries are unchanged.",
    ),
    "rules": ("The rules have mistakes", "The rules from before the change stay in force until they are corrected."),
}


def detect_host_problems(facts: RepairFacts) -> Iterable[Repair]:
    """Detect problems that the host reports about itself."""
    for problem in facts.host_problems:
        title, meaning = _PROBLEM_TEXT.get(problem.about, (f"There is trouble with {problem.about}", ""))
        if problem.code == "ledger.broken":
            title = "Somebody changed the ledger"
            meaning = "What was recorded is not what was written. No call is taken for this tenant meanwhile."
        yield Repair(
            f"host.{problem.about}",
            problem.code,
            Severity.URGENT if problem.rejects_calls else Severity.BROKEN,
            title,
            problem.message,
            meaning,
            _problem_options(problem),
            cause_key=problem.message,
        )


def _problem_options(problem: HostProblem) -> tuple[RepairOption, ...]:
    if problem.about == "rules":
        return (RepairLink("/policy", "Look at the rules"), RepairCommand("paddock policy check"))
    command = "paddock ledger verify" if problem.code == "ledger.broken" else "paddock doctor"
    return (
        RepairCommand(
            command,
            f"{problem.hint[:1].upper()}{problem.hint[1:]}. On the machine, type:" if problem.hint else _SHELL_HINT,
        ),
    )


_SHELL_HINT = "On the machine, type:"


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
        "With a full disk nothing can be recorded, and what cannot be recorded is not done.",
        (RepairCommand(f"du -xh {shlex.quote(machine.data_path)} | sort -h | tail", "See what takes the room. Type:"),),
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
            "No plugin can be fenced in on this machine",
            machine.cage_error,
            "Every plugin runs in a cage. Without one, none is started.",
            (_DOCTOR_LINK, RepairCommand(machine.cage_error_hint or "paddock doctor")),
        )
    elif machine.limits_without_cgroup:
        mechanisms = ", ".join(f"{name} by {machine.limits[name]}" for name in machine.limits_without_cgroup)
        quota = " A CPU quota is not kept at all." if "cpu" in machine.limits_without_cgroup else ""
        yield Repair(
            "machine.limits",
            "",
            Severity.NOTICE,
            "Limits of plugins are kept less strictly",
            f"The kernel does not keep them here: {mechanisms}.",
            f"A plugin that takes too much is noticed later.{quota}",
            (
                _DOCTOR_LINK,
                RepairCommand(
                    "systemd-run --user --scope -p Delegate=yes paddock serve", "Start the host like this instead:"
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
            facts.wrapping_key.missing,
            "Calls that need a secret fail, and no other key is made in its place.",
            (
                RepairCommand(
                    "paddock doctor",
                    f"{facts.wrapping_key.hint}. On the machine, type:" if facts.wrapping_key.hint else _SHELL_HINT,
                ),
            ),
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
                RepairCommand("paddock secret rotate"),
            ),
        )


def detect_unknown_outcomes(facts: RepairFacts) -> Iterable[Repair]:
    """Detect effects in doubt that wait for a person: the host recovers all others itself."""
    waiting = facts.unknown_outcomes.waiting
    if waiting:
        calls = "1 call" if waiting == 1 else f"{waiting:,} calls"
        yield Repair(
            "effect.in_doubt",
            "",
            Severity.BROKEN,
            f"{calls} {'has' if waiting == 1 else 'have'} an unknown outcome",
            "The plugin or the host went down midway, or time ran out, and nobody knows whether it happened.",
            "Trying such a call again is held back until somebody has looked and says what became of it.",
            (
                RepairLink("/unknown-outcomes", "Look and settle"),
                RepairCommand(f"paddock call unresolved list{tenant_option(facts.tenant)}"),
            ),
            cause_key=facts.unknown_outcomes.latest,
        )


def detect_expiring_api_keys(facts: RepairFacts) -> Iterable[Repair]:
    tenant_args = tenant_option(facts.tenant)
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
            "Whatever still uses it is refused." if expired else "Whatever uses it is refused from then on.",
            (
                RepairLink("/settings/keys", "Look at keys"),
                RepairCommand(f"paddock apikey add {shlex.quote(key.owner)}{tenant_args}", "Make a new one. Type:"),
            ),
            cause_key=f"{expired} {key.expires_at}",
        )


def _last_use_text(key: ApiKeyFacts) -> str:
    return f" It was last used on {key.last_used_at[:10]}." if key.last_used_at else " It was never used."


def detect_failing_webhooks(facts: RepairFacts) -> Iterable[Repair]:
    tenant_args = tenant_option(facts.tenant)
    for hook in facts.webhooks:
        if hook.disabled_why not in (None, "operator") and not hook.enabled:
            yield _disabled_webhook_repair(hook)
        elif hook.enabled and hook.attempts >= _MIN_FAILED_ATTEMPTS:
            yield Repair(
                "webhook.failing",
                hook.id,
                Severity.NOTICE,
                f"The webhook {_webhook_name(hook)} takes nothing",
                f"The last attempt failed: {hook.reason or 'no reason was given'}.",
                "What it should be told is kept and tried again by itself for a while.",
                (
                    RepairButton("webhook.test", "Send a test"),
                    _WEBHOOKS_LINK,
                    RepairCommand(f"paddock webhook test {hook.id}{tenant_args}"),
                ),
            )
        if hook.dead:
            events = "1 event" if hook.dead == 1 else f"{hook.dead:,} events"
            yield Repair(
                "webhook.dead_letters",
                hook.id,
                Severity.NOTICE,
                f"{events} never reached the webhook {_webhook_name(hook)}",
                f"{events} were tried as often as they may be.",
                "Its receiver does not know of them until they are sent again.",
                (
                    RepairButton("webhook.retry", "Send again"),
                    _WEBHOOKS_LINK,
                    RepairCommand(f"paddock webhook dead-letter retry {hook.id} --all{tenant_args}"),
                ),
                cause_key=str(hook.last_dead),
            )


def _disabled_webhook_repair(hook: WebhookFacts) -> Repair:
    gone = hook.disabled_why == "gone"
    return Repair(
        "webhook.off",
        hook.id,
        Severity.BROKEN,
        f"The webhook {_webhook_name(hook)} was switched off",
        "Its receiver said that it is gone for good." if gone else "Its receiver took nothing for too long.",
        "Nothing is sent to it any more.",
        (
            RepairButton("webhook.on", "Switch it on"),
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
