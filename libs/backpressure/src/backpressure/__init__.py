"""Bounded building blocks: bucket, window, lanes, offsets, batch. Standard library only."""
