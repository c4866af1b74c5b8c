"""Outbound network access: egress policy, dialling, URL checks and a small HTTP client."""
