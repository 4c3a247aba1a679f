"""Files of other products, and published complaints: docs/importing.md."""
