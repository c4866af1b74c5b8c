"""The form with which a person takes a plugin's word for its tools, or no longer does."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.requests import Request
from starlette.responses import Response

from paddock.console.forms.request_form import read_form
from paddock.console.page import Page, plugin_path, redirect_with_flash
from paddock.core.errors import CallerError, Invalid
from paddock.host.host import Host
from paddock.host.identity.caller import require_interactive_person
from paddock.plugins.tool_pinning.tool_trust import TrustedWord
from paddock.web.request_context import call_context
from paddock.web.routing.json_parser import parse_json_value
from paddock.web.routing.route import OPERATOR, path_param


class TrustPages:
    """Changes what is believed of a plugin's tools."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def routes(self) -> list[Page]:
        return [Page("POST", "/plugins/{name}/trust", self.change, OPERATOR)]

    async def change(self, request: Request) -> Response:
        context, name, form = await call_context(self._host, request), path_param(request), await read_form(request)
        person, definitions = require_interactive_person(context.principal).id, self._host.plugins.definitions
        try:
            word = TrustedWord(form.last_text("word"))
        except ValueError:
            raise _not_a_form() from None
        shown = dict(parse_shown_tools(form.texts.get("tool", ())))
        tools = list(shown) or None
        if form.last_text("trusted") == "yes":
            if tools is None:
                raise _not_a_form()
            hashes = {tool: seen for tool, seen in shown.items() if seen}
            await definitions.trust(name, word, tools, person, context.tenant, shown=hashes)
            return redirect_with_flash(plugin_path(name), "trusted")
        await definitions.distrust(name, word, tools, person, context.tenant)
        return redirect_with_flash(plugin_path(name), "distrusted")


def parse_shown_tools(texts: Iterable[str]) -> Iterable[tuple[str, str]]:
    """Yield the tools named in a form, each with the hash of the definition that was shown.

    Raises:
        CallerError: the form is not ours.
    """
    for text in texts:
        try:
            name, shown_hash = parse_json_value(text.encode())
        except (Invalid, ValueError, TypeError):
            raise _not_a_form() from None
        yield str(name), str(shown_hash)


def _not_a_form() -> CallerError:
    return CallerError("this names no tool and nothing to believe of it", code="http.not_a_form")
