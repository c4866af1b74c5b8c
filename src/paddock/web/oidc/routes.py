"""Routes of the OpenID Connect sign-in (authorization code flow with PKCE).

`start_sign_in` changes nothing: the values to compare later are sealed in a cookie of the browser. `finish_sign_in` is
the only GET that changes state, since the provider sends people back by a redirect. It creates a session only for the
browser that started, with the state that it started with, and a code that the provider accepts once.
"""

from __future__ import annotations

import logging
from typing import Any, Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from paddock.config.oidc_settings import OidcSettings
from paddock.core.action import with_sentence
from paddock.core.clock import Clock, Random
from paddock.core.error_formats import http_status
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
from paddock.web.routing.route import PUBLIC, ApiRoute
from paddock.web.security.cookies import set_session_cookie

START_PATH: Final = "/auth/oidc/start"
CALLBACK_PATH: Final = "/auth/oidc/callback"
FLOW_COOKIE: Final = "__Host-paddock-sign-in"
MAX_CONCURRENT_SIGN_INS: Final = 16
"""Concurrent callbacks. Each makes requests to the provider, and anybody can call it."""

_MAX_CODE_CHARS = 4_096

log = logging.getLogger("paddock.oidc")


class OidcRoutes:
    """Redirects people to the provider and signs them in when they return.

    Args:
        provider: The identity provider.
        sign_ins: Maps external identities to people and creates sessions.
        oidc: Requested scopes and the meaning of claims.
        client_id: The client id of this host at the provider.
        public_url: Public URL of this host, without a trailing slash.
        clock, random: For flows.
        notice_page: Renders the reason why a sign-in failed.
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
        self._cached_sealing_key: tuple[Secret | None, bytes] | None = None
        self._active_sign_ins = 0

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
                access=PUBLIC,
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
                access=PUBLIC,
            ),
        ]

    async def start_sign_in(self, request: Request) -> Response:
        """Redirect the browser to the provider."""
        metadata, key = await self._provider.metadata(), await self._sealing_key()
        flow = new_flow(self._random, safe_redirect_path(request.query_params.get("next")), self._now())
        query = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": self._redirect_uri,
            "scope": self._scopes,
            "state": flow.state,
            "nonce": flow.nonce,
            "code_challenge": flow.pkce_challenge,
            "code_challenge_method": "S256",
        }
        separator = "&" if "?" in metadata.authorization_endpoint else "?"
        response = _redirect_to(f"{metadata.authorization_endpoint}{separator}{urlencode(query)}")
        _set_flow_cookie(response, seal_flow(flow, key, self._random), FLOW_TTL_S)
        return response

    async def finish_sign_in(self, request: Request) -> Response:
        """Sign in a person whom the provider sent back; browsers get a page with the reason if that fails."""
        try:
            return await self._complete_sign_in(request)
        except PaddockError as error:
            if "text/html" not in request.headers.get("accept", ""):
                raise
            text = f"{error.message}. {with_sentence(error.hint, error.action)}"
            return self._notice_page("You are not signed in", text, status=http_status(error))

    async def _complete_sign_in(self, request: Request) -> Response:
        flow, query = await self._read_flow(request), request.query_params
        if not flow.matches_state(query.get("state", "")):
            raise _wrong_flow_error()
        metadata = await self._provider.metadata()
        if (
            query.get("iss", self._provider.issuer if not metadata.sends_iss_parameter else None)
            != self._provider.issuer
        ):
            # Mix-up defence (RFC 9207): the response is from another provider.
            raise _wrong_flow_error()
        code = query.get("code", "")
        if "error" in query or not 0 < len(code) <= _MAX_CODE_CHARS:
            reason = printable(query.get("error", "no code"), 60)
            raise Denied(f"the provider did not sign you in ({reason})", code="sign_in.denied", hint="sign in again")
        claims = await self._claims(code, flow)
        try:
            profile = sign_in_profile(claims, self._oidc)
        except Denied as error:
            await self._sign_ins.record_refusal(claims["iss"], person_name(claims, self._oidc), error.error_code)
            raise
        _session, token = await self._sign_ins.sign_in(profile)
        response = _redirect_to(flow.after)
        _set_flow_cookie(response, "", 0)
        set_session_cookie(response, token)
        return response

    async def _claims(self, code: str, flow: SignInFlow) -> dict[str, Any]:
        if self._active_sign_ins >= MAX_CONCURRENT_SIGN_INS:
            raise Busy("too many people sign in at once", hint="sign in again in a moment")
        self._active_sign_ins += 1
        try:
            id_token, access_token = await self._provider.exchange_code(
                code,
                flow.verifier,
                redirect_uri=self._redirect_uri,
                client_id=self._client_id,
                secret=await self._sign_ins.client_secret(),
            )
            _, claims = await self._provider.verify_token(id_token)
            check_id_token(claims, self._provider.issuer, self._client_id, flow.nonce, self._now())
            if needs_userinfo(claims, self._oidc):
                claims = merge_claims(claims, await self._provider.fetch_userinfo(access_token, claims["sub"]))
        except InvalidToken as error:
            log.warning("an ID token of %s proves nothing: %s", self._provider.issuer, error.reason)
            raise Denied(
                "what the provider says of you proves nothing",
                code="sign_in.bad_token",
                hint="sign in again; where that happens every time, the daemon's log says why",
                details={"reason": error.reason},
            ) from None
        finally:
            self._active_sign_ins -= 1
        return claims

    async def _read_flow(self, request: Request) -> SignInFlow:
        flow = unseal_flow(request.cookies.get(FLOW_COOKIE, ""), await self._sealing_key(), self._now())
        if flow is None:
            raise _wrong_flow_error()
        return flow

    async def _sealing_key(self) -> bytes:
        secret = await self._sign_ins.client_secret()
        if self._cached_sealing_key is None or self._cached_sealing_key[0] != secret:
            self._cached_sealing_key = (secret, flow_sealing_key(secret, self._random))
        return self._cached_sealing_key[1]

    def _now(self) -> float:
        return self._clock.now().timestamp()


def _set_flow_cookie(response: Response, value: str, seconds: int) -> None:
    # Lax: the cookie must be sent when the provider redirects back.
    response.set_cookie(FLOW_COOKIE, value, max_age=seconds, path="/", secure=True, httponly=True, samesite="lax")


def _redirect_to(url: str) -> RedirectResponse:
    return RedirectResponse(url, 303, {"cache-control": "no-store", "referrer-policy": "no-referrer"})


def _wrong_flow_error() -> Denied:
    return Denied(
        "this sign-in was not begun here, or too long ago",
        code="sign_in.not_begun",
        hint="sign in again, in this browser",
    )
