URL = "/admin/revenue/"
OF_THE_SITE = {"revenue": URL, "revenue_last_month": f"{URL}last-month/"}
CONSOLE_PAGES = LONG_TEXT_PAGES = {"revenue": URL}
