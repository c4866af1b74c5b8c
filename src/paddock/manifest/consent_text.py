"""What a plugin will do, in plain words: the sentences of a consent screen, made from the manifest alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from paddock.core.printable import printable
from paddock.manifest.capability import NoNetwork, describe_capability, is_dangerous
from paddock.manifest.command import command_text, variables_text
from paddock.manifest.effects import EFFECT_TEXT, Effect
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
from paddock.manifest.permissions import callable_effects
from paddock.manifest.rules.recovery import recovery_text

_MAX_TEXT_CHARS = 2000  # longer than any capability
# Those who write MCP servers cannot say what they reach, so most need what they do not ask for.
_NETWORK_HINT = (
    "A server that needs the network is given it when you bring it in, e.g. --capability 'net:api.example.com:443'"
)
_LOW_RISK_EFFECTS = (Effect.READ_ONLY, Effect.PRODUCE_OUTCOME, Effect.TEMP_WRITE)
_ROW_CHARS = 360  # what a screen shows of one line for certain
_MAX_ROWS = 25  # of one command; nobody reads more
_MAX_LIST_ROWS = 200  # of one list of what a plugin is trusted with: an entry left out would be agreed to unseen


@dataclass(frozen=True, slots=True)
class ConsentSection:
    """One heading of a consent screen and the sentences below it."""

    title: str
    lines: tuple[str, ...]
    alarming: tuple[str, ...] = ()  # lines a person should look at twice


def consent_sections(manifest: Manifest) -> list[ConsentSection]:
    """Everything a person should know before saying yes, in the order they should read it."""
    sections = [
        ConsentSection("How it behaves", tuple(_behaviour_lines(manifest.behaviour))) if manifest.behaviour else None,
        _program_section(manifest),
        ConsentSection("What of yours it uses", tuple(_data_lines(manifest))),
        ConsentSection("What its calls may do", tuple(_effect_lines(manifest)), tuple(_alarming_effects(manifest))),
        _capability_section(manifest),
        ConsentSection("What it offers", tuple(_offer_lines(manifest))),
        ConsentSection("When it runs", tuple(_run_lines(manifest))),
    ]
    return [_printable_section(section) for section in sections if section is not None and section.lines]


def _printable_section(section: ConsentSection) -> ConsentSection:
    """What a stranger wrote may not steer the terminal it is read on."""
    lines = tuple(printable(line, _MAX_TEXT_CHARS) for line in section.lines)
    return ConsentSection(section.title, lines, tuple(printable(line, _MAX_TEXT_CHARS) for line in section.alarming))


def behaviour_summary(behaviour: Behaviour) -> str:
    """The behavioural changes as one paragraph, as shown when a person activates the plugin."""
    return " ".join(f"{line}." for line in behaviour_lines(behaviour))


def behaviour_lines(behaviour: Behaviour) -> list[str]:
    """The same, each change by itself."""
    return [printable(line, _MAX_TEXT_CHARS) for line in _behaviour_lines(behaviour)]


def _behaviour_lines(behaviour: Behaviour) -> Iterator[str]:
    if behaviour.style:
        yield f"Changes the communication style to “{behaviour.style}” ({behaviour.intensity})"
    if behaviour.honesty_override:
        yield f"Sets how blunt feedback is: {behaviour.honesty_mode.replace('_', ' ') or 'its own way'}"
    if behaviour.can_initiate and behaviour.trigger_topics:
        yield f"Speaks up by itself when you discuss {_short_list(behaviour.trigger_topics, 5)}"
    elif behaviour.trigger_topics:
        yield f"Engages, without speaking up by itself, on {_short_list(behaviour.trigger_topics, 5)}"
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


def _program_section(manifest: Manifest) -> ConsentSection:
    """What is started, word for word: all else on the screen is only as true as this program."""
    lines = tuple(dict.fromkeys(_program_lines(manifest)))
    return ConsentSection("What it runs", lines, lines)


def _program_lines(manifest: Manifest) -> Iterator[str]:
    match manifest.runtime:
        case CommandRuntime(command=command, env=env, cwd=cwd):
            yield from _wrap_rows(*command_text(command))
            if cwd is not None:
                yield from _wrap_rows("In the directory: ", cwd)
            yield from _environment_lines(env)
        case PythonRuntime(entrypoints=entrypoints, env=env):
            for name, target in entrypoints.items():
                yield from _wrap_rows("Runs the Python code: ", f"{target} (as {name})")
            yield from _environment_lines(env)
        case RemoteRuntime(url=url, headers=headers):
            yield from _wrap_rows("Connects to: ", url)
            if headers:  # their values may be secrets
                yield from _full_list("With the headers: ", headers)
        case None:
            pass


def _environment_lines(env: Mapping[str, str]) -> Iterator[str]:
    """Variables can change what a program does as much as its arguments."""
    if env:
        yield from _wrap_rows("With the variables: ", variables_text(env))


def _full_list(label: str, words: Iterable[str]) -> Iterator[str]:
    """A list with all its entries."""
    return _wrap_rows(label, ", ".join(words), _MAX_LIST_ROWS)


def _wrap_rows(label: str, text: str, most: int = _MAX_ROWS) -> Iterator[str]:
    """A text of any length in lines that a screen shows whole, so that nothing hides behind its edge."""
    whole = label + printable(text, len(text) * 10 + 1)  # ten times: an unprintable character becomes its escape
    for row in range(min(most, -(-len(whole) // _ROW_CHARS))):
        piece = whole[row * _ROW_CHARS : (row + 1) * _ROW_CHARS]
        yield f"(line {row + 1}) {piece}" if row else piece
    if len(whole) > most * _ROW_CHARS:
        yield f"and {len(whole) - most * _ROW_CHARS:,} characters more: read the manifest before you agree"


def _data_lines(manifest: Manifest) -> Iterator[str]:
    yield from _vault_lines(manifest.data_access) if manifest.data_access else ()
    for identity in manifest.identities:
        optional = " (optional)" if identity.optional else ""
        who = f"Acts with your {identity.provider} account as {identity.mode.replace('_', ' ')}{optional}: "
        yield from _full_list(who, identity.scopes or ("no scopes",))
    for auth in manifest.operation_auth:
        yield from _operation_lines(auth)
    if manifest.secrets:
        yield from _full_list("Uses the secrets ", (_secret_text(manifest, name) for name in manifest.secrets))
    if manifest.system_config_schema and manifest.system_config_schema.get("properties"):
        yield from _full_list("Is configured on this machine with ", manifest.system_config_schema["properties"])
    if manifest.requires.context_fields:
        yield from _full_list("Is shown ", manifest.requires.context_fields)


def _secret_text(manifest: Manifest, name: str) -> str:
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
        yield from _full_list(f"{auth.operation} acts with {account}{mode}{subject}: ", auth.scopes or ("no scopes",))
    if auth.secrets:
        named = (f"{secret} ({scope.replace('_', ' ')})" for secret, scope in auth.secrets.items())
        yield from _full_list(f"{auth.operation} uses the secrets ", named)


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
        yield from _full_list("Sends data to ", access.external_apis)


def _all_effects(manifest: Manifest) -> list[Effect]:
    return list(dict.fromkeys(effect for spec in manifest.callables for effect in callable_effects(manifest, spec)))


def _effect_lines(manifest: Manifest) -> Iterator[str]:
    for effect in _all_effects(manifest):
        yield from _callables_with_effect(manifest, effect)
    yield from _approval_lines(manifest)
    yield from _recovery_lines(manifest)


def _alarming_effects(manifest: Manifest) -> Iterator[str]:
    for effect in _all_effects(manifest):
        if effect not in _LOW_RISK_EFFECTS:
            yield from _callables_with_effect(manifest, effect)


def _callables_with_effect(manifest: Manifest, effect: Effect) -> Iterator[str]:
    names = tuple(spec.name for spec in manifest.callables if effect in callable_effects(manifest, spec))
    if effect in _LOW_RISK_EFFECTS:
        yield f"{EFFECT_TEXT[effect]}: {_short_list(names, 6)}"
    else:
        yield from _full_list(f"{EFFECT_TEXT[effect]}: ", names)


def _recovery_lines(manifest: Manifest) -> Iterator[str]:
    """How it is found out whether a call has happened that was cut off; where nothing is said, a person has to."""
    found: dict[str, list[str]] = {}
    for spec in manifest.callables:
        if spec.recovery != "none":
            found.setdefault(recovery_text(spec.recovery, spec.probe), []).append(spec.name)
    for words, names in found.items():
        yield from _full_list(f"Where nobody knows whether a call has happened, {words}: ", names)


def _approval_lines(manifest: Manifest) -> Iterator[str]:
    """What the plugin wants to stand between a call and its effect. A screen may not promise what no part keeps."""
    asked = [spec.name for spec in manifest.callables if spec.requires_approval]
    if asked:
        yield from _full_list("Has a person approve each call: ", asked)
    for spec in manifest.callables:
        if spec.required_scopes:
            yield from _full_list(f"Keeps {spec.name} to callers with scopes: ", spec.required_scopes)


def _capability_section(manifest: Manifest) -> ConsentSection:
    if isinstance(manifest.runtime, RemoteRuntime):
        warning = (f"Is NOT caged: it is a connection to {manifest.runtime.url}, which runs elsewhere",)
    else:
        warning = ()
    asked = [capability for capability in manifest.capabilities if not isinstance(capability, NoNetwork)]
    if not asked and not warning:
        nothing = "Nothing: no files, no network, no programs"
        if manifest.dialect is Dialect.MCP and isinstance(manifest.runtime, CommandRuntime):
            return ConsentSection("What it may reach", (nothing, _NETWORK_HINT))
        return ConsentSection("What it may reach", (nothing,))
    lines = tuple(f"{capability} — {describe_capability(capability)}" for capability in asked)
    alarming = tuple(line for line, one in zip(lines, asked, strict=True) if is_dangerous(one))
    return ConsentSection("What it may reach", warning + lines, warning + alarming)


def _offer_lines(manifest: Manifest) -> Iterator[str]:
    for spec in manifest.callables[:20]:
        yield f"{spec.name}" + (f" — {_first_sentence(spec.description)}" if spec.description else "")
    if len(manifest.callables) > 20:
        yield f"and {len(manifest.callables) - 20} more"
    if manifest.resources:
        yield f"{len(manifest.resources)} resources: {_short_list(tuple(one.name for one in manifest.resources), 4)}"
    if manifest.prompts:
        yield f"{len(manifest.prompts)} prompts: {_short_list(tuple(prompt.name for prompt in manifest.prompts), 4)}"


def _run_lines(manifest: Manifest) -> Iterator[str]:
    if manifest.hooks:
        yield from _full_list("Is told about ", (hook.removeprefix("on_").replace("_", " ") for hook in manifest.hooks))
    if "compactor" in manifest.roles:
        yield "May rewrite the conversation when it grows too long"
    if manifest.requires.tools:
        yield from _full_list("Needs the tools ", (tool.name for tool in manifest.requires.tools))
    if manifest.allowed_actions:
        yield from _full_list("May propose ", manifest.allowed_actions)
    unattended = dict.fromkeys([*filter(None, [manifest.feeds.default_op]), *manifest.feeds.allowed_ops])
    if unattended:
        yield from _full_list("May run on a schedule, with nobody watching: ", unattended)


def _short_list(words: tuple[str, ...], most: int) -> str:
    shown = ", ".join(words[:most])
    return shown if len(words) <= most else f"{shown} and {len(words) - most} more"


def _first_sentence(text: str) -> str:
    line = " ".join(text.split())
    cut = line.split(". ")[0]
    return cut if len(cut) <= 100 else cut[:99] + "…"
