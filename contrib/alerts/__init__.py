"""Alerts about conditions that need an operator, and low-balance notices, by e-mail and webhook."""
