"""`paddock webhook …`: send events to other systems, and inspect failed deliveries."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import click

from paddock.cli import options
from paddock.cli.client.api_client import named_path, open_client
from paddock.cli.command import PaddockGroup
from paddock.cli.output.action_text import tenant_option
from paddock.cli.output.report import format_table, print_json, print_message, print_result, report_change, styled
from paddock.core.errors import PaddockError
from paddock.core.printable import printable

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
    body = {"url": url, "types": types, "label": label, "personal": personal}
    with open_client(tenant, asks_passphrase=True) as client:
        hook = client.post("/webhooks", body)
    _print_with_secret(hook, f"made the webhook {hook['id']}", as_json=as_json)
    print_message(f"  try it: paddock webhook test {hook['id']}{tenant_option(tenant)}")


@app.command("list", examples=["paddock webhook list --json"])
@options.tenant
@options.as_json
def list_(*, tenant: str, as_json: bool) -> None:
    """List webhooks and their delivery state."""
    with open_client(tenant) as client:
        hooks = client.get("/webhooks")["webhooks"]
    if as_json:
        print_json({"tenant": tenant, "webhooks": hooks})
    elif hooks:
        cells = [
            [
                *(hook["id"], _state_text(hook), ", ".join(hook["types"]), str(hook["dead"])),
                *(printable(hook["url"], 80), hook["label"]),
            ]
            for hook in hooks
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
    from paddock.webhooks.retry import failure_hint

    with open_client(tenant) as client:
        hook = client.get(_webhook_path(webhook, tenant))
    if as_json:
        print_json(hook)
        return
    print_result(styled(f"{hook['id']}  {_state_text(hook)}", "bold"))
    for name, value in (hook | {"types": ", ".join(hook["types"])}).items():
        if name not in ("id", "tenant") and value not in (None, "", False):
            print_result(f"  {name.ljust(14)} {printable(str(value), 400)}")
    if hook["reason"] and (hint := failure_hint(hook["reason"])):
        print_message(f"  → {hint}")
    if hook["next_at"] is not None:
        print_message(f"  → it is tried again {_relative_time(hook['next_at'], datetime.now(UTC))}")


@app.command("remove", examples=["paddock webhook remove ID --yes"])
@webhook_id_argument
@options.tenant
@options.yes
@options.as_json
def remove(webhook: str, *, tenant: str, yes: bool, as_json: bool) -> None:
    """Remove a webhook with its secret and its dead letters."""
    from paddock.cli.output.consent_prompt import confirm

    path = _webhook_path(webhook, tenant)
    with open_client(tenant) as client:
        hook = client.get(path)
        retype = f"paddock webhook remove {hook['id']}{tenant_option(tenant)}"
        confirm(f"Remove the webhook {hook['id']}?", yes=yes, retype=retype)
        client.delete(path)
    report_change(as_json, f"removed the webhook {hook['id']}", **hook, removed=True)


@app.command("enable", examples=["paddock webhook enable ID --from-now"])
@webhook_id_argument
@click.option("--from-now", is_flag=True, help="Skip the events that occurred while it was disabled.")
@options.tenant
@options.as_json
def enable(webhook: str, *, from_now: bool, tenant: str, as_json: bool) -> None:
    """Enable a webhook. Events that occurred while it was disabled are sent."""
    with open_client(tenant) as client:
        hook = client.post(f"{_webhook_path(webhook, tenant)}/enable", {"from_now": from_now})
    report_change(as_json, f"the webhook {hook['id']} is on", **hook)


@app.command("disable", examples=["paddock webhook disable ID"])
@webhook_id_argument
@options.tenant
@options.as_json
def disable(webhook: str, *, tenant: str, as_json: bool) -> None:
    """Disable a webhook until it is enabled again."""
    with open_client(tenant) as client:
        hook = client.post(f"{_webhook_path(webhook, tenant)}/disable")
    report_change(as_json, f"the webhook {hook['id']} is off", **hook)


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
    with open_client(tenant, asks_passphrase=True) as client:
        hook = client.post(f"{_webhook_path(webhook, tenant)}/rotate", {"keep_hours": keep})
    _print_with_secret(hook, f"the webhook {hook['id']} has another secret", as_json=as_json)


@app.command("test", examples=["paddock webhook test ID"])
@webhook_id_argument
@options.tenant
@options.as_json
def test(webhook: str, *, tenant: str, as_json: bool) -> None:
    """Send a test event from this machine, and print the outcome."""
    from paddock.core.errors import Unreachable
    from paddock.webhooks.retry import failure_hint

    with open_client(tenant, asks_passphrase=True) as client:
        attempt = client.post(f"{_webhook_path(webhook, tenant)}/test")
    status, reason = attempt["status"], attempt["reason"]
    if not attempt["taken"]:
        raise Unreachable(
            f"{webhook} did not take it: {reason}",
            code="webhook.not_taken",
            hint=failure_hint(reason),
            details={"webhook": webhook, "status": status, "reason": reason},
        )
    report_change(as_json, f"{webhook} took it with {status}", webhook=webhook, status=status, taken=True)


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
    from paddock.webhooks.retry import failure_hint

    with open_client(tenant) as client:
        letters = client.get(f"{_webhook_path(webhook, tenant)}/dead?limit={count}&after={after}")["dead"]
    if as_json:
        print_json({"webhook": webhook, "dead": letters})
    elif letters:
        cells = [
            [
                *(str(letter["seq"]), letter["event_id"], letter["type"], str(letter["attempts"]), letter["reason"]),
                letter["died_at"][:16].replace("T", " "),
            ]
            for letter in letters
        ]
        for line in format_table(["SEQ", "EVENT", "TYPE", "TRIED", "WHY", "SINCE"], cells):
            print_result(line)
        for reason in dict.fromkeys(letter["reason"] for letter in letters):
            if hint := failure_hint(reason):
                print_message(f"  {reason}: {hint}")
        print_message(f"  try them again: paddock webhook dead-letter retry {webhook} --all{tenant_option(tenant)}")
    else:
        print_message("no undelivered events")


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
    with open_client(tenant) as client:
        body = {} if event is None else {"event": event}
        count = client.post(f"{_webhook_path(webhook, tenant)}/retry", body)["asked"]
    letters = "1 dead letter is" if count == 1 else f"{count} dead letters are"
    report_change(as_json, f"{letters} tried again", webhook=webhook, asked=count)


def _webhook_path(webhook: str, tenant: str) -> str:
    """Return the path of a webhook.

    Raises:
        NotFound: no webhook can have this id.
    """

    def unknown_error() -> PaddockError:
        from paddock.webhooks.webhook import unknown_webhook_error

        return unknown_webhook_error(tenant, webhook)

    return named_path("/webhooks", webhook, unknown_error)


def _print_with_secret(hook: Mapping[str, Any], message: str, *, as_json: bool) -> None:
    if as_json:
        print_json(hook)
    else:
        print_result(hook["secret"])
    print_message(f"{styled('✓', 'green')} {message}: {', '.join(hook['types'])} to {printable(hook['url'], 200)}")
    print_message("  keep the secret now; nobody can show it again")


def _state_text(hook: Mapping[str, Any]) -> str:
    if not hook["enabled"]:
        return f"off ({hook['disabled_why']})"
    return f"failing ({hook['reason']})" if hook["reason"] else "on"


def _relative_time(timestamp: str, now: datetime) -> str:
    if datetime.fromisoformat(timestamp) <= now:
        return "at once, by a daemon that runs"
    return f"at {timestamp[:19].replace('T', ' ')} UTC"
