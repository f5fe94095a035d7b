"""Kafka, at least once, in order per key."""
