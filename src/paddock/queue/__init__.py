"""The job queue: durable and timed jobs, the leases of the nodes that run them, and the worker."""
