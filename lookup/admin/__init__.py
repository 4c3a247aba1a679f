"""The console's page of the files that are looked up."""

from core.admin import import_pages

import_pages(__path__, __name__)
