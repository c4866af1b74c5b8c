"""Looking at plugins: `list` and `info`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from paddock.cli.output import AsJson, document, reporting, result, say, styled, table
from paddock.core.printable import printable

if TYPE_CHECKING:
    from paddock.plugins.listing import Listed
    from paddock.plugins.signature import KeyId

STATE_STYLES = {"enabled": "green", "disabled": "dim", "modified": "red", "version missing": "red"}


def register(app: typer.Typer) -> None:
    app.command("list", epilog="Example: paddock plugin list --kind operator --json")(list_)
    app.command("info", epilog="Example: paddock plugin info memory-markdown")(info)


@reporting
def list_(
    *,
    kind: Annotated[str | None, typer.Option(help="Only agents, operators, tools, adapters or plugins.")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also show sources, homepages and digests.")] = False,
    as_json: AsJson = False,
) -> None:
    """List installed plugins and their state."""
    from paddock.cli.opening import reading
    from paddock.plugins.listing import list_plugins
    from paddock.plugins.trust import trusted_keys

    with reading() as host:
        listed = list_plugins(host.plugins, kind)
        signed = any(one.version and one.version.signature_text for one in listed)
        trusted = {key.key_id: key.label for key in host.plugins.database.read(trusted_keys)} if signed else {}
    rows = [_listed(one, trusted, verbose=verbose or as_json) for one in listed]
    if as_json:
        document({"plugins": rows})
        return
    if not rows:
        say("no plugins are installed; try: paddock plugin install DIR")
        return
    headings = ["NAME", "VERSION", "STATE", "KIND", "TRUST", "DESCRIPTION"]
    cells = [
        [
            row["name"],
            row["version"] + (" (pinned)" if row["pinned"] else ""),
            row["state"],
            row["kind"],
            row["tier"],
            row["description"],
        ]
        for row in rows
    ]
    for line, row in zip(table(headings, cells), [None, *rows], strict=True):
        result(line)
        if row and verbose:
            for label in ("title", "source", "homepage", "digest", "signature", "capabilities"):
                # A plugin whose pinned version is gone has only what its own row says.
                if said := row.get(label):
                    shown = ", ".join(cast("list[str]", said)) if isinstance(said, list) else said
                    result(f"    {label.ljust(12)} {printable(str(shown), 300)}")
    for row in rows:
        if row["repair"]:
            say(f"{styled('!', 'yellow')} {row['name']}: {row['repair']}")


def _listed(one: Listed, trusted: Mapping[KeyId, str], *, verbose: bool) -> dict[str, Any]:
    from paddock.plugins.listing import State
    from paddock.plugins.trust import standing_of

    state, words, tier = (
        standing_of(one.version, trusted, intact=one.state is not State.MODIFIED)
        if one.version
        else ("unknown", "", "personal")
    )
    repair = {
        State.MODIFIED: f"its files changed, so it never loads; restore them: paddock plugin repair {one.plugin.name}",
        State.MISSING: f"its pinned version was removed; paddock plugin pin {one.plugin.name} --off, or disable it",
    }
    row: dict[str, Any] = {
        "name": one.plugin.name,
        "title": one.plugin.title,
        "version": one.plugin.current_version,
        "versions": one.versions,
        "state": one.state.value,
        "enabled": bool(one.grant and one.grant.enabled),
        "pinned": one.plugin.pinned_version is not None,
        "kind": one.kind,
        "dialect": one.version.dialect if one.version else "",
        "tier": tier,
        "signature": f"{state}: {words}" if verbose else str(state),
        "description": one.description,
        "repair": repair.get(one.state, ""),
    }
    if verbose and one.version:
        row |= {
            "source": one.version.source.describe(),
            "homepage": one.version.document.get("homepage", ""),
            "digest": one.version.digest,
            "capabilities": one.version.document.get("capabilities", []),
        }
    return row


@reporting
def info(
    name: Annotated[str, typer.Argument(help="The plugin's name or an alias of it.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Show everything about one plugin: versions, trust, capabilities, tools, and what it would do."""
    from paddock.cli.opening import reading
    from paddock.plugins.details import details_of

    with reading() as host:
        details = details_of(host.plugins, name)
    if as_json:
        document(details.to_value())
        return
    listed = details.facts
    result(styled(printable(listed["title"] or listed["name"]), "bold", stream=sys.stdout))
    for label, value in listed.items():
        if value not in ("", None, [], False):
            shown = ", ".join(map(str, cast("list[Any]", value))) if isinstance(value, list) else str(value)
            result(f"  {label.ljust(12)} {printable(shown, 400)}")
    for section in details.sections:
        result("")
        result(f"  {section.title}")
        for line in section.lines:
            result(f"    • {printable(line, 400)}")
    for problem in details.obstacles:
        say(f"{styled('!', 'yellow')} cannot be enabled: {printable(problem.message)} — {printable(problem.hint)}")
