#: For tests/cases.
KINDS = {"exported_contacts": "tests.cases.kinds.files.contacts"}
#: For tests/test_patterns.py.
WORST = {
    "contrib.file_formats.fritzbox._CONTROL": "&#x1",
    "contrib.file_formats.fritzbox._ENCODING": "encoding='a",
    "contrib.file_formats.google_csv._CITY": "address 1",
    "contrib.file_formats.google_csv._PHONE": "phone 1",
    "contrib.file_formats.vcard._BORDER": " END : ",
    "contrib.file_formats.vcard._ESCAPED": "\\",
    "contrib.file_formats.vcard._ESCAPED_21": "\\",
    "contrib.file_formats.vcard._FOLD": "\n",
    "contrib.file_formats.vcard._HEAD": '"a"',
    "contrib.file_formats.vcard._PARAMETER": ';"a"',
    "contrib.file_formats.vcard._COMPONENT": "\\",
    "contrib.file_formats.vcard._COMPONENT_21": "\\",
}
