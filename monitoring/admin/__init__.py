"""The console's pages of sources."""

from core.admin import import_pages

import_pages(__path__, __name__)
