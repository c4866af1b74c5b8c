"""Answers as bytes. Results are written already when they come here: the same list goes to many. Pure."""

from __future__ import annotations

import orjson

from paddock.core.errors import PaddockError
from paddock.core.outward import mcp_error
from paddock.rpc.faults import RpcFault, to_wire
from paddock.rpc.message import MessageId


def answer_of(number: MessageId, result: bytes) -> bytes:
    """The answer to a request."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (_id(number), result)


def fault_as(number: MessageId | None, fault: RpcFault) -> bytes:
    """The answer to a request that was not served; without an id where nobody knows which one."""
    told = orjson.dumps(to_wire(fault), default=str)
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (_id(number), told)


def fault_from(error: PaddockError) -> RpcFault:
    """What a client is told of an error."""
    told = mcp_error(error)
    return RpcFault(told["code"], told["message"], told["data"])


def _id(number: MessageId | None) -> bytes:
    return b"%d" % number if type(number) is int else orjson.dumps(number)
