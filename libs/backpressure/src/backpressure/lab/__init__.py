"""The laboratory: one fast producer and one slow consumer, joined in six ways. Read `load.py`, then any strategy."""
