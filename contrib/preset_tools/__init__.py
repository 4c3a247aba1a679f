"""Commands that list and check presets: docs/presets.md."""
