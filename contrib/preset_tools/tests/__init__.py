#: For tests/cases.
KINDS = {"vendor_reply": "contrib.preset_tools.tests.kinds.vendor_reply"}
#: For tests/test_patterns.py.
WORST = {
    "contrib.preset_tools.management.commands.check_preset._BLANK_LINE": "\r\n",
    "contrib.preset_tools.management.commands.check_preset: HTTP/\\S+ ([1-5][0-9]{2})\\b.*": "HTTP/",
}
