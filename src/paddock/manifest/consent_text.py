"""The sentences of a consent screen: what a plugin will do, in plain words, derived from the manifest alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

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
# MCP has no way to declare network access, so most servers need more than they request.
_NETWORK_HINT = (
    "A server that needs the network is given it when you bring it in, with a capability such as"
    " 'net:api.example.com:443'"
)
_LOW_RISK_EFFECTS = (Effect.READ_ONLY, Effect.PRODUCE_OUTCOME, Effect.TEMP_WRITE)
_ROW_CHARS = 360  # characters of one line that every screen shows
_MAX_ROWS = 25  # lines of one command; nobody reads more
_MAX_LIST_ROWS = 200  # lines of one list of permissions: a hidden entry would be approved unseen


class ConsentSection(Struct, frozen=True):
    """One heading of a consent screen and the sentences below it."""

    title: str
    lines: tuple[str, ...]
    alarming: tuple[str, ...] = ()  # lines to highlight as risky


def consent_sections(manifest: Manifest) -> list[ConsentSection]:
    """Return everything a person should know before they consent, in reading order."""
    sections = [
        ConsentSection("How it behaves", tuple(_behaviour_lines(manifest.behaviour))) if manifest.behaviour else None,
        _program_section(manifest),
        ConsentSection("Which of your data it uses", tuple(_data_lines(manifest))),
        ConsentSection("What its calls may do", tuple(_effect_lines(manifest)), tuple(_alarming_effects(manifest))),
        _capability_section(manifest),
        ConsentSection("What it offers", tuple(_offer_lines(manifest))),
        ConsentSection("When it runs", tuple(_run_lines(manifest))),
    ]
    return [_printable_section(section) for section in sections if section is not None and section.lines]


def _printable_section(section: ConsentSection) -> ConsentSection:
    """Escape control characters: text from strangers must not control the terminal."""
    lines = tuple(printable(line, _MAX_TEXT_CHARS) for line in section.lines)
    return ConsentSection(section.title, lines, tuple(printable(line, _MAX_TEXT_CHARS) for line in section.alarming))


def behaviour_summary(behaviour: Behaviour) -> str:
    """Summarise the behavioural changes in one paragraph, as shown when a person activates the plugin."""
    return " ".join(f"{line}." for line in behaviour_lines(behaviour))


def behaviour_lines(behaviour: Behaviour) -> list[str]:
    """Return the behavioural changes, one sentence each."""
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
    """Show the program in full: everything else on the screen is only as true as this program."""
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
    """List the variables, which can change a program as much as its arguments."""
    if env:
        yield from _wrap_rows("With the variables: ", variables_text(env))


def _full_list(label: str, entries: Iterable[str]) -> Iterator[str]:
    """List all entries, without a limit on their number."""
    return _wrap_rows(label, ", ".join(entries), _MAX_LIST_ROWS)


def _wrap_rows(label: str, text: str, max_rows: int = _MAX_ROWS) -> Iterator[str]:
    """Split a text of any length into lines that a screen shows in full, so that nothing is cut off."""
    full_text = label + printable(text, len(text) * 10 + 1)  # ten times: an unprintable character becomes its escape
    for row in range(min(max_rows, -(-len(full_text) // _ROW_CHARS))):
        piece = full_text[row * _ROW_CHARS : (row + 1) * _ROW_CHARS]
        yield f"(line {row + 1}) {piece}" if row else piece
    if len(full_text) > max_rows * _ROW_CHARS:
        yield f"and {len(full_text) - max_rows * _ROW_CHARS:,} characters more: read the manifest before you agree"


def _data_lines(manifest: Manifest) -> Iterator[str]:
    yield from _vault_lines(manifest.data_access) if manifest.data_access else ()
    for identity in manifest.identities:
        optional = " (optional)" if identity.optional else ""
        label = f"Acts with your {identity.provider} account as {identity.mode.replace('_', ' ')}{optional}: "
        yield from _full_list(label, identity.scopes or ("no scopes",))
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
    """Name the account and the secrets that one operation uses."""
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
    """Say how the outcome of an interrupted call is found out; without a declaration, a person has to."""
    names_by_recovery: dict[str, list[str]] = {}
    for spec in manifest.callables:
        if spec.recovery != "none":
            names_by_recovery.setdefault(recovery_text(spec.recovery, spec.probe), []).append(spec.name)
    for recovery, names in names_by_recovery.items():
        yield from _full_list(f"Where nobody knows whether a call has happened, {recovery}: ", names)


def _approval_lines(manifest: Manifest) -> Iterator[str]:
    """List the approvals and scopes that the plugin wants enforced, and only those that are enforced."""
    needing_approval = [spec.name for spec in manifest.callables if spec.requires_approval]
    if needing_approval:
        yield from _full_list("Has a person approve each call: ", needing_approval)
    for spec in manifest.callables:
        if spec.required_scopes:
            yield from _full_list(f"Keeps {spec.name} to callers with scopes: ", spec.required_scopes)


def _capability_section(manifest: Manifest) -> ConsentSection:
    if isinstance(manifest.runtime, RemoteRuntime):
        warning = (f"Is NOT caged: it is a connection to {manifest.runtime.url}, which runs elsewhere",)
    else:
        warning = ()
    requested = [capability for capability in manifest.capabilities if not isinstance(capability, NoNetwork)]
    if not requested and not warning:
        nothing = "Nothing: no files, no network, no programs"
        if manifest.dialect is Dialect.MCP and isinstance(manifest.runtime, CommandRuntime):
            return ConsentSection("What it may reach", (nothing, _NETWORK_HINT))
        return ConsentSection("What it may reach", (nothing,))
    lines = tuple(f"{capability} — {describe_capability(capability)}" for capability in requested)
    alarming = tuple(line for line, one in zip(lines, requested, strict=True) if is_dangerous(one))
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


def _short_list(entries: tuple[str, ...], limit: int) -> str:
    shown = ", ".join(entries[:limit])
    return shown if len(entries) <= limit else f"{shown} and {len(entries) - limit} more"


def _first_sentence(text: str) -> str:
    line = " ".join(text.split())
    cut = line.split(". ")[0]
    return cut if len(cut) <= 100 else cut[:99] + "…"
