from phonebook.imports import CONTACT_FORMATS, Format

PACKAGE = "contrib.file_formats"

CONTACT_FORMATS.add(
    Format("vcard", "vCard", "phonebook.imports.readers.vcard"),
    Format("google", "Google Contacts CSV", f"{PACKAGE}.google_csv.GoogleReader"),
    Format("outlook", "CSV of Outlook, Thunderbird and others", f"{PACKAGE}.outlook_csv.OutlookReader"),
    Format("fritzbox", "FRITZ!Box phone book XML", f"{PACKAGE}.fritzbox"),
)
