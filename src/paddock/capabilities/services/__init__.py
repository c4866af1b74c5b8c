"""The small host services: log, audit, cache, keyvalue, rate limits, secrets."""
