"""Traces to an OpenTelemetry collector, and error reports to Sentry: docs/monitoring.md."""
