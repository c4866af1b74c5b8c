"""The one door that every call goes through."""
