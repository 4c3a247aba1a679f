"""None: its content types alone are adopted."""
