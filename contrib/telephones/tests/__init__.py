#: For tests/cases.
KINDS = {"telephone_directory": "contrib.telephones.tests.kinds.telephone_directory"}
#: For tests/test_patterns.py.
WORST = {
    "contrib.telephones.directory._NOT_DISPLAYED": '"<',
    "contrib.telephones.directory._NUMBER": "2",
    "contrib.telephones.slapd_socket._ASSERTION": "(a=",
    "contrib.telephones.slapd_socket._ENTRY": "uid=1",
    "contrib.telephones.slapd_socket._ESCAPED": "\\a",
    "contrib.telephones.slapd_socket._NOT_IN_NUMBERS": "x",
}
