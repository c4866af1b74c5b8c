"""Call envelopes and results of the supported manifest dialects."""
