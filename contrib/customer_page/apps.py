from core.addons import Addon


class CustomerPageAddon(Addon):
    name = "contrib.customer_page"
