"""Add-ons for tests."""
