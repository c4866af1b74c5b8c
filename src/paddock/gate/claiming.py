"""Coming back for a call that waited for a person, with the token that whoever made it was given.

The call goes on by itself once it has its yes. The token is for a caller that hung up meanwhile, or whose host was not
there to go on: it makes the same call again and names the token, and gets that very call instead of asking once more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from paddock.core.call import CallContext
from paddock.core.canonical import hash_of
from paddock.core.errors import Conflict
from paddock.core.ids import CallId
from paddock.gate.calls import Calls
from paddock.gate.catalogue import Target
from paddock.gate.gate import Gate
from paddock.gate.live_call import LiveCall
from paddock.gate.resume import Resumption, ended
from paddock.policy.approvals.approval import State
from paddock.policy.approvals.desk import Approvals


@dataclass(frozen=True, slots=True)
class Claims:
    """Gives out calls for tokens.

    Args:
        approvals: Where the requests are, with hashes of their tokens.
        resumption: Goes on with a call that was approved while nobody did.
        calls: Where calls are found that went on by themselves.
        gate: Knows who may make a call now.
    """

    approvals: Approvals
    resumption: Resumption
    calls: Calls
    gate: Gate

    async def claim(self, token: str, target: Target, params: Mapping[str, Any], context: CallContext) -> LiveCall:
        """The call that the token was given out for. The token is used up then, unless the call still waits.

        Args:
            token: As whoever made the call was given it.
            target: What was called.
            params: With what.
            context: Who made it.

        Raises:
            Denied: the token is not theirs, is none, or was used; or somebody said no; or they may not make the call
                any more, and what came of it is not for them.
            Conflict: it was given out for something else; or nobody answered in time.
            NotFound: the call was made, and is not remembered here any more.
        """
        approval = await self.approvals.claimable(context.tenant, token, context.principal.id)
        subject = approval.binding.subject
        same = (subject.plugin, subject.callable) == (target.key.plugin, target.spec.name)
        if not same or approval.binding.payload_hash != hash_of(params):
            raise Conflict(
                "this approval token was given out for another call",
                code="approval.token_elsewhere",
                hint="make the same call as before, with the same parameters",
                details={"approval": approval.id, "call_id": approval.call},
            )
        await self.gate.require_permitted(target, context, CallId(approval.call))
        match approval.state:
            case State.PENDING:
                return await self.resumption.answered(approval) or self.calls.find(approval.call, context.tenant)
            case State.APPROVED:
                await self.approvals.claim(context.tenant, token)
                return await self.resumption.answered(approval) or self.calls.find(approval.call, context.tenant)
            case State.CONSUMED:
                live = self.calls.find(approval.call, context.tenant)
                await self.approvals.claim(context.tenant, token)
                return live
            case _:
                raise ended(approval)
