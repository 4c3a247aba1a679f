from accounts.models import ApiToken
from core.admin import RELATED_PAGES, RelatedPage
from phonebook.admin.number_admin import NUMBER_PAGES

RELATED_PAGES[ApiToken] = RelatedPage("accounts.view_customer", lambda token: f"/plain?token={token.pk}")
NUMBER_PAGES["Plain page of this number"] = ("accounts.view_customer", "admin:plain")
