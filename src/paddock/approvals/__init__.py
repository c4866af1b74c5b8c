"""Approval requests for one exact action: created, answered and consumed once; and standing approvals."""
