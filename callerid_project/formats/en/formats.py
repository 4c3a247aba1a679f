"""How the console writes days and times: Django takes a language's formats before those in the settings."""

DATE_FORMAT = "Y-m-d"
DATETIME_FORMAT = "Y-m-d H:i:s"
