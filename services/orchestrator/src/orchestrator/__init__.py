"""One leader: reclaims, reconciles, completes."""
