"""Address books that the operator keeps elsewhere, synchronized by `sync_contacts`: docs/address-books.md.

`sync.py` runs three steps for each book:

1. **Fetch**: `books.py` reads what the environment says about it, and `carddav.py` or `ldapsearch.py` gets the cards
   that have changed and the keys of those that are gone.
2. **Merge**: write them.
3. **Publish**: write, for each number, the card of the first book into Contact, which is what searches read. A contact
   that was imported or entered in the console stays as it is.
"""
