"""Installing and upgrading plugins: request, resolve, plan, consent and commit."""
