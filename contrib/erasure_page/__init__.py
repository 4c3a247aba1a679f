"""The console's page that erases the data of numbers: docs/personal-data.md."""
