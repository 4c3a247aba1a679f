from console import pages

NAME = "phonebook_contact_erase"
SYNONYMS = "erasure gdpr personal data forget right to be forgotten delete my data remove privacy"

pages.SIDEBAR.add(
    pages.Place(
        "Numbers",
        pages.Page("Erase a number's data", "delete_forever", NAME, "phonebook.erase_contact", synonyms=SYNONYMS),
        after="Imports",
    )
)
pages.VIEWS.add(pages.View("erase-a-number/", "contrib.erasure_page.views.view", NAME, "phonebook.erase_contact"))
