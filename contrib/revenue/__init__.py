"""The console's page of revenue, and the dashboard's block about sales and costs: docs/revenue.md."""
