"""The reference pages that are written from the code, so that they cannot fall behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from inspect import cleandoc
from types import SimpleNamespace
from typing import Any, cast

from documented.command_tree import leaves
from documented.error_codes import meanings
from documented.events import event_reference
from documented.hooks import hook_reference
from paddock.api.routes import api_routes
from paddock.cli.output.action_text import command_line
from paddock.config.oidc_settings import OidcSettings
from paddock.config.reference import settings_reference
from paddock.config.settings import Settings
from paddock.core import error_formats
from paddock.core.action import SENTENCES, Action, template_arguments
from paddock.core.errors import Category
from paddock.host.observability.metrics import METRIC_FAMILIES
from paddock.manifest.capability import FAMILY_ALIASES, FAMILY_MODES, HOST_FAMILIES
from paddock.manifest.effects import EFFECT_ALIASES, EFFECT_TEXT, Effect
from paddock.runtime.lifecycle import TRANSITIONS, PluginState
from paddock.web.app import Shutdown
from paddock.web.oidc.protected_resource import ProtectedResource
from paddock.web.oidc.routes import OidcRoutes
from paddock.web.routing.body import MAX_JSON_BYTES
from paddock.web.routing.openapi import error_statuses_of, header_params
from paddock.web.routing.route import MEMBER
from paddock.web.routing.validation import to_parameter_spec


def cli_reference() -> str:
    """Every command with its arguments and options."""
    parts = [
        "# Commands\n",
        "Results go to stdout, words for people to stderr. Every command below takes `--json` and then prints one"
        " document on stdout. Exit codes are in [errors](errors.md).\n",
    ]
    for words, command in leaves().items():
        name = " ".join(("paddock", *words))
        parameters = [one for one in command.params if one.name != "help"]
        arguments = " ".join(_argument(one) for one in parameters if one.param_type_name == "argument")
        parts.append(f"## {name}\n")
        parts.append(f"```text\n{name} {arguments}".rstrip() + "\n```\n")
        parts.append(f"{cleandoc(command.help or '')}\n")
        rows = [(one, getattr(one, "help", None) or "") for one in parameters]
        if rows:
            parts.append(
                "| | |\n|---|---|\n" + "\n".join(f"| `{_spelled(one)}` | {text} |" for one, text in rows) + "\n"
            )
        parts.append("```text\n" + "\n".join(command.examples) + "\n```\n")
    return "\n".join(parts)


def _argument(parameter: Any) -> str:
    shown = parameter.metavar or parameter.name.upper()
    return shown if parameter.required or shown.startswith("[") else f"[{shown}]"


def _spelled(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return _argument(parameter).replace("|", "\\|")
    # Two words of one flag: `--wait` and `--detach`.
    return " / ".join(", ".join(words) for words in (parameter.opts, parameter.secondary_opts) if words)


def error_reference() -> str:
    """Every kind of trouble, and what it looks like on each side."""
    rows = [
        f"| `{category.value}` | {error_formats.TITLES[category]} | {error_formats.EXIT_CODES[category]} "
        f"| {error_formats.HTTP_STATUS[category]} | {error_formats.JSON_RPC_CODES[category]} |"
        for category in Category
    ]
    return (
        "# Errors\n\n"
        "An error has a stable `code` for machines, a sentence for people, and what to do next. Its category determines"
        " its exit code, HTTP status and JSON-RPC code.\n\n"
        "| category | in words | exit code | HTTP | JSON-RPC |\n|---|---|---|---|---|\n" + "\n".join(rows) + "\n\n"
        "Besides these, exit code 0 is success, 2 is wrong usage and 130 is an interrupted command.\n\n"
        'With `--json` an error is the one document on stdout, `{"error": {…}}`, and the same code is in the API\'s'
        " problem body and in the `error_code` of a plugin that does not run. A mistake in a document has its own"
        " code in the list `errors`, with its path and message. For a failed call, `no_effect` in the `details` is true"
        " if it certainly had no effect.\n" + "".join(_actions()) + "".join(_codes_under_headings())
    )


def _actions() -> Iterator[str]:
    yield (
        "\n## Actions\n\n"
        'An error may carry an `action`, `{"kind": "plugin.enable", "arguments": {"plugin": "notes"}}`: what a person'
        " can do about it, for programs. The command line prints it as a command and the console as a link; MCP clients"
        " read it as a sentence. Arguments in capitals have to be filled in.\n\n"
        "| kind | arguments | command |\n|---|---|---|\n"
    )
    for kind, sentence in SENTENCES.items():
        arguments = ", ".join(f"`{name}`" for name in template_arguments(sentence))
        shown = command_line(Action(kind, {name: name.upper() for name in template_arguments(sentence)}))
        yield f"| `{kind}` | {arguments} | `{shown}` |\n"


def _codes_under_headings() -> Iterator[str]:
    for heading, codes in meanings().items():
        yield f"\n## {heading}\n\n| code | means | what to do |\n|---|---|---|\n"
        for code, (means, do) in codes.items():
            yield f"| `{code}` | {means} | {do} |\n"


def capability_reference() -> str:
    """The capability grammar, the host's services and the effects."""
    aliases = {
        family: [name for name, target in FAMILY_ALIASES.items() if target == family] for family in HOST_FAMILIES
    }
    services = []
    for family, words in sorted(HOST_FAMILIES.items()):
        spelled = [f"`host:{family}:{mode}`" for mode in FAMILY_MODES.get(family, ())] or [f"`host:{family}`"]
        also = f" (also `{'`, `'.join(aliases[family])}`)" if aliases[family] else ""
        services.append(f"| {', '.join(spelled)}{also} | {words} |")
    effects = []
    for effect in Effect:
        others = [name for name, target in EFFECT_ALIASES.items() if target is effect]
        also = f" (also `{'`, `'.join(others)}`)" if others else ""
        effects.append(f"| `{effect.value}`{also} | {EFFECT_TEXT[effect]} |")
    return (
        "# Capabilities and effects\n\n"
        "A capability is what the cage lets a plugin reach. Nothing else is there.\n\n"
        "| capability | lets the plugin |\n|---|---|\n"
        "| `read:fs:PATH` | read a file or everything below a directory |\n"
        "| `write:fs:PATH` | read and change it |\n"
        "| `exec:BINARY:PATH` | run one program, and read what is in `PATH`. `exec:git:/` shows it no files: what it"
        " works on is granted by `read:fs:PATH` or `write:fs:PATH`. The directory does not bind the program, which"
        " starts where the plugin starts it |\n"
        "| `net:HOST:PORT`, `net:HOST:*` | connect to one host, on one port or all |\n"
        "| `net:*` | connect to every public host, and to no private address; dangerous |\n"
        "| `net:[]` | nothing: says that it needs no network |\n"
        "| `storage:read`, `storage:write` | its own tables (`kaged:storage:…` is the same); write includes read |\n\n"
        "`PATH` is absolute, or below `config:/` or `project:/`, which stand for directories that the host resolves."
        " There is no `..` and no pattern.\n\n"
        "## Services of the host\n\n| capability | lets the plugin |\n|---|---|\n" + "\n".join(services) + "\n\n"
        "Consent to secrets is stored with these, one entry for each secret that the manifest declares: `secret:NAME`,"
        " or `secret:NAME=HOST:PORT` and `secret:NAME=HEADER@HOST:PORT` if it binds the secret to hosts."
        " A new version that names another secret, or another destination, needs new consent."
        " They are not written in `capabilities` of a manifest.\n\n"
        "## Effects\n\nAn effect is what a call does to the world. The list is closed.\n\n"
        "| effect | in words |\n|---|---|\n" + "\n".join(effects) + "\n"
    )


STATES_IN_WORDS = {
    PluginState.DISABLED: "No process: the plugin is disabled, or it is enabled and starts with its first call. In the"
    " latter case `on_demand` is true, and `paddock plugin list` and `show` print `on demand`.",
    PluginState.SPAWNING: "The process starts, with handshake and configuration. Calls wait.",
    PluginState.RUNNING: "It accepts calls and is health-checked periodically.",
    PluginState.CRASHED: "It exited or was killed. It is restarted after 1, 2, 4 … at most 60 seconds.",
    PluginState.FAILED: "Not restarted. After five failures within ten minutes the daemon disables the plugin, so that"
    " the next daemon does not start it again. After a failure that would repeat at every start, such as a rejected"
    " handshake, it stays enabled, and the next daemon tries it once more. `paddock plugin show` shows the reason;"
    " `paddock plugin enable` resets the restart counter and tries again.",
    PluginState.STOPPED: "Stopped on request: idle, or about to be disabled. An idle one is `on_demand` too.",
}


def state_reference() -> str:
    """The states of a plugin, drawn from the table that the supervisor follows."""
    arrows = [
        f"    {state.value} --> {after.value}: {move.value}"
        for state, moves in TRANSITIONS.items()
        for move, after in moves.items()
    ]
    rows = [f"| `{state.value}` | {STATES_IN_WORDS[state]} |" for state in PluginState]
    return (
        "# States of a plugin\n\n"
        "Drawn from the table that the supervisor itself follows.\n\n"
        "```mermaid\nstateDiagram-v2\n    [*] --> disabled: install\n" + "\n".join(arrows) + "\n```\n\n"
        "| state | |\n|---|---|\n" + "\n".join(rows) + "\n"
    )


def http_reference() -> str:
    """Every route of the daemon's API."""
    # Only the rows are looked at; nobody calls a handler.
    nobody = cast("Any", SimpleNamespace(settings=Settings()))
    provider = OidcSettings(issuer="https://login.example.org")
    of_provider = (
        *ProtectedResource("https://paddock.example.org", provider).endpoints(),
        *OidcRoutes(nobody, nobody, provider, "", "", nobody, nobody, nobody).endpoints(),
    )
    endpoints = api_routes(nobody, Shutdown(), nobody, of_provider)
    parts = [
        "# HTTP\n",
        "The daemon's API, on the two places that `paddock serve` names: `127.0.0.1:7433`, and `run/paddock.sock`,"
        " which only its owner and root may use. `/api/v1/openapi.json` describes it for machines, and the guide"
        " [Integrate over HTTP](../guides/http-api.md) explains how to start.\n",
        "An error is a problem body: `type`, `title`, `status`, `code`, `detail`, `error_id`, and `errors` with every"
        " mistake. The `code` is the one that the command line has; statuses are in [errors](errors.md).\n",
        f"The body of a request is JSON in UTF-8, and has at most {MAX_JSON_BYTES:,} bytes. A parameter that"
        " a route does not know, or that is given twice, is rejected. `HEAD` works wherever `GET` does. Responses are"
        " JSON, independent of `Accept`, except for streams of server-sent events.\n",
        "On the local socket the caller is the operator. All other callers send `Authorization: Bearer"
        " KEY`, and act in the tenant of that key, with its rights; only the operator can set a `tenant` or"
        " `Paddock-As`. Unless a route states its callers, every credential can use it.\n",
    ]
    for one in endpoints:
        parts.append(f"## {one.method} {one.prefix}{one.path.replace(':path', '')}\n")
        parts.append(f"{one.summary}.\n" if not one.summary.endswith("?") else f"{one.summary}\n")
        parts += [f"For {one.access.value}.\n"] if one.access is not MEMBER else []
        parts += (
            [f"Body: {one.request_body.description}\n"] if one.request_body and one.request_body.description else []
        )
        parameters = {
            place: {name: to_parameter_spec(given).description for name, given in named.items()}
            for place, named in (("query", one.query), ("header", header_params(one)))
        }
        members = (one.request_schema or {}).get("properties", {})
        parameters["body"] = {name: member.get("description", "") for name, member in members.items()}
        for place, described in parameters.items():
            rows = [f"| `{name}` | {description} |" for name, description in described.items()]
            parts += [f"| {place} | |\n|---|---|\n" + "\n".join(rows) + "\n"] if rows else []
        parts.append(f"Answers {one.status}: {one.response_description}\n")
        parts += [f"Also {other.status}: {other.description}\n" for other in one.extra_responses if other.status < 400]
        parts.append(f"Fails with {', '.join(map(str, error_statuses_of(one)))}.\n")
    return "\n".join(parts)


def metrics_reference() -> str:
    """Every metric."""
    rows = [
        f"| `{one.name}` | {one.kind} | {', '.join(f'`{label}`' for label in one.labels)} | {one.help_text} |"
        for one in METRIC_FAMILIES
    ]
    said = (
        "`GET /metrics` serves these metrics in the Prometheus text format; a histogram has `_bucket`, `_sum` and"
        " `_count`. Counters start at zero with the daemon.\n"
    )
    return "\n".join(["# Metrics\n", said, "| name | kind | labels | |\n|---|---|---|---|", *rows]) + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "commands.md": cli_reference,
    "http.md": http_reference,
    "errors.md": error_reference,
    "events.md": event_reference,
    "capabilities.md": capability_reference,
    "states.md": state_reference,
    "metrics.md": metrics_reference,
    "settings.md": settings_reference,
    "hooks.md": hook_reference,
}
