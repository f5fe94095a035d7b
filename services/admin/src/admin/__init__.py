"""HTTP API and the sluice command."""
