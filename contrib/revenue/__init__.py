"""The console's page of revenue, and the dashboard's block about sales and margin: docs/revenue.md."""
