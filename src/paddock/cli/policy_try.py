"""`paddock policy try NAME`: what the rules would say to a call, of something installed or only described."""

from __future__ import annotations

from typing import Annotated

import typer

from paddock.cli.output import AsJson, document, reporting, result, say, styled

Words = list[str] | None


@reporting
def try_(
    name: Annotated[str, typer.Argument(help="What would be called, as in notes.add; it need not be installed.")],
    *,
    who: Annotated[
        str, typer.Option("--as", metavar="PRINCIPAL", help="Who calls, as in user:ann, or role:guest (you).")
    ] = "",
    role: Annotated[Words, typer.Option(help="A role they have besides, more than once for more.")] = None,
    group: Annotated[Words, typer.Option(help="A group they are in besides.")] = None,
    consent: Annotated[bool, typer.Option("--consent", help="As if they had consented to it.")] = False,
    whitelisted: Annotated[bool, typer.Option("--whitelisted", help="As if it were on the agent's whitelist.")] = False,
    effect: Annotated[Words, typer.Option(help="An effect it has, instead of those it declares.")] = None,
    tag: Annotated[Words, typer.Option(help="A policy tag it has, instead of its own.")] = None,
    flag: Annotated[Words, typer.Option(help="What is odd about its words, instead of what was found.")] = None,
    kind: Annotated[str, typer.Option(help="Its kind: plugin, agent, operator, tool or adapter.")] = "",
    background: Annotated[bool, typer.Option("--background", help="As if nobody waited for it.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what the rules would say to a call, which rule decides, and what would change it. Nothing is called."""
    from datetime import UTC, datetime

    from paddock.cli.opening import reading
    from paddock.cli.principals import at_this_machine
    from paddock.host.supposing import Supposed, suppose
    from paddock.policy.loading import load_policy

    supposed = Supposed(
        who or at_this_machine(),
        name,
        roles=tuple(role or ()),
        groups=tuple(group or ()),
        effects=tuple(effect or ()),
        tags=tuple(tag or ()),
        flags=tuple(flag or ()),
        kind=kind,
        consented=consent,
        whitelisted=whitelisted,
        background=background,
    )
    with reading() as host:
        policy = load_policy(host.directories, host.loaded.settings.policy)
        answered = suppose(host.plugins, policy, supposed, datetime.now(UTC))
    target, explained = answered.target, answered.explanation
    if as_json:
        about = {
            "effects": sorted(target.effects),
            "tags": sorted(target.traits.tags),
            "flags": sorted(target.flags),
            "installed": answered.installed,
        }
        document(explained.to_value() | {"roles": sorted(answered.subject.roles), "target": about})
        return
    if not answered.installed:
        say(f"{styled('!', 'yellow')} nothing installed is called {target.name}; it is taken as you describe it")
    first, *rest = explained.lines()
    result(styled(first, {"allow": "green", "deny": "red", "ask": "yellow"}[explained.answer]))
    for line in rest:
        result(line)
