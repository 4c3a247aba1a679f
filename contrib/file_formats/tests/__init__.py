from tests.cases.kinds.files import contacts

#: For tests/cases.
KINDS = {"exported_contacts": contacts}
#: For tests/test_patterns.py.
WORST = {
    "contrib.file_formats.fritzbox._CONTROL": "&#x1",
    "contrib.file_formats.fritzbox._ENCODING": "encoding='a",
    "contrib.file_formats.google_csv._CITY": "address 1",
    "contrib.file_formats.google_csv._PHONE": "phone 1",
}
