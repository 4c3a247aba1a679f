"""Add-ons: features that can be left out. ADDONS chooses them (core.addons); nothing outside imports them."""
