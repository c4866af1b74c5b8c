"""Authentication, host and origin checks, cookies and security headers."""
