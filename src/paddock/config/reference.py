"""Generates the reference page of settings from their table."""

from __future__ import annotations

from paddock.config.setting_spec import SettingSpec, Tightening
from paddock.config.settings import SETTINGS
from paddock.config.value_parser import format_number, format_setting

_INTRODUCTION = """\
# Settings

Each setting has one dotted name. Write it in `config.toml` or `local.toml` as a table and a key
(`limits.memory_mb` is `memory_mb` under `[limits]`), or in the environment under its variable.

The strongest word wins: flag, then environment, then project, then `local.toml`, then `config.toml`, then the
default. `paddock config show --origin` prints every value with the place it came from. Mistakes are reported all at
once, and a misspelt name is one. An empty variable counts as unset.

A string in `config.toml` or `local.toml` may take a variable from the environment: `"${NAME}"`. A variable that is
not set is a mistake; `$${` stands for a plain `${`.

**A project** may bring `.paddock/config.toml`; the nearest one at or above the working directory is read. Since
anyone can write a repository, it may only make the settings marked *lower* or *higher* tighter than your own files
say, it takes nothing from the environment, and nothing else. A project's file with a mistake is ignored as a whole,
with a warning.

**Nothing leaves the machine by itself.** Paddock sends no telemetry, events to no webhook but yours,
and checkpoints of the ledger to no anchor but yours.

**Not a setting:** with `PADDOCK_DEBUG=1` in the environment, a command that fails unexpectedly also prints a
traceback, and every command prints what a host would write into a daemon's log.

**The cage** cannot be loosened by any setting. `cage.*` exists so that a variable which tries is refused with a clear
error instead of being ignored.

**Reserved** settings belong to features that Paddock does not have yet. Setting one is an error, in a file and in the
environment, so that no value is silently without effect.

Names in *also* are those of the OSQR plugin architecture: capital ones are environment variables, the others keys at
the top of a file. Setting one of them and ours to different values in one place is a mistake.
"""


def settings_reference() -> str:
    """The whole page as Markdown."""
    sections: list[str] = [_INTRODUCTION]
    group = ""
    for name, row in SETTINGS.items():
        if (row_group := name.partition(".")[0]) != group:
            group = row_group
            sections.append(f"## `[{group}]`\n")
        sections.append(_section(row))
    return "\n".join(sections)


def _section(row: SettingSpec) -> str:
    facts = [
        f"- variable: `{row.environment}`",
        f"- type: {row.kind.value}{_bounds(row)}",
        f"- default: {'unset' if row.default is None else f'`{format_setting(row, row.default)}`'}",
    ]
    if also := [*row.variables, *row.parameters]:
        facts.append(f"- also: {', '.join(f'`{name}`' for name in also)}")
    if row.reserved:
        facts.append(f"- **reserved** for {row.reserved}: setting it is an error")
    else:
        facts.append(f"- in a project: {'refused' if row.tighter is Tightening.NEVER else f'only {row.tighter.value}'}")
    return f"### `{row.name}`\n\n{row.description}\n\n" + "\n".join(facts) + "\n"


def _bounds(row: SettingSpec) -> str:
    if row.fixed:
        return f", only `{format_setting(row, row.default)}`"
    if row.choices:
        return ", one of " + ", ".join(f"`{choice}`" for choice in row.choices)
    if row.minimum is not None and row.maximum is not None:
        return f", {format_number(row.minimum)} to {format_number(row.maximum)}"
    return ""
