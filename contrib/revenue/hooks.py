from console import blocks, pages

PACKAGE = "contrib.revenue"
VIEW = "accounts.view_creditentry"
ROLES = "billing support operator auditor"

pages.SIDEBAR.add(
    pages.Place(
        "Tokens and credits",
        pages.Page("Revenue", "payments", "revenue", VIEW, ROLES, "sales margin earned"),
        after="Ledger",
    )
)
pages.VIEWS.add(
    pages.View("revenue/", f"{PACKAGE}.views.view", "revenue", VIEW),
    pages.View("revenue/last-month/", f"{PACKAGE}.views.last_month", "revenue_last_month", VIEW),
)
blocks.BLOCKS.add(blocks.Block("revenue/money.html", f"{PACKAGE}.dashboard.money"))
