"""The search of the console, and its palette: docs/console.md."""
