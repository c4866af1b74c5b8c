"""`paddock webhook …`: send events to other systems, and inspect failed deliveries."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from paddock.cli import options
from paddock.cli.command import PaddockGroup
from paddock.cli.output.action_text import tenant_option
from paddock.cli.output.report import format_table, print_json, print_message, print_result, report_change, styled
from paddock.core.printable import printable

if TYPE_CHECKING:
    from paddock.core.secret import Secret
    from paddock.host.wiring.local_store import LocalStore
    from paddock.webhooks.admin import WebhookAdmin
    from paddock.webhooks.webhook import Webhook

app = PaddockGroup("webhook", help="Send signed events to other systems.")

webhook_id_argument = click.argument("webhook", metavar="ID", help="The id of the webhook.")


@app.command("add", examples=["paddock webhook add https://example.com/hook --type 'call.*' --label tickets"])
@click.argument("url", metavar="URL", help="The URL that events are sent to.")
@click.option(
    "--type",
    "types",
    multiple=True,
    metavar="TYPE",
    help="The events to send, such as call.ended or plugin.*; may be repeated. [default: all]",
)
@click.option("--label", default="", help="A label that says what it is for.")
@click.option("--personal", is_flag=True, help="Include personal data. It cannot be erased at the receiver.")
@options.tenant
@options.as_json
def add(url: str, *, types: tuple[str, ...], label: str, personal: bool, tenant: str, as_json: bool) -> None:
    """Add a webhook, and print its signing secret once. The secret cannot be shown again."""
    with _open_webhook_admin(tenant) as (_, admin):
        hook, secret = admin.add(url, types, label, personal=personal)
    _print_with_secret(hook, secret, f"made the webhook {hook.id}", as_json=as_json)
    print_message(f"  try it: paddock webhook test {hook.id}{tenant_option(tenant)}")


@app.command("list", examples=["paddock webhook list --json"])
@options.tenant
@options.as_json
def list_(*, tenant: str, as_json: bool) -> None:
    """List webhooks and their delivery state."""
    from paddock.host.ledger.webhooks import read_webhook_json
    from paddock.webhooks.webhook import list_webhooks

    with _open_webhook_admin(tenant) as (host, _):
        hooks = host.plugins.database.read(
            lambda tx: [(hook, read_webhook_json(tx, hook)) for hook in list_webhooks(tx, host.plugins.tenant)]
        )
    if as_json:
        print_json({"tenant": tenant, "webhooks": [values for _, values in hooks]})
    elif hooks:
        cells = [
            [
                hook.id,
                _state_text(hook),
                ", ".join(hook.types),
                str(values["dead"]),
                printable(hook.url, 80),
                hook.label,
            ]
            for hook, values in hooks
        ]
        for line in format_table(["WEBHOOK", "STATE", "EVENTS", "DEAD", "URL", "LABEL"], cells):
            print_result(line)
    else:
        print_message(f"there are no webhooks; try: paddock webhook add URL{tenant_option(tenant)}")


@app.command("show", examples=["paddock webhook show ID"])
@webhook_id_argument
@options.tenant
@options.as_json
def show(webhook: str, *, tenant: str, as_json: bool) -> None:
    """Show a webhook: its events, its delivery position, and for a failure the reason and the next attempt."""
    from paddock.host.ledger.webhooks import read_webhook_json
    from paddock.webhooks.retry import failure_hint

    with _open_webhook_admin(tenant) as (host, admin):
        hook = admin.find(webhook)
        values = host.plugins.database.read(lambda tx: read_webhook_json(tx, hook))
        now = host.plugins.clock.now()
    if as_json:
        print_json(values)
        return
    print_result(styled(f"{hook.id}  {_state_text(hook)}", "bold"))
    for name, value in (values | {"types": ", ".join(hook.types)}).items():
        if name not in ("id", "tenant") and value not in (None, "", False):
            print_result(f"  {name.ljust(14)} {printable(str(value), 400)}")
    if hook.reason and (hint := failure_hint(hook.reason)):
        print_message(f"  → {hint}")
    if values["next_at"] is not None:
        print_message(f"  → it is tried again {_relative_time(values['next_at'], now)}")


@app.command("remove", examples=["paddock webhook remove ID --yes"])
@webhook_id_argument
@options.tenant
@options.yes
@options.as_json
def remove(webhook: str, *, tenant: str, yes: bool, as_json: bool) -> None:
    """Remove a webhook with its secret and its dead letters."""
    from paddock.cli.output.consent_prompt import confirm

    with _open_webhook_admin(tenant) as (_, admin):
        hook = admin.find(webhook)
        confirm(
            f"Remove the webhook {hook.id}?", yes=yes, retype=f"paddock webhook remove {hook.id}{tenant_option(tenant)}"
        )
        admin.remove(hook.id)
    report_change(as_json, f"removed the webhook {hook.id}", **_webhook_json(hook, 0), removed=True)


@app.command("enable", examples=["paddock webhook enable ID --from-now"])
@webhook_id_argument
@click.option("--from-now", is_flag=True, help="Skip the events that occurred while it was disabled.")
@options.tenant
@options.as_json
def enable(webhook: str, *, from_now: bool, tenant: str, as_json: bool) -> None:
    """Enable a webhook. Events that occurred while it was disabled are sent."""
    with _open_webhook_admin(tenant) as (_, admin):
        hook = admin.set_enabled(webhook, on=True, from_now=from_now)
    report_change(as_json, f"the webhook {hook.id} is on", **_webhook_json(hook, None))


@app.command("disable", examples=["paddock webhook disable ID"])
@webhook_id_argument
@options.tenant
@options.as_json
def disable(webhook: str, *, tenant: str, as_json: bool) -> None:
    """Disable a webhook until it is enabled again."""
    with _open_webhook_admin(tenant) as (_, admin):
        hook = admin.set_enabled(webhook, on=False)
    report_change(as_json, f"the webhook {hook.id} is off", **_webhook_json(hook, None))


@app.command("rotate", examples=["paddock webhook rotate ID --keep 48"])
@webhook_id_argument
@click.option(
    "--keep",
    type=click.IntRange(min=0, max=720),
    default=24,
    metavar="HOURS",
    help="How long the old secret is used as well. [default: 24]",
)
@options.tenant
@options.as_json
def rotate(webhook: str, *, keep: int, tenant: str, as_json: bool) -> None:
    """Replace the signing secret of a webhook, and print the new one once. For a while, events are signed with both."""
    with _open_webhook_admin(tenant) as (_, admin):
        hook, secret = admin.rotate(webhook, timedelta(hours=keep))
    _print_with_secret(hook, secret, f"the webhook {hook.id} has another secret", as_json=as_json)


@app.command("test", examples=["paddock webhook test ID"])
@webhook_id_argument
@options.tenant
@options.as_json
def test(webhook: str, *, tenant: str, as_json: bool) -> None:
    """Send a test event from this machine, and print the outcome."""
    import asyncio

    from paddock.core.errors import Unreachable
    from paddock.host.ledger.webhooks import send_test_event
    from paddock.webhooks.retry import failure_hint
    from paddock.webhooks.sender import WebhookSender

    with _open_webhook_admin(tenant) as (host, admin):
        hook = admin.find(webhook)
        sender, store = WebhookSender(admin.receivers, admin.clock), host.plugins
        attempt = asyncio.run(
            send_test_event(
                sender, hook, admin.signing_secrets(hook), host.loaded.settings.events.source, store.clock, store.random
            )
        )
    if not attempt.succeeded:
        raise Unreachable(
            f"{hook.id} did not take it: {attempt.reason}",
            code="webhook.not_taken",
            hint=failure_hint(attempt.reason),
            details={"webhook": hook.id, "status": attempt.status, "reason": attempt.reason},
        )
    report_change(
        as_json, f"{hook.id} took it with {attempt.status}", webhook=hook.id, status=attempt.status, taken=True
    )


dead_letter = PaddockGroup("dead-letter", help="List and retry events that could not be delivered.")
app.add_command(dead_letter)


@dead_letter.command("list", examples=["paddock webhook dead-letter list ID --json"])
@webhook_id_argument
@click.option(
    "--lines",
    "-n",
    "count",
    type=click.IntRange(min=1, max=1000),
    default=100,
    help="The number of events. [default: 100]",
)
@click.option(
    "--after",
    type=click.IntRange(min=0),
    default=0,
    metavar="SEQ",
    help="Only events after this ledger sequence number.",
)
@options.tenant
@options.as_json
def list_dead_letters(webhook: str, *, count: int, after: int, tenant: str, as_json: bool) -> None:
    """List the events that could not be delivered, and why."""
    from paddock.webhooks import dead_letters
    from paddock.webhooks.retry import failure_hint

    with _open_webhook_admin(tenant) as (host, admin):
        hook = admin.find(webhook)
        letters = host.plugins.database.read(
            lambda tx: dead_letters.list_dead_letters(tx, hook.tenant, hook.id, limit=count, after=after)
        )
    if as_json:
        print_json({"webhook": hook.id, "dead": [letter.to_json() for letter in letters]})
    elif letters:
        cells = [
            [
                str(item.seq),
                item.event_id,
                item.type,
                str(item.attempts),
                item.reason,
                item.died_at[:16].replace("T", " "),
            ]
            for item in letters
        ]
        for line in format_table(["SEQ", "EVENT", "TYPE", "TRIED", "WHY", "SINCE"], cells):
            print_result(line)
        for reason in dict.fromkeys(letter.reason for letter in letters):
            if hint := failure_hint(reason):
                print_message(f"  {reason}: {hint}")
        print_message(f"  try them again: paddock webhook dead-letter retry {hook.id} --all{tenant_option(tenant)}")
    else:
        print_message("it took everything so far")


@dead_letter.command(
    "retry", examples=["paddock webhook dead-letter retry ID EVENT", "paddock webhook dead-letter retry ID --all"]
)
@webhook_id_argument
@click.argument("event", required=False, metavar="[EVENT]", help="The id of one event.")
@click.option("--all", "every", is_flag=True, help="Retry all dead letters.")
@options.tenant
@options.as_json
def retry(webhook: str, event: str | None, *, every: bool, tenant: str, as_json: bool) -> None:
    """Retry the delivery of one dead letter or of all. A running daemon delivers within seconds."""
    if every == (event is not None):
        raise click.BadParameter("name one event, or give --all", param_hint="EVENT")
    with _open_webhook_admin(tenant) as (_, admin):
        count = admin.retry(webhook, event)
    letters = "1 dead letter is" if count == 1 else f"{count} dead letters are"
    report_change(as_json, f"{letters} tried again", webhook=webhook, asked=count)


@contextmanager
def _open_webhook_admin(tenant: str) -> Generator[tuple[LocalStore, WebhookAdmin], None, None]:
    from paddock.cli.client.local_store import open_for_read
    from paddock.cli.client.secret_input import open_wrapping_keys
    from paddock.host.ledger.webhooks import webhook_admin_for
    from paddock.webhooks.sender import ReceiverDestinations

    with open_for_read(tenant) as host:
        receivers = ReceiverDestinations(host.loaded.settings.events.private_receivers)
        yield host, webhook_admin_for(host.plugins, open_wrapping_keys(host), receivers)


def _print_with_secret(hook: Webhook, secret: Secret, message: str, *, as_json: bool) -> None:
    if as_json:
        print_json(_webhook_json(hook, None) | {"secret": secret.reveal()})
    else:
        print_result(secret.reveal())
    print_message(f"{styled('✓', 'green')} {message}: {', '.join(hook.types)} to {printable(hook.url, 200)}")
    print_message("  keep the secret now; nobody can show it again")


def _state_text(hook: Webhook) -> str:
    if not hook.enabled:
        return f"off ({hook.disabled_why})"
    return f"failing ({hook.reason})" if hook.reason else "on"


def _relative_time(timestamp: str, now: datetime) -> str:
    if datetime.fromisoformat(timestamp) <= now:
        return "at once, by a daemon that runs"
    return f"at {timestamp[:19].replace('T', ' ')} UTC"


def _webhook_json(hook: Webhook, dead: int | None) -> dict[str, Any]:
    return hook.to_json() | ({} if dead is None else {"dead": dead})
