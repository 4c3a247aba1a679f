"""Whether the service is well: one list of checks (checks.py), which `doctor`, the dashboard and the alerts read."""
