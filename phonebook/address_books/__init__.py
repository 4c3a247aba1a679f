"""Address books that the operator keeps elsewhere, synchronized by `sync_contacts`: fetch → merge → publish.

1. **Fetch**: `configuration.py` reads what the environment says about a book, and `carddav.py` or `ldapsearch.py` gets
   the cards that have changed and the keys of those that are gone (`changes.py`).
2. **Merge**: `store.py` writes them and the sync token.
3. **Publish**: in the same transaction it writes, for each number concerned, the card of the first book into Contact,
   which is what searches read. A contact that was imported or entered in the console stays as it is.

`sync.py` runs these steps for each book; `status.py` says how old each book's last synchronization is.
"""
