"""Verifies webhooks, splits and publishes them, then answers."""
