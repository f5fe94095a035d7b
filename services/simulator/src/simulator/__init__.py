"""An independent witness that plays the Graph API."""
