"""Formats of days and times in the console. Django prefers a language's formats to those in the settings."""

DATE_FORMAT = "Y-m-d"
DATETIME_FORMAT = "Y-m-d H:i:s"
