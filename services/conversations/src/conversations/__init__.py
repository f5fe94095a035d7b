"""Handles each inbound message once, per contact in order."""
