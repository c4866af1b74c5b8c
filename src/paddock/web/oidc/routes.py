"""Signing in with the identity provider: out to it, and back (OpenID Connect, code flow with PKCE).

`start` changes nothing: what has to match later stands sealed in a cookie of the person's browser. `callback` is the
one place where a GET changes something, since the provider sends people back by a redirect. It makes a session only for
the browser that began, with the state that it began with, and a code that the provider takes once.
"""

from __future__ import annotations

import logging
from typing import Any, Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from paddock.config.oidc_settings import OidcSettings
from paddock.core.clock import Clock, Random
from paddock.core.error_mapping import http_status
from paddock.core.errors import Busy, Denied, PaddockError
from paddock.core.printable import printable
from paddock.core.secret import Secret
from paddock.host.identity.oidc import OidcIdentities
from paddock.web.oidc.claims import merge_claims, needs_userinfo, person_name, sign_in_profile
from paddock.web.oidc.provider import IdentityProvider
from paddock.web.oidc.sign_in_flow import (
    FLOW_TTL_S,
    SignInFlow,
    flow_sealing_key,
    new_flow,
    safe_redirect_path,
    seal_flow,
    unseal_flow,
)
from paddock.web.oidc.tokens import InvalidToken, check_id_token
from paddock.web.routing.errors import NoticePage
from paddock.web.routing.route import ANYBODY, ApiRoute
from paddock.web.security.cookies import set_session_cookie

START_PATH: Final = "/auth/oidc/start"
CALLBACK_PATH: Final = "/auth/oidc/callback"
FLOW_COOKIE: Final = "__Host-paddock-sign-in"
MAX_CONCURRENT_SIGN_INS: Final = 16
"""How many may come back at a time: for each the provider is asked, and anybody may come."""

_MAX_CODE_CHARS = 4_096

log = logging.getLogger("paddock.oidc")


class OidcRoutes:
    """The way out to the provider and the way back.

    Args:
        provider: Who vouches for people.
        sign_ins: Who they are here.
        oidc: What is asked of the provider, and what its claims mean.
        client_id: What this host is called there.
        public_url: Where this host is reached, without a slash at its end.
        clock, random: For flows.
        notice_page: Says why somebody is not signed in.
    """

    def __init__(
        self,
        provider: IdentityProvider,
        sign_ins: OidcIdentities,
        oidc: OidcSettings,
        client_id: str,
        public_url: str,
        clock: Clock,
        random: Random,
        notice_page: NoticePage,
    ) -> None:
        self._provider = provider
        self._notice_page = notice_page
        self._sign_ins = sign_ins
        self._oidc = oidc
        self._scopes = oidc.scopes
        self._client_id = client_id
        self._redirect_uri = public_url + CALLBACK_PATH
        self._clock = clock
        self._random = random
        self._key: tuple[Secret | None, bytes] | None = None
        self._under_way = 0

    def endpoints(self) -> list[ApiRoute]:
        return [
            ApiRoute(
                "GET",
                START_PATH,
                self.start_sign_in,
                "Sign in with the identity provider",
                "The way to it; `next` is where to go afterwards, on this host.",
                query={"next": "Where to go afterwards, as in `/plugins`."},
                status=303,
                media_type="",
                error_statuses=(503,),
                prefix="",
                tag="sign-in",
                access=ANYBODY,
            ),
            ApiRoute(
                "GET",
                CALLBACK_PATH,
                self.finish_sign_in,
                "Come back from the identity provider",
                "Signed in, and on the way to where they wanted to go.",
                query=dict.fromkeys(("code", "state", "iss", "error"), "As the provider says."),
                allow_unknown_query=True,
                status=303,
                media_type="",
                error_statuses=(403, 409, 429, 503),
                prefix="",
                tag="sign-in",
                access=ANYBODY,
            ),
        ]

    async def start_sign_in(self, request: Request) -> Response:
        """Send somebody to the provider."""
        about, key = await self._provider.metadata(), await self._sealing_key()
        flow = new_flow(self._random, safe_redirect_path(request.query_params.get("next")), self._now())
        asked = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": self._redirect_uri,
            "scope": self._scopes,
            "state": flow.state,
            "nonce": flow.nonce,
            "code_challenge": flow.pkce_challenge,
            "code_challenge_method": "S256",
        }
        joint = "&" if "?" in about.authorization_endpoint else "?"
        response = _redirect_to(f"{about.authorization_endpoint}{joint}{urlencode(asked)}")
        _set_flow_cookie(response, seal_flow(flow, key, self._random), FLOW_TTL_S)
        return response

    async def finish_sign_in(self, request: Request) -> Response:
        """Let somebody in who comes back; people are told on a page why not."""
        try:
            return await self._complete_sign_in(request)
        except PaddockError as error:
            if "text/html" not in request.headers.get("accept", ""):
                raise
            return self._notice_page(
                "You are not signed in", f"{error.message}. {error.hint}", status=http_status(error)
            )

    async def _complete_sign_in(self, request: Request) -> Response:
        flow, said = await self._read_flow(request), request.query_params
        if not flow.matches_state(said.get("state", "")):
            raise _wrong_flow_error()
        about = await self._provider.metadata()
        if said.get("iss", self._provider.issuer if not about.sends_iss_parameter else None) != self._provider.issuer:
            # Another provider's answer in this one's place (RFC 9207).
            raise _wrong_flow_error()
        code = said.get("code", "")
        if "error" in said or not 0 < len(code) <= _MAX_CODE_CHARS:
            told = printable(said.get("error", "no code"), 60)
            raise Denied(f"the provider did not sign you in ({told})", code="sign_in.denied", hint="sign in again")
        claims = await self._claims(code, flow)
        try:
            vouched = sign_in_profile(claims, self._oidc)
        except Denied as error:
            await self._sign_ins.record_refusal(claims["iss"], person_name(claims, self._oidc), error.error_code)
            raise
        _session, token = await self._sign_ins.sign_in(vouched)
        response = _redirect_to(flow.after)
        _set_flow_cookie(response, "", 0)
        set_session_cookie(response, token)
        return response

    async def _claims(self, code: str, flow: SignInFlow) -> dict[str, Any]:
        if self._under_way >= MAX_CONCURRENT_SIGN_INS:
            raise Busy("too many people sign in at once", hint="sign in again in a moment")
        self._under_way += 1
        try:
            token, access = await self._provider.exchange_code(
                code,
                flow.verifier,
                redirect_uri=self._redirect_uri,
                client_id=self._client_id,
                secret=await self._sign_ins.client_secret(),
            )
            _, claims = await self._provider.verify_token(token)
            check_id_token(claims, self._provider.issuer, self._client_id, flow.nonce, self._now())
            if needs_userinfo(claims, self._oidc):
                claims = merge_claims(claims, await self._provider.fetch_userinfo(access, claims["sub"]))
        except InvalidToken as error:
            log.warning("an ID token of %s proves nothing: %s", self._provider.issuer, error.reason)
            raise Denied(
                "what the provider says of you proves nothing",
                code="sign_in.bad_token",
                hint="sign in again; where that happens every time, the daemon's log says why",
                details={"reason": error.reason},
            ) from None
        finally:
            self._under_way -= 1
        return claims

    async def _read_flow(self, request: Request) -> SignInFlow:
        flow = unseal_flow(request.cookies.get(FLOW_COOKIE, ""), await self._sealing_key(), self._now())
        if flow is None:
            raise _wrong_flow_error()
        return flow

    async def _sealing_key(self) -> bytes:
        secret = await self._sign_ins.client_secret()
        if self._key is None or self._key[0] != secret:
            self._key = (secret, flow_sealing_key(secret, self._random))
        return self._key[1]

    def _now(self) -> float:
        return self._clock.now().timestamp()


def _set_flow_cookie(response: Response, value: str, seconds: int) -> None:
    # Lax: it has to come along when the provider sends them back.
    response.set_cookie(FLOW_COOKIE, value, max_age=seconds, path="/", secure=True, httponly=True, samesite="lax")


def _redirect_to(where: str) -> RedirectResponse:
    return RedirectResponse(where, 303, {"cache-control": "no-store", "referrer-policy": "no-referrer"})


def _wrong_flow_error() -> Denied:
    return Denied(
        "this sign-in was not begun here, or too long ago",
        code="sign_in.not_begun",
        hint="sign in again, in this browser",
    )
