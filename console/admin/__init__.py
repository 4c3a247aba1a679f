"""The console's pages of users, roles and history."""

from core.admin import import_pages

import_pages(__path__, __name__)
