"""`paddock webhook …`: send events to other systems, and inspect failed deliveries."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paddock.cli.client.store_access import DEFAULT_TENANT_NAME, TenantOption, report_change
from paddock.cli.output.report import (
    JsonOption,
    YesOption,
    format_table,
    handle_errors,
    print_json,
    print_message,
    print_result,
    styled,
)
from paddock.core.printable import printable
from paddock.plugins.manage.repair_text import tenant_option

if TYPE_CHECKING:
    from paddock.core.secret import Secret
    from paddock.host.wiring.one_shot import OneShotHost
    from paddock.webhooks.admin import WebhookAdmin
    from paddock.webhooks.webhook import Webhook

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Have events sent to others, signed.")

WebhookIdArgument = Annotated[str, typer.Argument(metavar="ID", help="The webhook's id.")]


@app.command("add", epilog="Example: paddock webhook add https://example.com/hook --type 'call.*' --label tickets")
@handle_errors
def add(
    url: Annotated[str, typer.Argument(metavar="URL", help="Where they are sent to.")],
    *,
    types: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="TYPE", help="Which events, as call.ended or plugin.*; all of them without."),
    ] = None,
    label: Annotated[str, typer.Option(help="What it is for.")] = "",
    personal: Annotated[
        bool, typer.Option("--personal", help="Send too what they say of people. Nobody can erase that there.")
    ] = False,
    tenant: TenantOption = DEFAULT_TENANT_NAME,
    as_json: JsonOption = False,
) -> None:
    """Have events sent somewhere from now on, and print the secret that signs them, once: nobody can show it again."""
    with _open_webhook_admin(tenant) as (_, admin):
        hook, secret = admin.add(url, types or (), label, personal=personal)
    _print_with_secret(hook, secret, f"made the webhook {hook.id}", as_json=as_json)
    print_message(f"  try it: paddock webhook test {hook.id}{tenant_option(tenant)}")


@app.command("list", epilog="Example: paddock webhook list --json")
@handle_errors
def list_(*, tenant: TenantOption = DEFAULT_TENANT_NAME, as_json: JsonOption = False) -> None:
    """List webhooks, and how each is doing."""
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


@app.command("show", epilog="Example: paddock webhook show ID")
@handle_errors
def show(
    webhook: WebhookIdArgument, *, tenant: TenantOption = DEFAULT_TENANT_NAME, as_json: JsonOption = False
) -> None:
    """Show one webhook: what it is sent, how far it is, and where it fails, why and when it is tried again."""
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


@app.command("remove", epilog="Example: paddock webhook remove ID --yes")
@handle_errors
def remove(
    webhook: WebhookIdArgument,
    *,
    tenant: TenantOption = DEFAULT_TENANT_NAME,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Send it nothing any more, and forget its secret and its dead letters."""
    from paddock.cli.output.consent_prompt import confirm

    with _open_webhook_admin(tenant) as (_, admin):
        hook = admin.find(webhook)
        confirm(
            f"Remove the webhook {hook.id}?", yes=yes, retype=f"paddock webhook remove {hook.id}{tenant_option(tenant)}"
        )
        admin.remove(hook.id)
    report_change(as_json, f"removed the webhook {hook.id}", **_webhook_json(hook, 0), removed=True)


@app.command("enable", epilog="Example: paddock webhook enable ID --from-now")
@handle_errors
def enable(
    webhook: WebhookIdArgument,
    *,
    from_now: Annotated[bool, typer.Option("--from-now", help="Leave out what happened meanwhile.")] = False,
    tenant: TenantOption = DEFAULT_TENANT_NAME,
    as_json: JsonOption = False,
) -> None:
    """Switch it on again; it is sent what happened while it was off."""
    with _open_webhook_admin(tenant) as (_, admin):
        hook = admin.set_enabled(webhook, on=True, from_now=from_now)
    report_change(as_json, f"the webhook {hook.id} is on", **_webhook_json(hook, None))


@app.command("disable", epilog="Example: paddock webhook disable ID")
@handle_errors
def disable(
    webhook: WebhookIdArgument, *, tenant: TenantOption = DEFAULT_TENANT_NAME, as_json: JsonOption = False
) -> None:
    """Send it nothing until it is switched on again."""
    with _open_webhook_admin(tenant) as (_, admin):
        hook = admin.set_enabled(webhook, on=False)
    report_change(as_json, f"the webhook {hook.id} is off", **_webhook_json(hook, None))


@app.command("rotate", epilog="Example: paddock webhook rotate ID --keep 48")
@handle_errors
def rotate(
    webhook: WebhookIdArgument,
    *,
    keep: Annotated[
        int, typer.Option(min=0, max=720, metavar="HOURS", help="How long the secret before signs too (24).")
    ] = 24,
    tenant: TenantOption = DEFAULT_TENANT_NAME,
    as_json: JsonOption = False,
) -> None:
    """Give it another secret and print that, once. For a while events are signed with both."""
    with _open_webhook_admin(tenant) as (_, admin):
        hook, secret = admin.rotate(webhook, timedelta(hours=keep))
    _print_with_secret(hook, secret, f"the webhook {hook.id} has another secret", as_json=as_json)


@app.command("test", epilog="Example: paddock webhook test ID")
@handle_errors
def test(
    webhook: WebhookIdArgument, *, tenant: TenantOption = DEFAULT_TENANT_NAME, as_json: JsonOption = False
) -> None:
    """Send it an event that stands for nothing, from here, and say what came of that."""
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


@app.command("dead", epilog="Example: paddock webhook dead ID --json")
@handle_errors
def dead(
    webhook: WebhookIdArgument,
    *,
    count: Annotated[int, typer.Option("--lines", "-n", min=1, max=1000, help="How many (100).")] = 100,
    after: Annotated[int, typer.Option(min=0, metavar="SEQ", help="After this number of the ledger.")] = 0,
    tenant: TenantOption = DEFAULT_TENANT_NAME,
    as_json: JsonOption = False,
) -> None:
    """List what it did not take however often it was tried, and why."""
    from paddock.webhooks.dead_letters import list_dead_letters
    from paddock.webhooks.retry import failure_hint

    with _open_webhook_admin(tenant) as (host, admin):
        hook = admin.find(webhook)
        letters = host.plugins.database.read(
            lambda tx: list_dead_letters(tx, hook.tenant, hook.id, limit=count, after=after)
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
        print_message(f"  try them again: paddock webhook retry {hook.id} --all{tenant_option(tenant)}")
    else:
        print_message("it took everything so far")


@app.command("retry", epilog="Examples: paddock webhook retry ID EVENT   ·   paddock webhook retry ID --all")
@handle_errors
def retry(
    webhook: WebhookIdArgument,
    event: Annotated[str | None, typer.Argument(metavar="[EVENT]", help="The id of one event.")] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="All of its dead letters.")] = False,
    tenant: TenantOption = DEFAULT_TENANT_NAME,
    as_json: JsonOption = False,
) -> None:
    """Have one dead letter tried once more, or all; a daemon does so within seconds."""
    if every == (event is not None):
        raise typer.BadParameter("name one event, or give --all", param_hint="EVENT")
    with _open_webhook_admin(tenant) as (_, admin):
        count = admin.retry(webhook, event)
    letters = "1 dead letter is" if count == 1 else f"{count} dead letters are"
    report_change(as_json, f"{letters} tried again", webhook=webhook, asked=count)


@contextmanager
def _open_webhook_admin(tenant: str) -> Generator[tuple[OneShotHost, WebhookAdmin], None, None]:
    from paddock.cli.client.one_shot import open_for_read
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
