from callerid_project import hooks
from console import pages

hooks.URLS.add("contrib.customer_page.urls")
pages.EXTENSIONS.add(pages.Extension("accounts.customer", "contrib.customer_page.admin.LinkActions"))
