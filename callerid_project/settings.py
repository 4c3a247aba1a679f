"""All settings, each from the environment, each with a default for the embedded profile.

Two profiles, one code path. Embedded (no `DATABASE_URL`): SQLite and in-process counters, one process, keys generated
into the data directory. Production (`DATABASE_URL`, usually `REDIS_URL`): PostgreSQL and Redis, keys from the
environment. A value that cannot work raises ImproperlyConfigured here, at start, with what to write instead.
docs/settings.md lists every name.
"""

import re
import ssl
from pathlib import Path
from urllib.parse import urlsplit

from csp.constants import NONE
from django.core.exceptions import ImproperlyConfigured
from django.templatetags.static import static

from callerid_project import keys
from callerid_project.environment import Environment

BASE_DIR = Path(__file__).resolve().parent.parent
env = Environment()

# --- Profile -----------------------------------------------------------------------------------------------------

DATABASE_URL = env.str("DATABASE_URL", "").strip()
REDIS_URL = env.str("REDIS_URL", "").strip()
if REDIS_URL:
    try:
        _redis_ok = urlsplit(REDIS_URL).port != 0 and urlsplit(REDIS_URL).scheme in ("redis", "rediss", "unix")
    except ValueError:
        _redis_ok = False
    if not _redis_ok:
        raise ImproperlyConfigured("REDIS_URL must be redis://host:6379/0, or start with rediss:// or unix://.")
EMBEDDED = not DATABASE_URL
try:
    DATA_DIR = Path(env.str("CALLERID_DATA_DIR", "") or BASE_DIR / "var").expanduser().absolute()
except RuntimeError:
    raise ImproperlyConfigured("CALLERID_DATA_DIR names the home of a user whom this machine does not know.") from None

# Set by wsgi.py: the limits of the serving process do not hold for commands, such as imports and migrations.
SERVING = env.flag("CALLERID_SERVING", False)
HOST = env.str("HOST", "127.0.0.1")
PORT = env.number("PORT", 8000, most=65_535)
WORKERS = env.number("WORKERS", 1, most=1_000)
THREADS = env.number("THREADS", 4, most=1_000)
# At most THREADS requests of a process run at once, so many wait for their turn, so long; any more get 503.
MAX_QUEUED_REQUESTS = env.number("MAX_QUEUED_REQUESTS", 64, most=1_000)
QUEUE_TIMEOUT_S = env.number("QUEUE_TIMEOUT_S", 1.0, least=0.01, most=60)
PIN_WORKERS = env.flag("PIN_WORKERS", True)
DB_POOL_SIZE = env.number("DB_POOL_SIZE", 8, most=1_000)
DB_PREPARE = env.flag("DB_PREPARE", True)
# While serving, a statement may take a part of a search's deadline; migrations and imports may take their time.
DB_STATEMENT_TIMEOUT_MS = env.number("DB_STATEMENT_TIMEOUT_MS", 500 if SERVING else 0, least=0)
if WORKERS > 1 and not REDIS_URL:
    raise ImproperlyConfigured(
        "WORKERS is more than 1 but REDIS_URL is not set: processes must share their rate limits. "
        "Set REDIS_URL=redis://host:6379/0, or WORKERS=1."
    )

if EMBEDDED:
    _keys = keys.load_or_create(DATA_DIR, overrides=env.ENVIRON)
else:
    _keys = keys.from_environment(env.ENVIRON)
SECRET_KEY = _keys["SECRET_KEY"]
JWT_SIGNING_KEY = _keys["JWT_SIGNING_KEY"]
NUMBER_HASH_KEY = _keys["NUMBER_HASH_KEY"]
JWT_PREVIOUS_KEYS = env.words("JWT_PREVIOUS_KEYS", [])
keys.require_strong(_keys, JWT_PREVIOUS_KEYS)

DEBUG = False
# A '.' before a name admits its subdomains; '*' would admit every Host header, so it must be asked for by name.
# What it listens on is answered too, so that the address which ./run prints works; a wildcard is no such address.
_own_host = [] if HOST in ("0.0.0.0", "::", "[::]") else [f"[{HOST.strip('[]')}]" if ":" in HOST else HOST]  # noqa: S104
ALLOWED_HOSTS = env.words("ALLOWED_HOSTS", list(dict.fromkeys(["localhost", "127.0.0.1", "[::1]", *_own_host])))
# How many proxies of the operator's stand in front.
TRUSTED_PROXIES = env.number("TRUSTED_PROXIES", 0, least=0, most=100)
ADMIN_PATH = env.str("ADMIN_PATH", "admin").strip().strip("/")
_TAKEN = ("callerid", "schema", "docs", "livez", "readyz", "static")
if not re.fullmatch(r"[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)*", ADMIN_PATH) or ADMIN_PATH.partition("/")[0] in _TAKEN:
    raise ImproperlyConfigured(
        "ADMIN_PATH must be letters, digits, '-' and '_', with slashes between, and must not start with "
        f"{', '.join(_TAKEN[:-1])} or {_TAKEN[-1]}: for example ADMIN_PATH=back-office."
    )

# --- The search --------------------------------------------------------------------------------------------------

RATE_LIMIT = env.rate("RATE_LIMIT", "30/m")
AUTH_FAILURE_RATE = env.rate("AUTH_FAILURE_RATE", "60/m")
ADMIN_LOGIN_RATE = (10, 60)
SEARCH_DEADLINE_S = env.number("SEARCH_DEADLINE_S", 1.5, least=0.05, most=60)
TOKEN_DAYS = env.number("TOKEN_DAYS", 365, most=36_500)
CHARGE_EMPTY = env.flag("CHARGE_EMPTY", True)
COMPLAINT_THRESHOLD = env.number("COMPLAINT_THRESHOLD", 2)
COMPLAINT_WINDOW_DAYS = env.number("COMPLAINT_WINDOW_DAYS", 90, most=36_500)
SOURCE_A = env.str("SOURCE_A", "directory,geography")
SOURCE_B = env.str("SOURCE_B", "complaints")
COMPLAINT_KEPT_DAYS = env.number("COMPLAINT_KEPT_DAYS", max(400, COMPLAINT_WINDOW_DAYS), most=36_500)
if COMPLAINT_KEPT_DAYS < COMPLAINT_WINDOW_DAYS:
    raise ImproperlyConfigured(
        "COMPLAINT_KEPT_DAYS is less than COMPLAINT_WINDOW_DAYS: complaints would go that still count. "
        f"Set COMPLAINT_KEPT_DAYS={COMPLAINT_WINDOW_DAYS} or more, or leave it out."
    )
# No vendor's answer is kept longer, whatever its preset or class says: a year. lookup.marks counts on it.
ANSWER_KEPT_AT_MOST_S = 365 * 24 * 3600
# What a call to a vendor costs: one price for all remote members of a slot, or each its own. Local sources are free.
SOURCE_A_PRICE = env.prices("SOURCE_A_PRICE")
SOURCE_B_PRICE = env.prices("SOURCE_B_PRICE")
CURRENCY = env.str("CURRENCY", "USD")
MAX_BODY_BYTES = 16 * 1024
# A vendor's presets of the operator's own, how long a call to a vendor may live, and whom HTTPS trusts (a PEM file).
PRESET_DIR = env.str("PRESET_DIR", "")
if PRESET_DIR and not Path(PRESET_DIR).is_dir():
    raise ImproperlyConfigured("PRESET_DIR must name a folder that holds presets, such as PRESET_DIR=/etc/callerid.")
CALL_LIFETIME_S = env.number("CALL_LIFETIME_S", 10.0, least=0.1, most=600)
CA_BUNDLE = env.str("CA_BUNDLE", "")
if CA_BUNDLE:
    try:
        ssl.create_default_context(cafile=CA_BUNDLE)
    except OSError as error:
        raise ImproperlyConfigured("CA_BUNDLE must name a file of certificates in PEM, or be left out.") from error

# --- The console -------------------------------------------------------------------------------------------------

# Tailwind's indigo: white text on 600, and 400 on the dark background, pass WCAG's contrast of 4.5.
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
    "SITE_URL": "/",
    "SITE_SYMBOL": "phone_in_talk",
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": lambda request: static("callerid/icon.svg")}],
    "BORDER_RADIUS": "6px",
    "SHOW_HISTORY": "accounts.admin.base.may_view_history",
    "COLORS": {"primary": _INDIGO},
    "SIDEBAR": {"show_search": False, "navigation": "callerid_project.console.navigation"},
    "STYLES": [lambda request: static("callerid/console.css")],
    "SCRIPTS": [lambda request: static("callerid/charts.js")],
    "DASHBOARD_CALLBACK": "callerid_project.dashboard.context",
    "ACCOUNT": {"navigation": "callerid_project.console.account_links"},
}
# Whether staff without a second factor can only set one up. Whoever has one is always asked for a code.
REQUIRE_2FA = env.flag("REQUIRE_2FA", not EMBEDDED)
OTP_TOTP_ISSUER = UNFOLD["SITE_TITLE"]
# What a supporter may give to tokens in 24 hours, refunds included.
SUPPORT_CREDITS_PER_DAY = env.number("SUPPORT_CREDITS_PER_DAY", 1_000, least=0)
# Low-balance notices are written and sent only where this is on. EMAIL_URL: smtp+tls://user:password@host:587.
LOW_BALANCE_NOTICES = env.flag("LOW_BALANCE_NOTICES", False)
_email_url = env.str("EMAIL_URL", "")
if LOW_BALANCE_NOTICES and not (_email_url and env.str("EMAIL_FROM", "")):
    raise ImproperlyConfigured(
        "LOW_BALANCE_NOTICES is on, which needs a mail server and a sender, such as "
        "EMAIL_URL=smtp+tls://user:password@mail.example.org:587 and EMAIL_FROM=callerid@example.org."
    )
try:
    vars().update(env.email_url_config(_email_url) if _email_url else {})
except Exception:
    raise ImproperlyConfigured(
        "EMAIL_URL must be smtp+tls://user:password@host:587, or smtp:// or smtp+ssl://."
    ) from None
DEFAULT_FROM_EMAIL = env.str("EMAIL_FROM", "callerid@localhost")

# --- Applications and middleware ---------------------------------------------------------------------------------

INSTALLED_APPS = [
    "callerid_project.apps.ProjectConfig",
    "unfold.apps.BasicAppConfig",
    "callerid_project.apps.AdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "django_otp",
    "django_otp.plugins.otp_totp",
    "django_otp.plugins.otp_static",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "accounts",
    "lookup",
]
MIDDLEWARE = [
    "callerid_project.middleware.RequestMiddleware",
    "callerid_project.security_policy.Middleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "callerid_project.body_limit.BodyLimitMiddleware",
    "callerid_project.pages.Sessions",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "callerid_project.pages.Users",
    "callerid_project.pages.SecondFactors",
    "callerid_project.pages.Messages",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
CSRF_FAILURE_VIEW = "callerid_project.errors.csrf_failure"
ROOT_URLCONF = "callerid_project.urls"
WSGI_APPLICATION = "callerid_project.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
STATIC_URL = "/static/"
# Served straight from the packages that bring them: nothing to collect, nothing to go stale.
WHITENOISE_USE_FINDERS = True
LANGUAGE_CODE = "en-us"
USE_I18N = False
FORMAT_MODULE_PATH = "callerid_project.formats"
TIME_ZONE = "UTC"
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
LOGIN_URL = "admin:login"
LOGIN_REDIRECT_URL = "admin:index"  # unfold's login page does not say where to go next, as Django's does
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}", "OPTIONS": options}
    for name, options in {
        "UserAttributeSimilarityValidator": {},
        "MinimumLengthValidator": {"min_length": 12},
        "CommonPasswordValidator": {},
        "NumericPasswordValidator": {},
    }.items()
]

# --- Stores ------------------------------------------------------------------------------------------------------

if EMBEDDED:
    # Private from the start: SQLite gives its -wal and -shm files the same mode.
    try:
        (DATA_DIR / "callerid.sqlite3").touch(mode=0o600)
    except OSError as error:
        raise ImproperlyConfigured(
            f"Cannot use the database in {DATA_DIR}: {error.strerror}. Set CALLERID_DATA_DIR to a directory of yours."
        ) from error
    DATABASES = {
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": DATA_DIR / "callerid.sqlite3",
            "CONN_MAX_AGE": None,  # one connection a thread: opening it and its PRAGMAs cost more than a search
            "OPTIONS": {
                # recursive_triggers: what REPLACE deletes is deleted for the ledger's triggers too.
                # IMMEDIATE with a patient busy timeout: a write waits for its turn instead of "database is locked".
                "transaction_mode": "IMMEDIATE",
                "timeout": env.number("SQLITE_TIMEOUT_S", 5 if SERVING else 20),
                # secure_delete: what is deleted is overwritten in the file, whatever the SQLite library was built with.
                "init_command": (
                    "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA recursive_triggers=ON; "
                    "PRAGMA secure_delete=ON;"
                ),
            },
        }
    }
    DB_MAX_WAIT_S = None
else:
    # What the serving process waits at most for an answer, where the server's own limit has not ended the statement.
    DB_MAX_WAIT_S = DB_STATEMENT_TIMEOUT_MS / 1000 + 0.25 if SERVING and DB_STATEMENT_TIMEOUT_MS else None
    try:
        _database = env.db_url("DATABASE_URL")
    except Exception:
        _database = {}
    if _database.get("ENGINE") != "django.db.backends.postgresql":
        raise ImproperlyConfigured("DATABASE_URL must be postgres://user:password@host:5432/name.")
    _database["ENGINE"] = "accounts.postgresql"
    _database["OPTIONS"] = {
        # A server that has gone is detected after seconds, not the operating system's minutes.
        "connect_timeout": 2,
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 2,
        "tcp_user_timeout": 3000,
        **_database.get("OPTIONS", {}),
        # accounts.sql prepares what is worth it. psycopg would keep the texts of each connection's last hundred
        # statements for that, and Django's have values in them.
        "prepare_threshold": None,
    }
    if SERVING:
        # Threads that wait for a vendor hold no connection, so there may be fewer than threads; one more is for
        # /readyz and the statistics. All are made at once, for a pool grows by one at a time, which the first searches
        # would wait for. The pool's own threads make them, so a request waits `timeout` for one at most, whatever
        # connect_timeout says. One that cannot be made is tried again by the next request, not after a back-off of
        # minutes.
        _size = min(THREADS, DB_POOL_SIZE)
        _database["OPTIONS"]["pool"] = {
            "min_size": _size,
            "max_size": _size + 1,
            "timeout": DB_MAX_WAIT_S or 1.0,
            "reconnect_timeout": 1,
        }
    if not DB_PREPARE:  # nor is a cursor of the server's there in the next transaction
        _database["DISABLE_SERVER_SIDE_CURSORS"] = True
    DATABASES = {"default": _database}

CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"},
    # django-ratelimit's counters for failed authentications: room for 100,000 addresses, for culling drops counters.
    "brake": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "OPTIONS": {"MAX_ENTRIES": 100_000}},
}
if REDIS_URL:
    CACHES["brake_local"] = CACHES["brake"]
    CACHES["brake"] = {
        "BACKEND": "accounts.brake.RedisOrLocalCache",
        "LOCATION": REDIS_URL,
        "KEY_PREFIX": "callerid",
    }
RATELIMIT_USE_CACHE = "brake"
RATELIMIT_IP_META_KEY = "accounts.brake.client_address"
# The shared store has this long to answer; then a process counts alone and asks again after the pause.
REDIS_TIMEOUT_S = env.number("REDIS_TIMEOUT_S", 0.1, least=0.01, most=10)
REDIS_PAUSE_S = 5.0

# --- REST framework and schema ------------------------------------------------------------------------------

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [],
    "DEFAULT_PERMISSION_CLASSES": [],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["lookup.parsers.StrictJSONParser"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "lookup.negotiation.AlwaysJSON",
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "callerid_project.errors.exception_handler",
    "UNAUTHENTICATED_USER": None,
    "URL_FORMAT_OVERRIDE": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Caller ID",
    "DESCRIPTION": "Who is calling? What two independent sources know about a phone number.",
    "VERSION": "1.0.0",
    "LICENSE": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
    # Relative to where the schema was read: true behind every proxy.
    "SERVERS": [{"url": "/", "description": "This service"}],
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": [],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "SWAGGER_UI_SETTINGS": {"validatorUrl": None, "docExpansion": "full", "defaultModelsExpandDepth": 0},
}

# --- Security ----------------------------------------------------------------------------------------------------

# The strictest one, for JSON. The pages have their own: callerid_project/security_policy.py.
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {"default-src": [NONE], "base-uri": [NONE], "form-action": [NONE], "frame-ancestors": [NONE]}
}
SILENCED_SYSTEM_CHECKS = [
    # Redirecting a POST to HTTPS would come after the token was sent in clear: the proxy must refuse plain HTTP.
    "security.W008",
    # Whether the operator's other hosts speak HTTPS, or want a browser's preload list, is not ours to say.
    "security.W005",
    "security.W021",
]
# No form has a file, and the CSRF check reads bodies before anybody has logged in: a file is 400, a body of more than
# 1 MiB is 413 (BodyLimitMiddleware). The search has MAX_BODY_BYTES.
DATA_UPLOAD_MAX_NUMBER_FILES = 0
DATA_UPLOAD_MAX_MEMORY_SIZE = 1024 * 1024
# A login lasts so long, however busy; it ends before when the password is changed.
SESSION_COOKIE_AGE = 12 * 3600
if not EMBEDDED:
    SESSION_COOKIE_SECURE = True
    CSRF_COOKIE_SECURE = True
    SECURE_HSTS_SECONDS = 365 * 24 * 3600
    if TRUSTED_PROXIES > 0:
        SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")

LOGGING_CONFIG = "callerid_project.logging.configure"
LOGGING = {"level": env.str("LOG_LEVEL", "INFO").strip().upper()}
if LOGGING["level"] not in ("DEBUG", "INFO", "WARNING", "ERROR"):
    raise ImproperlyConfigured("LOG_LEVEL must be DEBUG, INFO, WARNING or ERROR.")
