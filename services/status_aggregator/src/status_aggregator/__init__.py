"""Folds statuses per wamid into bulk updates."""
