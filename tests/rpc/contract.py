"""What a peer promises over every transport, as sentences.

A transport joins by subclassing `TransportContract` in a test file and saying how to connect; see `test_contract.py`.
"""

from __future__ import annotations

from tests.rpc.contract_answering import AnsweringContract
from tests.rpc.contract_asking import AskingContract
from tests.rpc.contract_ends import EndContract
from tests.rpc.contract_lines import LineContract


class TransportContract(LineContract, AskingContract, AnsweringContract, EndContract):
    """All the sentences."""
