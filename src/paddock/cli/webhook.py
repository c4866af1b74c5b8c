"""`paddock webhook …`: have events sent to others, and see what they did not take."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paddock.cli.output import AsJson, Yes, document, reporting, result, say, styled, table
from paddock.cli.principals import DEFAULT, OfTenant, done
from paddock.core.printable import printable
from paddock.plugins.mending import for_tenant

if TYPE_CHECKING:
    from paddock.core.secret import Secret
    from paddock.events.keeping import Keeping
    from paddock.events.webhook import Webhook
    from paddock.host.command import CommandHost

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Have events sent to others, signed.")

Id = Annotated[str, typer.Argument(metavar="ID", help="The webhook's id.")]


@app.command("add", epilog="Example: paddock webhook add https://example.com/hook --type 'call.*' --label tickets")
@reporting
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
    tenant: OfTenant = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Have events sent somewhere from now on, and print the secret that signs them, once: nobody can show it again."""
    with _keeping(tenant) as (_, kept):
        hook, secret = kept.add(url, types or (), label, personal=personal)
    _with_secret(hook, secret, f"made the webhook {hook.id}", as_json=as_json)
    say(f"  try it: paddock webhook test {hook.id}{for_tenant(tenant)}")


@app.command("list", epilog="Example: paddock webhook list --json")
@reporting
def list_(*, tenant: OfTenant = DEFAULT, as_json: AsJson = False) -> None:
    """List webhooks, and how each is doing."""
    from paddock.events.webhook import webhooks
    from paddock.host.webhooks import shown_now

    with _keeping(tenant) as (host, _):
        found = host.plugins.database.read(
            lambda tx: [(hook, shown_now(tx, hook)) for hook in webhooks(tx, host.plugins.tenant)]
        )
    if as_json:
        document({"tenant": tenant, "webhooks": [shown for _, shown in found]})
    elif found:
        cells = [
            [hook.id, _state(hook), ", ".join(hook.types), str(shown["dead"]), printable(hook.url, 80), hook.label]
            for hook, shown in found
        ]
        for line in table(["WEBHOOK", "STATE", "EVENTS", "DEAD", "URL", "LABEL"], cells):
            result(line)
    else:
        say(f"there are no webhooks; try: paddock webhook add URL{for_tenant(tenant)}")


@app.command("show", epilog="Example: paddock webhook show ID")
@reporting
def show(webhook: Id, *, tenant: OfTenant = DEFAULT, as_json: AsJson = False) -> None:
    """Show one webhook: what it is sent, how far it is, and where it fails, why and when it is tried again."""
    from paddock.events.not_taken import why_not
    from paddock.host.webhooks import shown_now

    with _keeping(tenant) as (host, kept):
        hook = kept.find(webhook)
        shown = host.plugins.database.read(lambda tx: shown_now(tx, hook))
        now = host.plugins.clock.now()
    if as_json:
        document(shown)
        return
    result(styled(f"{hook.id}  {_state(hook)}", "bold"))
    for name, value in (shown | {"types": ", ".join(hook.types)}).items():
        if name not in ("id", "tenant") and value not in (None, "", False):
            result(f"  {name.ljust(14)} {printable(str(value), 400)}")
    if hook.reason and (words := why_not(hook.reason)):
        say(f"  → {words}")
    if shown["next_at"] is not None:
        say(f"  → it is tried again {_when(shown['next_at'], now)}")


@app.command("remove", epilog="Example: paddock webhook remove ID --yes")
@reporting
def remove(webhook: Id, *, tenant: OfTenant = DEFAULT, yes: Yes = False, as_json: AsJson = False) -> None:
    """Send it nothing any more, and forget its secret and its dead letters."""
    from paddock.cli.consent import confirm

    with _keeping(tenant) as (_, kept):
        hook = kept.find(webhook)
        confirm(
            f"Remove the webhook {hook.id}?", yes=yes, retype=f"paddock webhook remove {hook.id}{for_tenant(tenant)}"
        )
        kept.remove(hook.id)
    done(as_json, f"removed the webhook {hook.id}", **_value(hook, 0), removed=True)


@app.command("enable", epilog="Example: paddock webhook enable ID --from-now")
@reporting
def enable(
    webhook: Id,
    *,
    from_now: Annotated[bool, typer.Option("--from-now", help="Leave out what happened meanwhile.")] = False,
    tenant: OfTenant = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Switch it on again; it is sent what happened while it was off."""
    with _keeping(tenant) as (_, kept):
        hook = kept.switch(webhook, on=True, from_now=from_now)
    done(as_json, f"the webhook {hook.id} is on", **_value(hook, None))


@app.command("disable", epilog="Example: paddock webhook disable ID")
@reporting
def disable(webhook: Id, *, tenant: OfTenant = DEFAULT, as_json: AsJson = False) -> None:
    """Send it nothing until it is switched on again."""
    with _keeping(tenant) as (_, kept):
        hook = kept.switch(webhook, on=False)
    done(as_json, f"the webhook {hook.id} is off", **_value(hook, None))


@app.command("rotate", epilog="Example: paddock webhook rotate ID --keep 48")
@reporting
def rotate(
    webhook: Id,
    *,
    keep: Annotated[
        int, typer.Option(min=0, max=720, metavar="HOURS", help="How long the secret before signs too (24).")
    ] = 24,
    tenant: OfTenant = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Give it another secret and print that, once. For a while events are signed with both."""
    with _keeping(tenant) as (_, kept):
        hook, secret = kept.rotate(webhook, timedelta(hours=keep))
    _with_secret(hook, secret, f"the webhook {hook.id} has another secret", as_json=as_json)


@app.command("test", epilog="Example: paddock webhook test ID")
@reporting
def test(webhook: Id, *, tenant: OfTenant = DEFAULT, as_json: AsJson = False) -> None:
    """Send it an event that stands for nothing, from here, and say what came of that."""
    import asyncio

    from paddock.core.errors import Unreachable
    from paddock.events.not_taken import why_not
    from paddock.events.sending import Sender
    from paddock.host.webhooks import tried

    with _keeping(tenant) as (host, kept):
        hook = kept.find(webhook)
        sender, store = Sender(kept.receivers, kept.clock), host.plugins
        attempt = asyncio.run(
            tried(sender, hook, kept.signing(hook), host.loaded.settings.events.source, store.clock, store.random)
        )
    if not attempt.taken:
        raise Unreachable(
            f"{hook.id} did not take it: {attempt.reason}",
            code="webhook.not_taken",
            hint=why_not(attempt.reason),
            details={"webhook": hook.id, "status": attempt.status, "reason": attempt.reason},
        )
    done(as_json, f"{hook.id} took it with {attempt.status}", webhook=hook.id, status=attempt.status, taken=True)


@app.command("dead", epilog="Example: paddock webhook dead ID --json")
@reporting
def dead(
    webhook: Id,
    *,
    count: Annotated[int, typer.Option("--lines", "-n", min=1, max=1000, help="How many (100).")] = 100,
    after: Annotated[int, typer.Option(min=0, metavar="SEQ", help="After this number of the ledger.")] = 0,
    tenant: OfTenant = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """List what it did not take however often it was tried, and why."""
    from paddock.events.dead_letters import dead_letters
    from paddock.events.not_taken import why_not

    with _keeping(tenant) as (host, kept):
        hook = kept.find(webhook)
        letters = host.plugins.database.read(
            lambda tx: dead_letters(tx, hook.tenant, hook.id, limit=count, after=after)
        )
    if as_json:
        document({"webhook": hook.id, "dead": [letter.to_json() for letter in letters]})
    elif letters:
        cells = [
            [str(one.seq), one.event_id, one.type, str(one.attempts), one.reason, one.died_at[:16].replace("T", " ")]
            for one in letters
        ]
        for line in table(["SEQ", "EVENT", "TYPE", "TRIED", "WHY", "SINCE"], cells):
            result(line)
        for reason in dict.fromkeys(one.reason for one in letters):
            if words := why_not(reason):
                say(f"  {reason}: {words}")
        say(f"  try them again: paddock webhook retry {hook.id} --all{for_tenant(tenant)}")
    else:
        say("it took everything so far")


@app.command("retry", epilog="Examples: paddock webhook retry ID EVENT   ·   paddock webhook retry ID --all")
@reporting
def retry(
    webhook: Id,
    event: Annotated[str | None, typer.Argument(metavar="[EVENT]", help="The id of one event.")] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="All of its dead letters.")] = False,
    tenant: OfTenant = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Have one dead letter tried once more, or all; a daemon does so within seconds."""
    if every == (event is not None):
        raise typer.BadParameter("name one event, or give --all", param_hint="EVENT")
    with _keeping(tenant) as (_, kept):
        asked = kept.retry(webhook, event)
    many = "1 dead letter is" if asked == 1 else f"{asked} dead letters are"
    done(as_json, f"{many} tried again", webhook=webhook, asked=asked)


@contextmanager
def _keeping(tenant: str) -> Generator[tuple[CommandHost, Keeping], None, None]:
    from paddock.cli.opening import reading
    from paddock.cli.secret_keys import keys_for
    from paddock.events.sending import Receivers
    from paddock.host.webhooks import keeping_in

    with reading(tenant) as host:
        receivers = Receivers(host.loaded.settings.events.private_receivers)
        yield host, keeping_in(host.plugins, keys_for(host), receivers)


def _with_secret(hook: Webhook, secret: Secret, words: str, *, as_json: bool) -> None:
    if as_json:
        document(_value(hook, None) | {"secret": secret.reveal()})
    else:
        result(secret.reveal())
    say(f"{styled('✓', 'green')} {words}: {', '.join(hook.types)} to {printable(hook.url, 200)}")
    say("  keep the secret now; nobody can show it again")


def _state(hook: Webhook) -> str:
    if not hook.enabled:
        return f"off ({hook.disabled_why})"
    return f"failing ({hook.reason})" if hook.reason else "on"


def _when(at: str, now: datetime) -> str:
    if datetime.fromisoformat(at) <= now:
        return "at once, by a daemon that runs"
    return f"at {at[:19].replace('T', ' ')} UTC"


def _value(hook: Webhook, dead: int | None) -> dict[str, Any]:
    return hook.to_json() | ({} if dead is None else {"dead": dead})
