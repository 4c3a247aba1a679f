"""The console: Django's admin site with this project's sidebar, dashboard, login limits and two-factor authentication.

Pages about tokens and credits are in `accounts.admin`, about numbers and sources in `lookup.admin`, about users, roles
and history in `users` and `history`; menu entries are in `navigation`.
"""
