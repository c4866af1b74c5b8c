"""What a plugin will do, in plain words: the sentences of a consent screen, made from the manifest alone."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from paddock.core.printable import printable
from paddock.manifest.capability import NoNetwork, dangerous, describe
from paddock.manifest.effects import IN_WORDS, Effect
from paddock.manifest.effects_of import effects_of
from paddock.manifest.model import (
    Behaviour,
    CommandRuntime,
    DataAccess,
    Dialect,
    Manifest,
    PythonRuntime,
    RemoteRuntime,
)

_LONGEST = 2000  # longer than any capability
# Those who write MCP servers cannot say what they reach, so most need what they do not ask for.
_HOW_TO_WIDEN = "A server that needs the network is given it on import, e.g. --capability 'net:api.example.com:443'"
_ROW = 360  # what a screen shows of one line for certain
_ROWS = 25  # of one command; nobody reads more


@dataclass(frozen=True, slots=True)
class Section:
    """One heading of a consent screen and the sentences below it."""

    title: str
    lines: tuple[str, ...]
    alarming: tuple[str, ...] = ()  # lines a person should look at twice


def consent_sections(manifest: Manifest) -> list[Section]:
    """Everything a person should know before saying yes, in the order they should read it."""
    sections = [
        Section("How it behaves", tuple(_behaviour_lines(manifest.behaviour))) if manifest.behaviour else None,
        _program_section(manifest),
        Section("What of yours it uses", tuple(_data_lines(manifest))),
        Section("What its calls may do", tuple(_effect_lines(manifest)), tuple(_alarming_effects(manifest))),
        _capability_section(manifest),
        Section("What it offers", tuple(_offer_lines(manifest))),
        Section("When it runs", tuple(_run_lines(manifest))),
    ]
    return [_safe(section) for section in sections if section is not None and section.lines]


def _safe(section: Section) -> Section:
    """What a stranger wrote may not steer the terminal it is read on."""
    lines = tuple(printable(line, _LONGEST) for line in section.lines)
    return Section(section.title, lines, tuple(printable(line, _LONGEST) for line in section.alarming))


def summary_of(behaviour: Behaviour) -> str:
    """The behavioural changes as one paragraph, as shown when a person activates the plugin."""
    return " ".join(f"{printable(line, _LONGEST)}." for line in _behaviour_lines(behaviour))


def _behaviour_lines(behaviour: Behaviour) -> Iterator[str]:
    if behaviour.style:
        yield f"Changes the communication style to “{behaviour.style}” ({behaviour.intensity})"
    if behaviour.honesty_override:
        yield f"Sets how blunt feedback is: {behaviour.honesty_mode.replace('_', ' ') or 'its own way'}"
    if behaviour.can_initiate and behaviour.trigger_topics:
        yield f"Speaks up by itself when you discuss {_listed(behaviour.trigger_topics, 5)}"
    elif behaviour.trigger_topics:
        yield f"Engages, without speaking up by itself, on {_listed(behaviour.trigger_topics, 5)}"
    if behaviour.response_length or behaviour.emoji_usage:
        parts = [
            f"{behaviour.response_length} answers" if behaviour.response_length else "",
            f"{behaviour.emoji_usage} emoji" if behaviour.emoji_usage else "",
        ]
        yield "Formats replies: " + ", ".join(part for part in parts if part)
    if behaviour.honesty_override:
        yield (
            "You can still ask for direct feedback anytime"
            if behaviour.direct_feedback_kept
            else "Direct feedback mode is NOT available while it is active"
        )


def _program_section(manifest: Manifest) -> Section:
    """What is started, word for word: all else on the screen is only as true as this program."""
    lines = tuple(dict.fromkeys(_program_lines(manifest)))
    return Section("What it runs", lines, lines)


def _program_lines(manifest: Manifest) -> Iterator[str]:
    match manifest.runtime:
        case CommandRuntime(command=command, env=env, cwd=cwd):
            yield from _rows("Runs the command: ", shlex.join(command))
            if cwd is not None:
                yield from _rows("In the directory: ", cwd)
            yield from _environment_lines(env)
        case PythonRuntime(entrypoints=entrypoints, env=env):
            for name, target in entrypoints.items():
                yield from _rows("Runs the Python code: ", f"{target} (as {name})")
            yield from _environment_lines(env)
        case RemoteRuntime(url=url):
            yield from _rows("Connects to: ", url)
        case None:
            pass


def _environment_lines(env: Mapping[str, str]) -> Iterator[str]:
    """Variables can change what a program does as much as its arguments."""
    if env:
        listed = " ".join(f"{name}={shlex.quote(value)}" for name, value in env.items())
        yield from _rows("With the variables: ", listed)


def _rows(label: str, text: str) -> Iterator[str]:
    """A text of any length in lines that a screen shows whole, so that nothing hides behind its edge."""
    whole = label + printable(text, len(text) * 10 + 1)  # ten times: an unprintable character becomes its escape
    for row in range(min(_ROWS, -(-len(whole) // _ROW))):
        piece = whole[row * _ROW : (row + 1) * _ROW]
        yield f"(line {row + 1}) {piece}" if row else piece
    if len(whole) > _ROWS * _ROW:
        yield f"and {len(whole) - _ROWS * _ROW:,} characters more: read the manifest before you agree"


def _data_lines(manifest: Manifest) -> Iterator[str]:
    yield from _vault_lines(manifest.data_access) if manifest.data_access else ()
    for identity in manifest.identities:
        optional = " (optional)" if identity.optional else ""
        scopes = _listed(identity.scopes, 4) or "no scopes"
        yield f"Acts with your {identity.provider} account as {identity.mode.replace('_', ' ')}{optional}: {scopes}"
    if manifest.secrets:
        yield f"Uses the secrets {_listed(manifest.secrets, 8)}"
    if manifest.system_config_schema and manifest.system_config_schema.get("properties"):
        yield f"Is configured on this machine with {_listed(tuple(manifest.system_config_schema['properties']), 8)}"
    if manifest.requires.context_fields:
        yield f"Is shown {_listed(manifest.requires.context_fields, 8)}"


def _vault_lines(access: DataAccess) -> Iterator[str]:
    if access.vault_read:
        yield "Reads your private knowledge vault"
    if access.vault_write:
        yield "Stores its own progress in your private vault"
    if access.memory == "full":
        yield "Reads and adds to what the assistant remembers about you"
    elif access.memory == "reference_only":
        yield "Refers to what the assistant remembers about you"
    if access.external_apis:
        yield f"Sends data to {_listed(access.external_apis, 8)}"


def _effects(manifest: Manifest) -> list[Effect]:
    return list(dict.fromkeys(effect for spec in manifest.callables for effect in effects_of(manifest, spec)))


def _effect_lines(manifest: Manifest) -> Iterator[str]:
    for effect in _effects(manifest):
        names = [spec.name for spec in manifest.callables if effect in effects_of(manifest, spec)]
        yield f"{IN_WORDS[effect]}: {_listed(tuple(names), 6)}"


def _alarming_effects(manifest: Manifest) -> Iterator[str]:
    for line, effect in zip(_effect_lines(manifest), _effects(manifest), strict=True):
        if effect not in (Effect.READ_ONLY, Effect.PRODUCE_OUTCOME, Effect.TEMP_WRITE):
            yield line


def _capability_section(manifest: Manifest) -> Section:
    if isinstance(manifest.runtime, RemoteRuntime):
        warning = (f"Is NOT caged: it is a connection to {manifest.runtime.url}, which runs elsewhere",)
    else:
        warning = ()
    asked = [capability for capability in manifest.capabilities if not isinstance(capability, NoNetwork)]
    if not asked and not warning:
        nothing = "Nothing: no files, no network, no programs"
        if manifest.dialect is Dialect.MCP and isinstance(manifest.runtime, CommandRuntime):
            return Section("What it may reach", (nothing, _HOW_TO_WIDEN))
        return Section("What it may reach", (nothing,))
    lines = tuple(f"{capability} — {describe(capability)}" for capability in asked)
    alarming = tuple(line for line, one in zip(lines, asked, strict=True) if dangerous(one))
    return Section("What it may reach", warning + lines, warning + alarming)


def _offer_lines(manifest: Manifest) -> Iterator[str]:
    for spec in manifest.callables[:20]:
        yield f"{spec.name}" + (f" — {_first_sentence(spec.description)}" if spec.description else "")
    if len(manifest.callables) > 20:
        yield f"and {len(manifest.callables) - 20} more"
    if manifest.resources:
        yield f"{len(manifest.resources)} resources: {_listed(tuple(one.name for one in manifest.resources), 4)}"
    if manifest.prompts:
        yield f"{len(manifest.prompts)} prompts: {_listed(tuple(prompt.name for prompt in manifest.prompts), 4)}"


def _run_lines(manifest: Manifest) -> Iterator[str]:
    if manifest.hooks:
        events = tuple(hook.removeprefix("on_").replace("_", " ") for hook in manifest.hooks)
        yield f"Is told about {_listed(events, 4)}"
    if "compactor" in manifest.roles:
        yield "May rewrite the conversation when it grows too long"
    if manifest.requires.tools:
        yield f"Needs the tools {_listed(tuple(tool.name for tool in manifest.requires.tools), 8)}"
    if manifest.allowed_actions:
        yield f"May propose {_listed(manifest.allowed_actions, 8)}"


def _listed(words: tuple[str, ...], most: int) -> str:
    shown = ", ".join(words[:most])
    return shown if len(words) <= most else f"{shown} and {len(words) - most} more"


def _first_sentence(text: str) -> str:
    line = " ".join(text.split())
    cut = line.split(". ")[0]
    return cut if len(cut) <= 100 else cut[:99] + "…"
