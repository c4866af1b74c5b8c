"""Console sessions: somebody signed in, who can answer in person. The browser has a token, and here is its hash.

Whose it is stands as a name, `user:ann` or `local:root`; what they may do is looked up each time. A session ends when
it is not used for a while, after a week in any case, and at once when somebody ends it.
"""

from __future__ import annotations

import hashlib
from base64 import b32encode
from dataclasses import dataclass
from datetime import datetime, timedelta

from paddock.core.call import Principal
from paddock.core.clock import Random
from paddock.core.errors import Denied, NotFound, OperatorError
from paddock.core.events.principals import SessionEnded, SessionOpened
from paddock.core.ids import PrincipalId, Tenant
from paddock.core.printable import printable
from paddock.core.secret import Secret
from paddock.principals.principal_name import resolve_principal
from paddock.store.audited_transaction import AuditedTransaction
from paddock.store.transaction import Row, Transaction

_TOKEN_BYTES = 32  # bytes


def new_token(begin: str, random: Random) -> Secret:
    """A token that nobody can guess, and that can be shown once."""
    return Secret(f"{begin}_{b32encode(random.bytes(_TOKEN_BYTES)).decode().lower().rstrip('=')}")


def hash_token(token: str) -> str:
    """What is kept of it. It needs no salt: nobody can try that many."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


SESSION_IDLE_TIMEOUT = timedelta(hours=12)
SESSION_TTL = timedelta(days=7)
_RETENTION = timedelta(days=30)
_SEEN_INTERVAL = timedelta(minutes=1)
_COLUMNS = "id, tenant, subject, via, opened_at, seen_at, expires_at, ended_at"


@dataclass(frozen=True, slots=True)
class ConsoleSession:
    """Somebody signed in: everything but the token. `via` is how, as in `link` or `oidc`."""

    id: str
    tenant: Tenant
    subject: PrincipalId
    via: str
    opened_at: str
    seen_at: str
    expires_at: str
    ended_at: str | None = None

    def is_live(self, now: datetime) -> bool:
        """Whether it still says who somebody is."""
        used = datetime.fromisoformat(self.seen_at)
        return (
            self.ended_at is None
            and now < datetime.fromisoformat(self.expires_at)
            and now < used + SESSION_IDLE_TIMEOUT
        )


def open_session(change: AuditedTransaction, who: str, random: Random, *, via: str) -> tuple[ConsoleSession, Secret]:
    """Sign somebody of the change's tenant in, and give their browser's token, which nobody can look up later.

    Args:
        change: In which tenant.
        who: `user:ann`, or `ann`; or whoever operates this host, `local:root`.
        random: Where the token comes from.
        via: How it is known that it is them.

    Raises:
        NotFound: nobody is called that.
        OperatorError: that is nobody who signs in, or of another tenant.
        Denied: they may not act.
    """
    now, subject = datetime.fromisoformat(change.now), session_subject(change, who)
    token = new_token("pds", random)
    session_id = f"ses_{random.bytes(8).hex()}"
    opened = ConsoleSession(
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
            *(opened.id, opened.tenant, opened.subject, hash_token(token.reveal()), via),
            *(opened.opened_at, opened.seen_at, opened.expires_at),
        ),
    )
    change.publish.publish(SessionOpened(opened.id, subject, via, opened.expires_at))
    return opened, token


def session_subject(change: AuditedTransaction, who: str) -> PrincipalId:
    """Whom a session of the change's tenant would be of; raises as `open_session` does."""
    name = who if ":" in who else f"user:{who}"
    found = resolve_principal(change.tx, name, change.tenant, datetime.fromisoformat(change.now), interactive=True)
    # What is kept is the name alone: Ann of another tenant would become the Ann of this one.
    if found.tenant != change.tenant or not found.interactive:
        raise OperatorError(
            f"{printable(who, 80)!r} is nobody of {change.tenant} who signs in",
            code="principal.unclear",
            hint="name a person, or local:NAME, and their tenant with --tenant",
        )
    return found.id


def find_session(tx: Transaction, token: str, now: datetime) -> ConsoleSession | None:
    """The session of a token, where it is good."""
    row = tx.one(f"SELECT {_COLUMNS} FROM console_sessions WHERE hash = ?", (hash_token(token),))  # noqa: S608
    found = _session_from_row(row) if row else None
    return found if found is not None and found.is_live(now) else None


def session_principal(tx: Transaction, token: str, now: datetime) -> Principal:
    """Who is signed in, with what they may do right now.

    Raises:
        Denied: `auth.refused`, in the same words whatever is wrong with it.
    """
    session = find_session(tx, token, now)
    if session is not None:
        try:
            return resolve_principal(tx, session.subject, session.tenant, now, interactive=True)
        except (Denied, NotFound):
            pass  # they may not act any more, or are gone
    raise Denied("nobody is signed in with this", code="auth.refused", hint="sign in again: paddock login")


def record_session_use(tx: Transaction, token: str, now: datetime) -> None:
    """Keep when a session was last used, to the minute."""
    tx.execute(
        "UPDATE console_sessions SET seen_at = ? WHERE hash = ? AND seen_at < ?",
        (now.isoformat(), hash_token(token), (now - _SEEN_INTERVAL).isoformat()),
    )


def list_sessions(tx: Transaction, tenant: str, now: datetime, subject: str | None = None) -> list[ConsoleSession]:
    """Who is signed in, of a tenant or of one of it, oldest first."""
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM console_sessions WHERE tenant = ? AND ended_at IS NULL ORDER BY opened_at, id",  # noqa: S608
        (tenant,),
    )
    found = (_session_from_row(row) for row in rows)
    return [one for one in found if one.is_live(now) and subject in (None, one.subject)]


def end_session(change: AuditedTransaction, session_id: str, subject: str | None = None) -> ConsoleSession:
    """Sign somebody out: only `subject`, where one is named.

    Raises:
        NotFound: there is no such session, or not any more.
    """
    live = list_sessions(change.tx, change.tenant, datetime.fromisoformat(change.now), subject)
    found = next((one for one in live if one.id == session_id), None)
    if found is None:
        raise NotFound(
            f"nobody is signed in as {printable(session_id, 64)!r}",
            code="session.not_found",
            hint="see 'paddock user sessions'",
        )
    _end_one(change, found)
    return found


def end_all_sessions(change: AuditedTransaction, subject: str) -> list[ConsoleSession]:
    """Sign somebody out everywhere, and give what was ended."""
    live = list_sessions(change.tx, change.tenant, datetime.fromisoformat(change.now), subject)
    for one in live:
        _end_one(change, one)
    return live


def _end_one(change: AuditedTransaction, session: ConsoleSession) -> None:
    change.tx.execute("UPDATE console_sessions SET ended_at = ? WHERE id = ?", (change.now, session.id))
    change.publish.publish(SessionEnded(session.id, session.subject, change.by))


def _session_from_row(row: Row) -> ConsoleSession:
    return ConsoleSession(**row)
