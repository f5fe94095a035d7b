"""Bounded building blocks of flow control: nothing here can grow without bound, and nothing here knows about Kafka."""
