"""`/installs`: install and upgrade plugins: a package is fetched, and installed once a person has consented."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Annotated, NotRequired, TypeAlias, TypedDict

from starlette.requests import Request
from starlette.responses import Response

from paddock.api.plugins.install_json import InstallJson, InstallsJson, install_to_json
from paddock.core.call import Principal
from paddock.core.errors import Denied, Problem
from paddock.core.schema_annotations import MemberConstraint
from paddock.host.host import Host
from paddock.host.identity.caller import require_interactive_person
from paddock.host.plugins.install_job import InstallJob, InstallStopReason
from paddock.plugins.install.consent import InstallConsent
from paddock.plugins.install.request import InstallRequest, ServerImport, parse_index_options
from paddock.plugins.package.source import PackageSource, SourceKind, names_network_source, parse_source
from paddock.web.request_headers import request_headers
from paddock.web.routing.body_parsers import MAX_GRANTS, parse_grants
from paddock.web.routing.route import (
    API_PREFIX,
    EVENT_STREAM,
    HOST,
    ApiRoute,
    ExtraResponse,
    JsonResponse,
    RequestBody,
    path_param,
)
from paddock.web.routing.validation import reject_problems, validated_body
from paddock.web.security.authenticate import Caller, caller_of
from paddock.web.sse import FINAL_EVENT_TIMEOUT_S, ServerSentEvent, event_stream

_TAG = "plugins"
_CANCEL_WAIT_S = 5.0  # for a job to stop, so that the response has its final stage

Text: TypeAlias = Annotated[str, MemberConstraint(min_length=1, max_length=4096)]
Texts: TypeAlias = Annotated[list[str], MemberConstraint(max_items=MAX_GRANTS)]

_IMPORT_MEMBERS = frozenset({"settings_file", "server", "capabilities"})
_IMPORT_HINTS = {"grant": "what the server is granted beyond its own entry is named in capabilities"}


class StartInstallBody(TypedDict):
    source: NotRequired[
        Annotated[Text, "A git URL, `pypi:NAME` or `npm:NAME`; on the local socket also an absolute path."]
    ]
    ref: NotRequired[Annotated[Text, "A git tag, branch or commit, or a version."]]
    upgrade: NotRequired[Annotated[Text, "The plugin to upgrade; from its recorded source if no other is named."]]
    settings_file: NotRequired[
        Annotated[Text, "In place of a source, on the local socket: an absolute path to the MCP settings of a program."]
    ]
    server: NotRequired[Annotated[str, "The name of the MCP server in `settings_file`."]]
    name: NotRequired[Annotated[Text, "For a registry package or a server file: the plugin's name."]]
    program: NotRequired[Annotated[Text, "For a registry package: its program that is the server."]]
    args: NotRequired[Annotated[Texts, "For a registry package or a server file: arguments."]]
    env: NotRequired[Annotated[Texts, "For a registry package or a server file: variables, as `NAME=VALUE` or `NAME`."]]
    capabilities: NotRequired[Annotated[Texts, "For a registry package or an MCP server: its capabilities."]]
    constraints: NotRequired[
        Annotated[Texts, "For a Python package: limits on dependencies, as `mcp<2`. For a Python file: its packages."]
    ]
    grant: NotRequired[
        Annotated[Texts, "Capabilities that a person means to grant; an error if the package does not request them."]
    ]
    downgrade: NotRequired[Annotated[bool, "Whether an older version may replace a newer one."]]
    as_installed: NotRequired[
        Annotated[bool, "With `upgrade`: keep the installed package, and add the capabilities in `grant` to it."]
    ]


class ConfirmInstallBody(TypedDict):
    digest: Annotated[str, "As in the `terms` that the person was shown."]
    signature: Annotated[str, "As in those `terms`."]
    grant: NotRequired[
        Annotated[list[str], MemberConstraint(max_items=MAX_GRANTS), "The capabilities that they consented to."]
    ]
    trust_lost: NotRequired[Annotated[str, "The loss of trust that they accepted, as in those `terms`."]]
    accept_dangers: NotRequired[
        Annotated[
            list[str],
            MemberConstraint(max_items=MAX_GRANTS),
            "The `dangers` in those `terms` that they accepted, one by one, by their capability.",
        ]
    ]


class InstallRoutes:
    """Routes for installations. They are for all tenants, so only operators of the host may, and as people."""

    def __init__(self, host: Host, closing: asyncio.Event) -> None:
        self._host = host
        self._closing = closing

    def endpoints(self) -> list[ApiRoute]:
        return [
            ApiRoute(
                "POST",
                "/installs",
                self.start_install,
                "Install or upgrade a plugin",
                "The installation, which fetches the package and then waits for consent; `Location` is its URL. Needs a"
                " signed-in person, not an API key.",
                request_body=RequestBody(StartInstallBody, {"source": "pypi:mcp-server-time"}),
                extra_responses=(
                    ExtraResponse(
                        200,
                        EVENT_STREAM,
                        "With `Accept: text/event-stream`: the installation after every change as `install`, until it"
                        " has ended. A client that disconnects cancels it.",
                    ),
                ),
                error_statuses=(404, 503),
                status=202,
                tag=_TAG,
                access=HOST,
                needs_person=True,
            ),
            ApiRoute(
                "GET",
                "/installs",
                self.list_installs,
                "List installations",
                "`installs` that have not ended, oldest first.",
                tag=_TAG,
                access=HOST,
            ),
            ApiRoute(
                "GET",
                "/installs/{id}",
                self.show_install,
                "Show an installation",
                "The installation; while it waits for consent, with the `proposal` to show.",
                tag=_TAG,
                access=HOST,
            ),
            ApiRoute(
                "GET",
                "/installs/{id}/events",
                self.follow_install,
                "Follow an installation",
                "Server-sent events: the installation after every change as `install`, until it has ended.",
                media_type=EVENT_STREAM,
                tag=_TAG,
                access=HOST,
            ),
            ApiRoute(
                "POST",
                "/installs/{id}/confirm",
                self.confirm_install,
                "Consent to an installation",
                "The installation, which continues. 403 if the consent does not cover all `terms`, 409 if it does not"
                " wait for consent. Needs a signed-in person, not an API key.",
                request_body=RequestBody(
                    ConfirmInstallBody,
                    {
                        "digest": "sha256:…",
                        "signature": "unsigned",
                        "grant": ["net:api.example.com:443"],
                        "accept_dangers": ["net:api.example.com:443"],
                    },
                ),
                error_statuses=(409,),
                status=202,
                tag=_TAG,
                access=HOST,
                needs_person=True,
            ),
            ApiRoute(
                "POST",
                "/installs/{id}/cancel",
                self.cancel_install,
                "Cancel an installation",
                "The installation. One that was nearly done may still complete. Needs a signed-in person, not an API"
                " key.",
                tag=_TAG,
                access=HOST,
                needs_person=True,
            ),
        ]

    async def start_install(self, request: Request) -> JsonResponse[InstallJson] | Response:
        caller = caller_of(request)
        principal = require_interactive_person(caller.principal)
        install_request, what = await self._parse(validated_body(request, StartInstallBody), caller)
        job = self._host.plugins.installer.start(install_request, what, principal.id)
        location = f"{API_PREFIX}/installs/{job.id}"
        if EVENT_STREAM.encode() in request_headers(request.scope).get(b"accept", b""):
            return event_stream(
                _attached_events(job),
                self._closing,
                final_timeout_s=FINAL_EVENT_TIMEOUT_S,
                content_location=location,
            )
        return JsonResponse(install_to_json(job), 202, {"location": location})

    async def _parse(self, body: StartInstallBody, caller: Caller) -> tuple[InstallRequest, str]:
        """Return the request and its description.

        Raises:
            Invalid: members are missing or malformed.
            Denied: it names a path, and the caller is not on the local socket.
            PaddockError: see `parse_source` and `parse_index_options`.
        """
        capabilities = parse_grants(body, "capabilities")
        text = body.get("source")
        if "settings_file" in body:
            reject_problems(_import_problems(body))
            _require_local(caller)
            server = ServerImport(Path(body["settings_file"]), body.get("server", ""), tuple(capabilities))
            return InstallRequest(None, server=server), f"{server.name} from {server.file}"
        if text is None and "upgrade" not in body:
            hint = "name a source, a plugin to upgrade, or an MCP server in a settings file"
            reject_problems([Problem("source", "is missing", hint)])
        upgrade, recorded = None, None
        if "upgrade" in body:
            history = await self._host.plugins.versions.history(body["upgrade"])
            upgrade, recorded = history.plugin.name, history.source
        more_capabilities = text is None and capabilities and not body.keys() & {"name", "program", "args", "env"}
        imported = recorded is not None and recorded.kind is SourceKind.CONFIGURATION
        if upgrade is not None and (body.get("as_installed", False) or (imported and more_capabilities)):
            grants = tuple(dict.fromkeys((*parse_grants(body), *capabilities)))
            return InstallRequest(None, upgrade=upgrade, grants=grants, as_installed=True), f"{upgrade} as installed"
        source = None
        if text is not None:
            if not names_network_source(text):
                _require_local(caller)
            source = await asyncio.to_thread(
                parse_source, text, body.get("ref"), Path("/"), tuple(body.get("constraints", ()))
            )
        effective_source: PackageSource | None = source or recorded
        if effective_source is None:  # the job says why there is none
            return InstallRequest(None, upgrade=upgrade), upgrade or ""
        if effective_source.local:
            _require_local(caller)
        choices = parse_index_options(
            effective_source,
            name=body.get("name"),
            program=body.get("program"),
            arguments=body.get("args", ()),
            capabilities=capabilities,
            variables=body.get("env", ()),
            plugin=upgrade or "",
        )
        install_request = InstallRequest(
            source,
            choices,
            upgrade,
            body.get("ref"),
            body.get("downgrade", False),
            grants=tuple(parse_grants(body)),
        )
        return install_request, effective_source.describe()

    async def list_installs(self, request: Request) -> JsonResponse[InstallsJson]:
        del request
        return JsonResponse({"installs": [install_to_json(job) for job in self._host.plugins.installer.active_jobs()]})

    async def show_install(self, request: Request) -> JsonResponse[InstallJson]:
        return JsonResponse(install_to_json(self._find(request)))

    async def follow_install(self, request: Request) -> Response:
        return event_stream(_events(self._find(request)), self._closing, final_timeout_s=FINAL_EVENT_TIMEOUT_S)

    async def confirm_install(self, request: Request) -> JsonResponse[InstallJson]:
        body, job = validated_body(request, ConfirmInstallBody), self._find(request)
        consent = InstallConsent(
            body["digest"],
            body["signature"],
            frozenset(parse_grants(body)),
            body.get("trust_lost", ""),
            frozenset(parse_grants(body, "accept_dangers")),
        )
        job.give_consent(_person(request), consent)
        return JsonResponse(install_to_json(job), 202)

    async def cancel_install(self, request: Request) -> JsonResponse[InstallJson]:
        _person(request)
        job = self._find(request)
        job.stop(InstallStopReason.CANCELLED)
        try:
            async with asyncio.timeout(_CANCEL_WAIT_S):
                await job.wait_finished()
        except TimeoutError:
            pass  # it stops at its next step
        return JsonResponse(install_to_json(job))

    def _find(self, request: Request) -> InstallJob:
        return self._host.plugins.installer.find(path_param(request, "id"))


def _import_problems(body: StartInstallBody) -> list[Problem]:
    """Return what is wrong with a body that names an MCP server in a settings file."""
    problems = [
        Problem(member, "does not apply to a server of a settings file", _IMPORT_HINTS.get(member, "leave it out"))
        for member in body
        if member not in _IMPORT_MEMBERS
    ]
    if "server" not in body:
        problems.append(Problem("server", "is missing", "name the server"))
    if not Path(body.get("settings_file", "")).is_absolute():
        problems.append(Problem("settings_file", "is not an absolute path", "name the whole path, from / on"))
    return problems


def _person(request: Request) -> Principal:
    return require_interactive_person(caller_of(request).principal)


def _require_local(caller: Caller) -> None:
    """Check that the caller may name files of this machine: callers on its local socket can read them anyway.

    Raises:
        Denied: it is a remote caller.
    """
    if caller.via != "socket":
        raise Denied(
            "a path on the host's machine can be installed from there only",
            code="source.local_only",
            hint="name a git repository or a package of a registry, or upload the file at the console",
        )


async def _events(job: InstallJob) -> AsyncGenerator[ServerSentEvent, None]:
    async for _ in job.watch():
        yield ServerSentEvent(install_to_json(job), "install")


async def _attached_events(job: InstallJob) -> AsyncGenerator[ServerSentEvent, None]:
    """Yield the events of an installation for the client that started it; a disconnect cancels it."""
    try:
        async for event in _events(job):
            yield event
    finally:
        job.stop(InstallStopReason.CANCELLED)
