"""The console's page that looks a number up as a search does: docs/console.md."""
