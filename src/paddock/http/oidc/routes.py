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
from paddock.core.errors import Busy, Denied, PaddockError
from paddock.core.outward import http_status
from paddock.core.printable import printable
from paddock.core.secret import Secret
from paddock.host.sign_ins import SignIns
from paddock.http.console.notice import notice
from paddock.http.cookies import give_session
from paddock.http.endpoint import ANYBODY, Endpoint
from paddock.http.oidc.flow import LASTS, Flow, new_flow, opened, safe_next, sealed, sealing_key
from paddock.http.oidc.provider import Provider
from paddock.http.oidc.tokens import BadToken, check_id_token
from paddock.http.oidc.vouched import arrival, name_in, wanting, with_more

START: Final = "/auth/oidc/start"
CALLBACK: Final = "/auth/oidc/callback"
COOKIE: Final = "__Host-paddock-sign-in"
AT_ONCE: Final = 16
"""How many may come back at a time: for each the provider is asked, and anybody may come."""

_LONGEST_CODE = 4_096

log = logging.getLogger("paddock.oidc")


class SignInRoutes:
    """The way out to the provider and the way back.

    Args:
        provider: Who vouches for people.
        sign_ins: Who they are here.
        oidc: What is asked of the provider, and what its claims mean.
        client_id: What this host is called there.
        public_url: Where this host is reached, without a slash at its end.
        clock, random: For flows.
    """

    def __init__(
        self,
        provider: Provider,
        sign_ins: SignIns,
        oidc: OidcSettings,
        client_id: str,
        public_url: str,
        clock: Clock,
        random: Random,
    ) -> None:
        self._provider = provider
        self._sign_ins = sign_ins
        self._oidc = oidc
        self._scopes = oidc.scopes
        self._client_id = client_id
        self._redirect_uri = public_url + CALLBACK
        self._clock = clock
        self._random = random
        self._key: tuple[Secret | None, bytes] | None = None
        self._under_way = 0

    def endpoints(self) -> list[Endpoint]:
        return [
            Endpoint(
                "GET",
                START,
                self.start_sign_in,
                "Sign in with the identity provider",
                "The way to it; `next` is where to go afterwards, on this host.",
                query={"next": "Where to go afterwards, as in `/plugins`."},
                status=303,
                media="",
                fails=(503,),
                prefix="",
                tag="sign-in",
                who=ANYBODY,
            ),
            Endpoint(
                "GET",
                CALLBACK,
                self.finish_sign_in,
                "Come back from the identity provider",
                "Signed in, and on the way to where they wanted to go.",
                query=dict.fromkeys(("code", "state", "iss", "error"), "As the provider says."),
                any_query=True,
                status=303,
                media="",
                fails=(403, 409, 429, 503),
                prefix="",
                tag="sign-in",
                who=ANYBODY,
            ),
        ]

    async def start_sign_in(self, request: Request) -> Response:
        """Send somebody to the provider."""
        about, key = await self._provider.about(), await self._sealing_key()
        flow = new_flow(self._random, safe_next(request.query_params.get("next")), self._now())
        asked = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": self._redirect_uri,
            "scope": self._scopes,
            "state": flow.state,
            "nonce": flow.nonce,
            "code_challenge": flow.challenge,
            "code_challenge_method": "S256",
        }
        joint = "&" if "?" in about.authorization_endpoint else "?"
        response = _going(f"{about.authorization_endpoint}{joint}{urlencode(asked)}")
        _keep(response, sealed(flow, key, self._random), LASTS)
        return response

    async def finish_sign_in(self, request: Request) -> Response:
        """Let somebody in who comes back; people are told on a page why not."""
        try:
            return await self._finished(request)
        except PaddockError as error:
            if "text/html" not in request.headers.get("accept", ""):
                raise
            return notice("You are not signed in", f"{error.message}. {error.hint}", status=http_status(error))

    async def _finished(self, request: Request) -> Response:
        flow, said = await self._flow(request), request.query_params
        if not flow.is_of(said.get("state", "")):
            raise _not_yours()
        about = await self._provider.about()
        if said.get("iss", self._provider.issuer if not about.names_itself else None) != self._provider.issuer:
            # Another provider's answer in this one's place (RFC 9207).
            raise _not_yours()
        code = said.get("code", "")
        if "error" in said or not 0 < len(code) <= _LONGEST_CODE:
            told = printable(said.get("error", "no code"), 60)
            raise Denied(f"the provider did not sign you in ({told})", code="sign_in.denied", hint="sign in again")
        claims = await self._claims(code, flow)
        try:
            vouched = arrival(claims, self._oidc)
        except Denied as error:
            await self._sign_ins.refused(claims["iss"], name_in(claims, self._oidc), error.error_code)
            raise
        _session, token = await self._sign_ins.arrive(vouched)
        response = _going(flow.after)
        _keep(response, "", 0)
        give_session(response, token)
        return response

    async def _claims(self, code: str, flow: Flow) -> dict[str, Any]:
        if self._under_way >= AT_ONCE:
            raise Busy("too many people sign in at once", hint="sign in again in a moment")
        self._under_way += 1
        try:
            token, access = await self._provider.tokens(
                code,
                flow.verifier,
                redirect_uri=self._redirect_uri,
                client_id=self._client_id,
                secret=await self._sign_ins.client_secret(),
            )
            _, claims = await self._provider.claims(token)
            check_id_token(claims, self._provider.issuer, self._client_id, flow.nonce, self._now())
            if wanting(claims, self._oidc):
                claims = with_more(claims, await self._provider.more_claims(access, claims["sub"]))
        except BadToken as error:
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

    async def _flow(self, request: Request) -> Flow:
        flow = opened(request.cookies.get(COOKIE, ""), await self._sealing_key(), self._now())
        if flow is None:
            raise _not_yours()
        return flow

    async def _sealing_key(self) -> bytes:
        secret = await self._sign_ins.client_secret()
        if self._key is None or self._key[0] != secret:
            self._key = (secret, sealing_key(secret, self._random))
        return self._key[1]

    def _now(self) -> float:
        return self._clock.now().timestamp()


def _keep(response: Response, value: str, seconds: int) -> None:
    # Lax: it has to come along when the provider sends them back.
    response.set_cookie(COOKIE, value, max_age=seconds, path="/", secure=True, httponly=True, samesite="lax")


def _going(where: str) -> RedirectResponse:
    return RedirectResponse(where, 303, {"cache-control": "no-store", "referrer-policy": "no-referrer"})


def _not_yours() -> Denied:
    return Denied(
        "this sign-in was not begun here, or too long ago",
        code="sign_in.not_begun",
        hint="sign in again, in this browser",
    )
