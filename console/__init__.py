"""The console: Django's admin site with this project's sidebar, dashboard, login limits and two-factor authentication.

Each app has its pages in `admin/`: here those of users, roles and history. Menu entries are in `navigation`.
"""
