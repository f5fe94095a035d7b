"""The client side of the WhatsApp Business Cloud API."""
