"""Where the admin keeps what is known about numbers."""

NUMBER = 493023125042
RULES = "/admin/lookup/numberrule/"
CONTACTS = "/admin/lookup/contact/"
COMPLAINTS = "/admin/lookup/complaintday/"
