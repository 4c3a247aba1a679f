"""The console's pages of alerts, their recipients and notices, and the actions on a customer's webhook."""

from core.admin import import_pages

import_pages(__path__, __name__)
