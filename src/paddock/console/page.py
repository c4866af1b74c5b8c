"""Console pages: routes, layout, content security policy, navigation and flash messages."""

from __future__ import annotations

import gzip
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias
from urllib.parse import quote

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import Scope

from paddock.console.places import position_of, visible_places
from paddock.console.templates import NAMES, render
from paddock.core.call import OPERATOR as THE_OPERATOR
from paddock.core.errors import Denied, Invalid, Problem
from paddock.core.printable import printable
from paddock.web.request_headers import request_headers
from paddock.web.routing.route import HOST, MEMBER, Access, revalidate_response
from paddock.web.security.authenticate import Caller, caller_of

_COMMON_DIRECTIVES: Final = (
    "style-src 'self'; img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
CSP: Final = f"default-src 'none'; script-src 'self'; connect-src 'self'; {_COMMON_DIRECTIVES}"
CSP_WITHOUT_SCRIPTS: Final = f"default-src 'none'; {_COMMON_DIRECTIVES}"
"""For pages whose URL is a secret: no scripts run there."""


_GZIP_MIN_BYTES: Final = 1_000
TOUR_STATE_KEY: Final = "tour"
"""Key of the tour in a request's state, see `TourGuide`."""
BADGE_STATE_KEY: Final = "inbox_badge"
"""Key of the inbox's count in a request's state, see `InboxBadges`."""
NAMES_STATE_KEY: Final = "names_by_principal"
"""Key of the names of people and API keys in a request's state, see `PageNames`."""
PageHandler: TypeAlias = Callable[[Request], Awaitable[Response]]


class Page(Struct, frozen=True):
    """One route of the console."""

    method: str
    path: str
    show: PageHandler
    access: Access = MEMBER
    prefix: str = ""

    async def __call__(self, request: Request) -> Response:
        if not self.access.allows(request.scope["state"]["caller"]):
            raise Denied(f"this is for {self.access.value}", code="auth.not_for_you")
        _reject_nul(request)
        return revalidate_response(self.access, request, await self.show(request))


def _reject_nul(request: Request) -> None:
    """Reject query parameters with NUL, which databases cannot store.

    Raises:
        Invalid: one contains NUL.
    """
    names = [name for name, value in request.query_params.multi_items() if "\0" in value]
    if names:
        problems = [Problem(printable(name, 100), "holds a NUL", "leave that out", "text") for name in names]
        raise Invalid("the address is not valid", problems, code="invalid_params")


def render_page(request: Request, template: str, values: Mapping[str, Any], status: int = 200) -> Response:
    """Render a template within the common layout."""
    layout_values = {
        **frame_values(caller_of(request), request.scope["path"]),
        "said": FLASH_MESSAGES.get(request.query_params.get("said", ""), ""),
        "tour": request.scope["state"].get(TOUR_STATE_KEY),
        "badge": request.scope["state"].get(BADGE_STATE_KEY, 0),
        NAMES: page_names(request.scope),
    }
    return html_response(request, render(template, {**layout_values, **values}), status)


def page_names(scope: Scope) -> Mapping[str, str]:
    """Return what the people and API keys of the caller's tenant are called, by principal."""
    return scope["state"].get(NAMES_STATE_KEY, {})


def frame_values(caller: Caller, path: str) -> dict[str, Any]:
    """Return the layout's template values for a signed-in caller."""
    return {
        "me": caller.principal,
        "operates": is_operator(caller),
        "runs_host": HOST.allows(caller),
        "here": path,
        "places": visible_places(caller),
        "position": position_of(path, caller),
        "badge": 0,
    }


def html_response(request: Request, text: str, status: int = 200) -> Response:
    """Build an HTML response, compressed if the browser accepts that."""
    content = text.encode()
    headers = {"content-security-policy": CSP, "cache-control": "no-store", "vary": "accept-encoding"}
    if len(content) >= _GZIP_MIN_BYTES and b"gzip" in request_headers(request.scope).get(b"accept-encoding", b""):
        content = gzip.compress(content, 5, mtime=0)
        headers["content-encoding"] = "gzip"
    return Response(content, status, headers, "text/html; charset=utf-8")


FLASH_MESSAGES: Final = {
    "enabled": "It is enabled.",
    "disabled": "It is disabled.",
    "restarted": "Restarted.",
    "saved": "Saved.",
    "forgotten": "Cleared.",
    "reset": "Reset to the default.",
    "accepted": "Accepted. It can be used from now on.",
    "trusted": "Trusted from now on.",
    "distrusted": "No longer trusted.",
    "approved": "Approved.",
    "approved_once": "Approved, for this call alone. The next one asks again.",
    "approved_lasting": "Approved, and not asked again until the plugin is upgraded.",
    "approved_session": "Approved, and not asked again in this session.",
    "approval_counted": "Your approval counts. More people have to approve it.",
    "approval_changed": "Your version is a new request. Another person has to approve it.",
    "denied": "Denied.",
    "tour_hidden": "The tour is hidden.",
    "revoked": "Revoked. The next call asks again.",
    "session_ended": "Signed out there.",
    "consent_revoked": "Your consent is withdrawn.",
    "key_revoked": "The key is revoked. It stopped working at once.",
    "person_added": "Added. Create a sign-in link to let them in.",
    "person_saved": "Roles saved. They count from now on.",
    "person_scopes_saved": "Scopes saved. They count from now on.",
    "person_groups_saved": "Groups saved.",
    "person_renamed": "Renamed.",
    "person_removed": "Removed, with their keys, sessions, secrets and consents.",
    "group_added": "Added. Add its members next.",
    "group_removed": "The group is removed. Its members stay.",
    "member_added": "Added to the group.",
    "member_removed": "Removed from the group.",
    "person_several": "Saved. Several people can approve now, so people can no longer approve their own requests.",
    "person_enabled": "Enabled. They can sign in again.",
    "person_disabled": "Disabled. They are signed out, and their keys don’t work.",
    "person_signed_out": "Signed out everywhere.",
    "webhook_on": "Enabled. The events that occurred meanwhile are sent now.",
    "webhook_on_from_now": "Enabled. Only new events are sent.",
    "webhook_off": "Disabled. Events wait until you enable it.",
    "webhook_removed": "The webhook is removed, with its secret and its dead letters.",
    "webhook_retried": "Sent again within seconds. Load this page again to see the result.",
    "rules_saved": "Saved. The rules decide from now on.",
    "cases_saved": "Saved. Each change of a rule is checked with them from now on.",
    "rules_removed": "The file is removed. Its rules no longer decide.",
    "checked": "Checked again just now.",
    "repaired": "Fixed. It is gone from the list.",
    "repair_tried": "That was done, and the problem is still there.",
    "repair_gone": "That problem is gone already.",
    "ignored": "Ignored. It comes back when its cause changes.",
    "watched": "It is reported again.",
    "resolved": "Resolved. Your answer is on record.",
    "doubt_looking": "Paddock is looking now. Load this page again in a moment.",
    "doubt_busy": "Paddock is already checking.",
    "doubt_known": "Its outcome is known already.",
    "secret_set": "Saved. The value is never shown again.",
    "secret_removed": "Removed for good.",
    "rotated": "All secrets are under a new key.",
    "rotated_partly": "Most secrets are under a new key. Some could not be opened, so an older key is kept.",
    "installed": "Installed. Try it to see whether it answers and what it needs, or enable it.",
    "installed_unset": "Installed. Set its configuration next, then enable it.",
    "upgraded": "Upgraded.",
    "signature_kept": "Its signature is kept.",
    "install_cancelled": "Cancelled. Nothing was installed.",
    "rolled_back": "It is back at the earlier version.",
    "pinned": "Pinned. No upgrade moves it until you unpin it.",
    "unpinned": "Unpinned. It can be upgraded again.",
    "version_removed": "That version is removed.",
    "uninstalled": "Uninstalled. Everything it kept is gone.",
    "uninstalled_leaving": "Uninstalled. What it kept goes as soon as its last call has ended.",
    "activated": "Its tools are available from now on.",
    "deactivated": "Its tools are no longer available. Its data stays for when you activate it again.",
}
"""Messages shown after an action, by the code in the URL: a crafted link cannot inject text."""


def plugin_path(name: str, part: str = "") -> str:
    """Return the path of a plugin's page, or of a part of it such as `knobs`."""
    return f"/plugins/{quote(name, safe='')}{'/' if part else ''}{part}"


def redirect_with_flash(path: str, message_code: str) -> Response:
    """Redirect to a page that shows a message; reloading it does not repeat the action."""
    assert message_code in FLASH_MESSAGES
    return RedirectResponse(f"{path}{'&' if '?' in path else '?'}said={message_code}", 303)


def is_operator(caller: Caller) -> bool:
    """Return whether a caller sees everything of its tenant."""
    return THE_OPERATOR in caller.principal.roles
