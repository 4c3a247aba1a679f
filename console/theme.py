"""django-unfold's settings: names, colours, navigation and scripts of the console."""

from django.templatetags.static import static
from django.urls import reverse_lazy

# Tailwind's indigo: white text on 600, and 400 on the dark background, pass WCAG's contrast ratio of 4.5.
_INDIGO = {
    "50": "oklch(96.2% .018 272.314)",
    "100": "oklch(93% .034 272.788)",
    "200": "oklch(87% .065 274.039)",
    "300": "oklch(78.5% .115 274.713)",
    "400": "oklch(67.3% .182 276.935)",
    "500": "oklch(58.5% .233 277.117)",
    "600": "oklch(51.1% .262 276.966)",
    "700": "oklch(45.7% .24 277.023)",
    "800": "oklch(39.8% .195 277.366)",
    "900": "oklch(35.9% .144 278.697)",
    "950": "oklch(25.7% .09 281.288)",
}
UNFOLD = {
    "SITE_TITLE": "Caller ID",
    "SITE_HEADER": "Caller ID",
    "SITE_SUBHEADER": "Console",
    "SITE_SYMBOL": "phone_in_talk",
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": lambda request: static("callerid/icon.svg")}],
    "BORDER_RADIUS": "6px",
    "SHOW_HISTORY": "core.admin.can_view_history",
    "COLORS": {"primary": _INDIGO},
    "SIDEBAR": {"navigation": "console.pages.sidebar"},
    "STYLES": [lambda request: static("callerid/console.css")],
    "SCRIPTS": [
        lambda request: static("callerid/charts.js"),
        lambda request: static("callerid/accessible.js"),
        lambda request: static("callerid/copy.js"),
        lambda request: static("callerid/lists.js"),
        lambda request: static("callerid/status.js"),
        lambda request: static("callerid/later.js"),
        lambda request: static("callerid/kept_form.js"),
    ],
    "DASHBOARD_CALLBACK": "console.dashboard.context",
    "ACCOUNT": {
        "navigation": [
            {"title": "Change password", "link": reverse_lazy("admin:password_change")},
            {"title": "Two-factor authentication", "link": reverse_lazy("admin:second_factor")},
        ]
    },
}
