"""Sends at exactly the pace each number may take."""
