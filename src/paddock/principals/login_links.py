"""Login links: short-lived one-time URLs that sign a person in."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct

from paddock.core.action import Action
from paddock.core.clock import Random
from paddock.core.errors import Denied
from paddock.core.events.principals import LoginLinkMade, LoginLinkRefused
from paddock.core.ids import PrincipalId, Tenant
from paddock.core.secret import Secret
from paddock.principals.sessions import hash_token, new_token, session_subject
from paddock.store.audited_transaction import AuditedTransaction
from paddock.store.transaction import Transaction

LINK_TTL = timedelta(minutes=15)


class LoginLink(Struct, frozen=True):
    """A link without its token."""

    id: str
    tenant: Tenant
    subject: PrincipalId
    expires_at: str
    used_at: str | None = None


def make_link(change: AuditedTransaction, principal_name: str, random: Random) -> tuple[LoginLink, Secret]:
    """Create a link for a principal of the change's tenant; return it with its token. `who` as in `open_session`.

    Raises:
        NotFound: no such person.
        OperatorError: it is no principal that signs in, or it is of another tenant.
        Denied: they may not act.
    """
    now, subject = datetime.fromisoformat(change.now), session_subject(change, principal_name)
    token = new_token("pdl", random)
    link = LoginLink(f"link_{random.bytes(8).hex()}", change.tenant, subject, (now + LINK_TTL).isoformat())
    change.tx.execute("DELETE FROM login_links WHERE expires_at < ?", ((now - timedelta(days=1)).isoformat(),))
    change.tx.execute(
        "INSERT INTO login_links (id, tenant, subject, hash, made_at, made_by, expires_at) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            *(link.id, link.tenant, link.subject, hash_token(token.reveal())),
            *(change.now, change.by, link.expires_at),
        ),
    )
    change.publish.publish(LoginLinkMade(link.id, subject, link.expires_at, change.by))
    return link, token


def find_link(tx: Transaction, token: str) -> LoginLink | None:
    """Return the link of a token, used or not; None once it was refused."""
    row = tx.one(
        "SELECT id, tenant, subject, expires_at, used_at FROM login_links WHERE hash = ?", (hash_token(token),)
    )
    return LoginLink(**row) if row else None


def consume_link(change: AuditedTransaction, link: LoginLink) -> str | None:
    """Consume a link, in the transaction that opens the session; return why it is invalid, or None."""
    used = change.tx.execute(
        "UPDATE login_links SET used_at = ? WHERE id = ? AND used_at IS NULL AND expires_at > ?",
        (change.now, link.id, change.now),
    )
    if used:
        return None
    reason = "it was used before" if link.used_at is not None else "its time is over"
    # Forget its token: presented again, it is an unknown link, and cannot fill the ledger.
    if change.tx.execute("UPDATE login_links SET hash = id WHERE id = ? AND hash <> id", (link.id,)):
        change.publish.publish(LoginLinkRefused(link.id, link.subject, reason))
    return reason


def void_links_for(change: AuditedTransaction, subject: str) -> None:
    """Void all unused links of a principal."""
    change.tx.execute(
        "UPDATE login_links SET used_at = ? WHERE tenant = ? AND subject = ? AND used_at IS NULL",
        (change.now, change.tenant, subject),
    )


def invalid_link_error() -> Denied:
    """Build the error for an invalid link, the same whatever the reason."""
    return Denied(
        "this sign-in link is invalid, expired or already used",
        code="auth.link_refused",
        hint="a link works once, for 15 minutes",
        action=Action.of("login"),
    )


def has_ever_signed_in(tx: Transaction) -> bool:
    """Return whether anybody has ever signed in here, or was given a link."""
    row = tx.one("SELECT EXISTS (SELECT 1 FROM console_sessions) OR EXISTS (SELECT 1 FROM login_links) AS there")
    return bool(row and row["there"])
