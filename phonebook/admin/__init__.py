"""The console's pages of contacts, complaints and rules."""

from core.admin import import_pages

import_pages(__path__, __name__)
