from console import blocks, pages

PACKAGE = "contrib.revenue"
ROLES = "billing support operator auditor"

pages.SIDEBAR.add(
    pages.Place(
        "Tokens and credits",
        pages.Page("Revenue", "payments", "revenue", "accounts.view_creditentry", ROLES, "sales margin earned"),
        after="Ledger",
    )
)
pages.VIEWS.add(
    pages.View("revenue/", f"{PACKAGE}.views.view", "revenue"),
    pages.View("revenue/last-month/", f"{PACKAGE}.views.last_month", "revenue_last_month"),
)
blocks.BLOCKS.add(blocks.Block("revenue/money.html", f"{PACKAGE}.dashboard.money"))
