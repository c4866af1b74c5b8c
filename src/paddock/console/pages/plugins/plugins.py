"""Pages of plugins: the list, and one plugin with its tools, what it reaches, its numbers and its switches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from paddock.console.forms.request_form import read_form
from paddock.console.page import Page, is_operator, plugin_path, redirect_with_flash, render_page
from paddock.console.pages.plugins.plugin_header import build_header
from paddock.console.pages.plugins.plugin_live import overview_values
from paddock.console.pages.plugins.reach import Reach, build_reach
from paddock.console.plugin_needs import NeedKind, plugin_needs
from paddock.console.text.plugin_text import matches_search, summarize_plugin
from paddock.console.text.principal_text import principal_name
from paddock.core.error_formats import http_status
from paddock.core.errors import CallerError, Invalid, NeedsConsent, PaddockError
from paddock.core.ids import Tenant
from paddock.host.host import Host
from paddock.host.identity.caller import require_interactive_person
from paddock.host.plugins.inventory import PluginJson
from paddock.host.plugins.logs.log_lines import parse_log_line
from paddock.manifest.capability import describe_capability
from paddock.plugins.tool_pinning.tool_trust import TrustedWord
from paddock.web.request_context import call_context
from paddock.web.routing.body_parsers import parse_grants, parse_own_grants
from paddock.web.routing.json_parser import parse_json_value
from paddock.web.routing.route import HOST, MAX_NAME_CHARS, OPERATOR, path_param
from paddock.web.security.authenticate import caller_of

_LOG_TAIL_LINES = 10  # shown for a plugin that does not run
_SEARCH_MIN_PLUGINS = 12  # above it the list has a search field


class PluginPages:
    """Lists and shows plugins, and enables, disables and restarts them."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def routes(self) -> list[Page]:
        return [
            Page("GET", "/plugins", self.show_list),
            Page("GET", "/plugins/{name}", self.show),
            Page("POST", "/plugins/{name}/enable", self.enable, OPERATOR),
            Page("POST", "/plugins/{name}/disable", self.disable, OPERATOR),
            Page("POST", "/plugins/{name}/restart", self.restart, OPERATOR),
            Page("POST", "/plugins/{name}/definitions/accept", self.accept_definitions, OPERATOR),
        ]

    async def show_list(self, request: Request) -> Response:
        context = await call_context(self._host, request)
        operates = is_operator(caller_of(request))
        plugins = await (
            self._host.plugins.inventory.list_all(context.tenant)
            if operates
            else self._host.calls.permitted_plugins.plugins(context)
        )
        search = request.query_params.get("find", "").strip()[:MAX_NAME_CHARS]
        matches = [plugin for plugin in map(summarize_plugin, plugins) if matches_search(plugin, search)]
        needs = await plugin_needs(self._host, [plugin.name for plugin in matches], context, caller_of(request))
        values = {
            "plugins": matches,
            "needs": needs,
            "behaving": self._host.calls.activation.behaviour_plugins(context),
        }
        return render_page(
            request, "plugins/plugins.html", {**values, "find": search, "many": len(plugins) > _SEARCH_MIN_PLUGINS}
        )

    async def show(self, request: Request) -> Response:
        return await self._render(request)

    async def _render(
        self,
        request: Request,
        *,
        requested_capabilities: Iterable[str] = (),
        trust_reads: bool = False,
        problem: PaddockError | None = None,
        status: int = 200,
    ) -> Response:
        context, name, caller = await call_context(self._host, request), path_param(request), caller_of(request)
        if not is_operator(caller):
            permitted = await self._host.calls.permitted_plugins.plugin(name, context)
            needs = (await plugin_needs(self._host, [permitted["name"]], context, caller)).get(permitted["name"], [])
            values = {"plugin": permitted, "needs": needs, "trail_plugin": permitted["name"]}
            return render_page(request, "plugins/overview/plugin_offered.html", values)
        plugin = await self._host.plugins.inventory.show(name, context.tenant)
        runtime: Mapping[str, Any] = plugin["runtime"] or {}
        activity = await self._host.plugins.activity.summarize(plugin["name"], context.tenant)
        values = await overview_values(self._host, plugin, activity, context.tenant)
        values |= {
            "header": build_header(plugin, tools_known=values["tools_known"], runs_host=HOST.allows(caller)),
            # Other tenants must not learn paths of this machine.
            "source": plugin["source"] if HOST.allows(caller) else plugin["source"].partition(" /")[0],
            "asks": [
                (str(item), describe_capability(item)) for item in parse_grants({"grant": list(requested_capabilities)})
            ],
            "trust_reads": trust_reads,
            "reach": await self._reach(plugin, context.tenant, activity.callers),
            "problem": problem,
        }
        values |= {"lines": [], "unset": ()}
        needs = (await plugin_needs(self._host, [plugin["name"]], context, caller)).get(plugin["name"], [])
        values["own_needs"] = [need for need in needs if need.kind is NeedKind.OWN]
        values["incomplete"] = [need for need in needs if need.kind is NeedKind.CONFIGURATION]
        if runtime.get("reason") or problem is not None or values["incomplete"]:
            values["unset"] = (await self._host.plugins.config.describe(name, context.tenant)).missing
        if runtime.get("reason"):
            stored = await self._host.plugins.logs.read_last(name, tenant=context.tenant, lines=_LOG_TAIL_LINES)
            values["lines"] = [parse_log_line(item) for item in stored]
        shared = await self._host.secrets.usage.list_shared(context.tenant)
        values["secrets"] = [
            (one.name, usage) for one in shared for usage in one.missing if usage.plugin == plugin["name"]
        ]
        return render_page(request, "plugins/overview/plugin.html", values, status)

    async def _reach(self, plugin: PluginJson, tenant: Tenant, callers: Iterable[str]) -> Reach:
        state = await self._host.plugins.lifecycle.grant_state(plugin["name"], tenant)
        names = await self._host.identity.names.read(tenant)
        return build_reach(
            plugin["name"],
            parse_grants({"grant": state["requested"]}),
            state["missing"],
            plugin["dangers"],
            [principal_name(caller, names) for caller in callers],
        )

    # --- switches -----------------------------------------------------------------------------------------------------

    async def enable(self, request: Request) -> Response:
        return await self._start(request, "enabled", anew=False)

    async def restart(self, request: Request) -> Response:
        return await self._start(request, "restarted", anew=True)

    async def _start(self, request: Request, message_code: str, *, anew: bool) -> Response:
        context, name, form = await call_context(self._host, request), path_param(request), await read_form(request)
        trust_reads = bool(form.last_text("trust_reads"))
        try:
            started = await self._host.plugins.lifecycle.enable(
                name,
                tenant=context.tenant,
                acknowledged=parse_own_grants({"grant": form.texts.get("grant", [])}, context.principal),
                anew=anew,
                by=context.principal.id,
            )
            if trust_reads and not started["reason"]:
                person = require_interactive_person(context.principal).id
                await self._host.plugins.definitions.trust(name, TrustedWord.READS, None, person, context.tenant)
        except NeedsConsent as consent_error:
            requested = consent_error.details.get("capabilities", ())
            return await self._render(request, requested_capabilities=requested, trust_reads=trust_reads, status=403)
        except PaddockError as error:
            return await self._render(request, problem=error, status=http_status(error))
        # If it does not run, the page itself shows why.
        return (
            RedirectResponse(plugin_path(name), 303)
            if started["reason"]
            else redirect_with_flash(plugin_path(name), message_code)
        )

    async def disable(self, request: Request) -> Response:
        context, name = await call_context(self._host, request), path_param(request)
        await self._host.plugins.lifecycle.disable(name, context.tenant, by=context.principal.id)
        return redirect_with_flash(plugin_path(name), "disabled")

    async def accept_definitions(self, request: Request) -> Response:
        """Accept the server's current definitions, each as it was shown."""
        context, name, form = await call_context(self._host, request), path_param(request), await read_form(request)
        try:
            for kind, definition_name, shown_hash in _parse_definitions(form.texts.get("definition", ())):
                await self._host.plugins.definitions.accept(
                    name, kind, definition_name, shown_hash, context.principal.id, context.tenant
                )
        except PaddockError as error:
            return await self._render(request, problem=error, status=http_status(error))
        return redirect_with_flash(plugin_path(name), "accepted")


def _parse_definitions(texts: Iterable[str]) -> list[tuple[str, str, str]]:
    """Parse the definitions named in a form: kind, name, and hash of what was shown.

    Raises:
        CallerError: the form is not ours.
    """
    definitions: list[tuple[str, str, str]] = []
    for text in texts:
        try:
            kind, name, shown_hash = parse_json_value(text.encode())
        except (Invalid, ValueError, TypeError):
            raise CallerError("this names no definition", code="http.not_a_form") from None
        definitions.append((str(kind), str(name), str(shown_hash)))
    return definitions
