"""The console's pages of customers, tokens and the ledger."""

from core.admin import import_pages

import_pages(__path__, __name__)
