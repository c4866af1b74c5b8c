"""Console sessions: a signed-in person, who can answer in person. The browser holds a token, the database its hash.

A session stores the principal's name, `user:ann` or `local:root`; its rights are looked up each time. A session ends
when it is idle for a while, after a week in any case, and at once when it is revoked.
"""

from __future__ import annotations

import hashlib
from base64 import b32encode
from datetime import datetime, timedelta

from msgspec import Struct

from paddock.core.action import Action
from paddock.core.call import Principal
from paddock.core.clock import Random
from paddock.core.errors import Denied, NotFound, OperatorError
from paddock.core.events.principals import SessionEnded, SessionOpened
from paddock.core.ids import PrincipalId, Tenant
from paddock.core.printable import printable
from paddock.core.secret import Secret
from paddock.principals.principal_name import resolve_principal
from paddock.store.audited_transaction import AuditedTransaction
from paddock.store.transaction import Transaction

_TOKEN_BYTES = 32


def new_token(prefix: str, random: Random) -> Secret:
    """Generate a random token, to be shown once."""
    return Secret(f"{prefix}_{b32encode(random.bytes(_TOKEN_BYTES)).decode().lower().rstrip('=')}")


def hash_token(token: str) -> str:
    """Return the hash to store. It needs no salt: the token has too much entropy to be guessed."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


SESSION_IDLE_TIMEOUT = timedelta(hours=12)
SESSION_TTL = timedelta(days=7)
_RETENTION = timedelta(days=30)
_SEEN_INTERVAL = timedelta(minutes=1)
_COLUMNS = "id, tenant, subject, via, opened_at, seen_at, expires_at, ended_at"


class ConsoleSession(Struct, frozen=True):
    """A session: everything but the token. `via` is the sign-in method, as in `link` or `oidc`."""

    id: str
    tenant: Tenant
    subject: PrincipalId
    via: str
    opened_at: str
    seen_at: str
    expires_at: str
    ended_at: str | None = None

    def is_live(self, now: datetime) -> bool:
        """Return whether the session is valid."""
        last_used = datetime.fromisoformat(self.seen_at)
        return (
            self.ended_at is None
            and now < datetime.fromisoformat(self.expires_at)
            and now < last_used + SESSION_IDLE_TIMEOUT
        )


def open_session(
    change: AuditedTransaction, principal_name: str, random: Random, *, via: str
) -> tuple[ConsoleSession, Secret]:
    """Open a session of a principal of the change's tenant; return it with its token, which cannot be looked up later.

    Args:
        change: The transaction, with the tenant.
        principal_name: `user:ann` or `ann`; or the operator of this host, as in `local:root`.
        random: The source of the token.
        via: The sign-in method.

    Raises:
        NotFound: no such person.
        OperatorError: it is no principal that signs in, or it is of another tenant.
        Denied: they may not act.
    """
    now, subject = datetime.fromisoformat(change.now), session_subject(change, principal_name)
    token = new_token("pds", random)
    session_id = f"ses_{random.bytes(8).hex()}"
    session = ConsoleSession(
        session_id, change.tenant, subject, via, change.now, change.now, (now + SESSION_TTL).isoformat()
    )
    change.tx.execute(
        "DELETE FROM console_sessions WHERE tenant = ? AND expires_at < ?",
        (change.tenant, (now - _RETENTION).isoformat()),
    )
    change.tx.execute(
        "INSERT INTO console_sessions (id, tenant, subject, hash, via, opened_at, seen_at, expires_at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *(session.id, session.tenant, session.subject, hash_token(token.reveal()), via),
            *(session.opened_at, session.seen_at, session.expires_at),
        ),
    )
    change.publish.publish(SessionOpened(session.id, subject, via, session.expires_at))
    return session, token


def session_subject(change: AuditedTransaction, principal_name: str) -> PrincipalId:
    """Return the principal id for a session of the change's tenant; raises as `open_session` does."""
    name = principal_name if ":" in principal_name else f"user:{principal_name}"
    principal = resolve_principal(change.tx, name, change.tenant, datetime.fromisoformat(change.now), interactive=True)
    # Only the name is stored: Ann of another tenant would become the Ann of this one.
    if principal.tenant != change.tenant or not principal.interactive:
        raise OperatorError(
            f"{printable(principal_name, 80)!r} is not a person of {change.tenant} who can sign in",
            code="principal.unclear",
            hint="name a person, or local:NAME, and their tenant",
            action=Action.of("user.list", tenant=change.tenant),
        )
    return principal.id


def find_session(tx: Transaction, token: str, now: datetime) -> ConsoleSession | None:
    """Return the session of a token, if it is valid."""
    row = tx.one(f"SELECT {_COLUMNS} FROM console_sessions WHERE hash = ?", (hash_token(token),))  # noqa: S608
    session = ConsoleSession(**row) if row else None
    return session if session is not None and session.is_live(now) else None


def session_principal(tx: Transaction, token: str, now: datetime) -> Principal:
    """Return the principal of a session's token, with its current rights.

    Raises:
        Denied: `auth.refused`, with the same message whatever the reason.
    """
    session = find_session(tx, token, now)
    if session is not None:
        try:
            return resolve_principal(tx, session.subject, session.tenant, now, interactive=True)
        except (Denied, NotFound):
            pass  # the person is disabled or was removed
    raise Denied("the session is invalid or expired", code="auth.refused", action=Action.of("login"))


def record_session_use(tx: Transaction, token: str, now: datetime) -> None:
    """Record when a session was last used, to the minute."""
    tx.execute(
        "UPDATE console_sessions SET seen_at = ? WHERE hash = ? AND seen_at < ?",
        (now.isoformat(), hash_token(token), (now - _SEEN_INTERVAL).isoformat()),
    )


def list_sessions(tx: Transaction, tenant: str, now: datetime, subject: str | None = None) -> list[ConsoleSession]:
    """List the valid sessions of a tenant or of one principal, oldest first."""
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM console_sessions WHERE tenant = ? AND ended_at IS NULL ORDER BY opened_at, id",  # noqa: S608
        (tenant,),
    )
    sessions = (ConsoleSession(**row) for row in rows)
    return [session for session in sessions if session.is_live(now) and subject in (None, session.subject)]


def end_session(change: AuditedTransaction, session_id: str, subject: str | None = None) -> ConsoleSession:
    """End a session; with `subject` only if it is theirs.

    Raises:
        NotFound: there is no such session, or it has ended.
    """
    sessions = list_sessions(change.tx, change.tenant, datetime.fromisoformat(change.now), subject)
    ended = next((session for session in sessions if session.id == session_id), None)
    if ended is None:
        raise unknown_session_error(session_id)
    _end(change, ended)
    return ended


def unknown_session_error(session_id: str) -> NotFound:
    """Build the error for a session that does not exist or has ended."""
    return NotFound(
        f"there is no session {printable(session_id, 64)!r}",
        code="session.not_found",
        action=Action.of("user.session.list"),
    )


def end_all_sessions(change: AuditedTransaction, subject: str) -> list[ConsoleSession]:
    """End all sessions of a principal, and return them."""
    sessions = list_sessions(change.tx, change.tenant, datetime.fromisoformat(change.now), subject)
    for session in sessions:
        _end(change, session)
    return sessions


def _end(change: AuditedTransaction, session: ConsoleSession) -> None:
    change.tx.execute("UPDATE console_sessions SET ended_at = ? WHERE id = ?", (change.now, session.id))
    change.publish.publish(SessionEnded(session.id, session.subject, change.by))
