"""Login links: an address that signs somebody in, once and soon. Whoever makes one says who that is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from paddock.core.clock import Random
from paddock.core.errors import Denied
from paddock.core.events.principals import LoginLinkMade, LoginLinkRefused
from paddock.core.ids import PrincipalId, Tenant
from paddock.core.secret import Secret
from paddock.principals.sessions import hash_token, new_token, session_subject
from paddock.store.audited_transaction import AuditedTransaction
from paddock.store.transaction import Transaction

LINK_TTL = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class LoginLink:
    """A link without its token."""

    id: str
    tenant: Tenant
    subject: PrincipalId
    expires_at: str
    used_at: str | None = None


def make_link(change: AuditedTransaction, who: str, random: Random) -> tuple[LoginLink, Secret]:
    """A link that signs somebody of the change's tenant in, and its token; `who` as in `open_session`.

    Raises:
        NotFound: nobody is called that.
        OperatorError: that is nobody who signs in, or of another tenant.
        Denied: they may not act.
    """
    now, subject = datetime.fromisoformat(change.now), session_subject(change, who)
    token = new_token("pdl", random)
    made = LoginLink(f"link_{random.bytes(8).hex()}", change.tenant, subject, (now + LINK_TTL).isoformat())
    change.tx.execute("DELETE FROM login_links WHERE expires_at < ?", ((now - timedelta(days=1)).isoformat(),))
    change.tx.execute(
        "INSERT INTO login_links (id, tenant, subject, hash, made_at, made_by, expires_at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            *(made.id, made.tenant, made.subject, hash_token(token.reveal())),
            *(change.now, change.by, made.expires_at),
        ),
    )
    change.publish.publish(LoginLinkMade(made.id, subject, made.expires_at, change.by))
    return made, token


def find_link(tx: Transaction, token: str) -> LoginLink | None:
    """The link of a token, used or not; none once it was refused."""
    row = tx.one(
        "SELECT id, tenant, subject, expires_at, used_at FROM login_links WHERE hash = ?", (hash_token(token),)
    )
    return LoginLink(**row) if row else None


def consume_link(change: AuditedTransaction, link: LoginLink) -> str | None:
    """Use a link up, in the unit in which somebody is signed in with it; why it is no good, where it is not."""
    used = change.tx.execute(
        "UPDATE login_links SET used_at = ? WHERE id = ? AND used_at IS NULL AND expires_at > ?",
        (change.now, link.id, change.now),
    )
    if used:
        return None
    why = "it was used before" if link.used_at is not None else "its time is over"
    # Its token is forgotten with that: whoever brings it again has a link that nobody made, and fills no record.
    if change.tx.execute("UPDATE login_links SET hash = id WHERE id = ? AND hash <> id", (link.id,)):
        change.publish.publish(LoginLinkRefused(link.id, link.subject, why))
    return why


def void_links_for(change: AuditedTransaction, subject: str) -> None:
    """Have no link sign somebody in any more that was made for them before."""
    change.tx.execute(
        "UPDATE login_links SET used_at = ? WHERE tenant = ? AND subject = ? AND used_at IS NULL",
        (change.now, change.tenant, subject),
    )


def invalid_link_error() -> Denied:
    """What whoever comes with a link that is no good is told, whatever is wrong with it."""
    return Denied(
        "this link does not sign anybody in, or not any more",
        code="auth.link_refused",
        hint="a link works once, for a quarter of an hour; make another: paddock login",
    )


def has_ever_signed_in(tx: Transaction) -> bool:
    """Whether anybody was ever signed in here, or got a link to."""
    row = tx.one("SELECT EXISTS (SELECT 1 FROM console_sessions) OR EXISTS (SELECT 1 FROM login_links) AS there")
    return bool(row and row["there"])
