"""Every process starts, reports and stops the same way."""
