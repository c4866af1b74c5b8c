"""What a plugin will do, in plain words: the sentences of a consent screen, made from the manifest alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from paddock.core.printable import printable
from paddock.manifest.capability import NoNetwork, dangerous, describe
from paddock.manifest.command_words import command_in_words, variables_in_words
from paddock.manifest.effects import IN_WORDS, Effect
from paddock.manifest.effects_of import effects_of
from paddock.manifest.model import (
    Behaviour,
    CommandRuntime,
    DataAccess,
    Dialect,
    Manifest,
    OperationAuth,
    PythonRuntime,
    RemoteRuntime,
)
from paddock.manifest.recovery import in_words

_LONGEST = 2000  # longer than any capability
# Those who write MCP servers cannot say what they reach, so most need what they do not ask for.
_HOW_TO_WIDEN = (
    "A server that needs the network is given it when you bring it in, e.g. --capability 'net:api.example.com:443'"
)
_CALM = (Effect.READ_ONLY, Effect.PRODUCE_OUTCOME, Effect.TEMP_WRITE)
_ROW = 360  # what a screen shows of one line for certain
_ROWS = 25  # of one command; nobody reads more
_LIST_ROWS = 200  # of one list of what a plugin is trusted with: an entry left out would be agreed to unseen


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
    return " ".join(f"{line}." for line in behaviour_lines(behaviour))


def behaviour_lines(behaviour: Behaviour) -> list[str]:
    """The same, each change by itself."""
    return [printable(line, _LONGEST) for line in _behaviour_lines(behaviour)]


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
            yield from _rows(*command_in_words(command))
            if cwd is not None:
                yield from _rows("In the directory: ", cwd)
            yield from _environment_lines(env)
        case PythonRuntime(entrypoints=entrypoints, env=env):
            for name, target in entrypoints.items():
                yield from _rows("Runs the Python code: ", f"{target} (as {name})")
            yield from _environment_lines(env)
        case RemoteRuntime(url=url, headers=headers):
            yield from _rows("Connects to: ", url)
            if headers:  # their values may be secrets
                yield from _whole("With the headers: ", headers)
        case None:
            pass


def _environment_lines(env: Mapping[str, str]) -> Iterator[str]:
    """Variables can change what a program does as much as its arguments."""
    if env:
        yield from _rows("With the variables: ", variables_in_words(env))


def _whole(label: str, words: Iterable[str]) -> Iterator[str]:
    """A list with all its entries."""
    return _rows(label, ", ".join(words), _LIST_ROWS)


def _rows(label: str, text: str, most: int = _ROWS) -> Iterator[str]:
    """A text of any length in lines that a screen shows whole, so that nothing hides behind its edge."""
    whole = label + printable(text, len(text) * 10 + 1)  # ten times: an unprintable character becomes its escape
    for row in range(min(most, -(-len(whole) // _ROW))):
        piece = whole[row * _ROW : (row + 1) * _ROW]
        yield f"(line {row + 1}) {piece}" if row else piece
    if len(whole) > most * _ROW:
        yield f"and {len(whole) - most * _ROW:,} characters more: read the manifest before you agree"


def _data_lines(manifest: Manifest) -> Iterator[str]:
    yield from _vault_lines(manifest.data_access) if manifest.data_access else ()
    for identity in manifest.identities:
        optional = " (optional)" if identity.optional else ""
        who = f"Acts with your {identity.provider} account as {identity.mode.replace('_', ' ')}{optional}: "
        yield from _whole(who, identity.scopes or ("no scopes",))
    for auth in manifest.operation_auth:
        yield from _operation_lines(auth)
    if manifest.secrets:
        yield from _whole("Uses the secrets ", (_secret(manifest, name) for name in manifest.secrets))
    if manifest.system_config_schema and manifest.system_config_schema.get("properties"):
        yield from _whole("Is configured on this machine with ", manifest.system_config_schema["properties"])
    if manifest.requires.context_fields:
        yield from _whole("Is shown ", manifest.requires.context_fields)


def _secret(manifest: Manifest, name: str) -> str:
    hosts = manifest.secret_hosts.get(name)
    if hosts is None:
        return name
    return f"{name} (for {', '.join(map(str, hosts)) or 'no host'} alone, and not as a value)"


def _operation_lines(auth: OperationAuth) -> Iterator[str]:
    """With whose account and which secrets one operation acts."""
    if auth.provider or auth.mode or auth.scopes or auth.subject_hint:
        mode = f" as {auth.mode.replace('_', ' ')}" if auth.mode else ""
        subject = f" for {auth.subject_hint}" if auth.subject_hint else ""
        account = f"your {auth.provider} account" if auth.provider else "your account"
        yield from _whole(f"{auth.operation} acts with {account}{mode}{subject}: ", auth.scopes or ("no scopes",))
    if auth.secrets:
        named = (f"{secret} ({scope.replace('_', ' ')})" for secret, scope in auth.secrets.items())
        yield from _whole(f"{auth.operation} uses the secrets ", named)


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
        yield from _whole("Sends data to ", access.external_apis)


def _effects(manifest: Manifest) -> list[Effect]:
    return list(dict.fromkeys(effect for spec in manifest.callables for effect in effects_of(manifest, spec)))


def _effect_lines(manifest: Manifest) -> Iterator[str]:
    for effect in _effects(manifest):
        yield from _callers(manifest, effect)
    yield from _approval_lines(manifest)
    yield from _recovery_lines(manifest)


def _alarming_effects(manifest: Manifest) -> Iterator[str]:
    for effect in _effects(manifest):
        if effect not in _CALM:
            yield from _callers(manifest, effect)


def _callers(manifest: Manifest, effect: Effect) -> Iterator[str]:
    names = tuple(spec.name for spec in manifest.callables if effect in effects_of(manifest, spec))
    if effect in _CALM:
        yield f"{IN_WORDS[effect]}: {_listed(names, 6)}"
    else:
        yield from _whole(f"{IN_WORDS[effect]}: ", names)


def _recovery_lines(manifest: Manifest) -> Iterator[str]:
    """How it is found out whether a call has happened that was cut off; where nothing is said, a person has to."""
    found: dict[str, list[str]] = {}
    for spec in manifest.callables:
        if spec.recovery != "none":
            found.setdefault(in_words(spec.recovery, spec.probe), []).append(spec.name)
    for words, names in found.items():
        yield from _whole(f"Where nobody knows whether a call has happened, {words}: ", names)


def _approval_lines(manifest: Manifest) -> Iterator[str]:
    """What the plugin wants to stand between a call and its effect. A screen may not promise what no part keeps."""
    asked = [spec.name for spec in manifest.callables if spec.requires_approval]
    if asked:
        yield from _whole("Has a person approve each call: ", asked)
    for spec in manifest.callables:
        if spec.required_scopes:
            yield from _whole(f"Keeps {spec.name} to callers with scopes: ", spec.required_scopes)


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
        yield from _whole("Is told about ", (hook.removeprefix("on_").replace("_", " ") for hook in manifest.hooks))
    if "compactor" in manifest.roles:
        yield "May rewrite the conversation when it grows too long"
    if manifest.requires.tools:
        yield from _whole("Needs the tools ", (tool.name for tool in manifest.requires.tools))
    if manifest.allowed_actions:
        yield from _whole("May propose ", manifest.allowed_actions)
    unattended = dict.fromkeys([*filter(None, [manifest.feeds.default_op]), *manifest.feeds.allowed_ops])
    if unattended:
        yield from _whole("May run on a schedule, with nobody watching: ", unattended)


def _listed(words: tuple[str, ...], most: int) -> str:
    shown = ", ".join(words[:most])
    return shown if len(words) <= most else f"{shown} and {len(words) - most} more"


def _first_sentence(text: str) -> str:
    line = " ".join(text.split())
    cut = line.split(". ")[0]
    return cut if len(cut) <= 100 else cut[:99] + "…"
