"""Checks of manifest values that schemas cannot express."""
