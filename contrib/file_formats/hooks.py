from monitoring.hooks import CHECKS
from phonebook.imports import COMPLAINT_FORMATS, CONTACT_FORMATS, Format

PACKAGE = "contrib.file_formats"

CONTACT_FORMATS.add(
    Format("vcard", "vCard", f"{PACKAGE}.vcard"),
    Format("google", "Google Contacts CSV", f"{PACKAGE}.google_csv.GoogleReader"),
    Format("outlook", "CSV of Outlook, Thunderbird and others", f"{PACKAGE}.outlook_csv.OutlookReader"),
    Format("fritzbox", "FRITZ!Box phone book XML", f"{PACKAGE}.fritzbox"),
)
COMPLAINT_FORMATS.add(
    Format("ftc", "FTC Do Not Call CSV", f"{PACKAGE}.ftc_csv.FTCReader", "ftc", is_published=True),
    Format("fcc", "FCC unwanted calls CSV", f"{PACKAGE}.fcc_csv.FCCReader", "fcc", is_published=True),
    Format(
        *("phoneblock", "PhoneBlock block list JSON", f"{PACKAGE}.phoneblock", "phoneblock"),
        is_list=True,
        is_published=True,
    ),
)
CHECKS.add(f"{PACKAGE}.checks.COMPLAINT_DATA")
