"""All settings, each from an environment variable, with defaults for the embedded profile.

Two profiles, one code path. Embedded (no `DATABASE_URL`): SQLite and in-process counters, one process, keys generated
into the data directory. Production (`DATABASE_URL`, usually `REDIS_URL`): PostgreSQL and Redis, keys from the
environment. An invalid value raises ImproperlyConfigured at start, with what to write instead.
docs/settings.md lists every variable.
"""

import re
import ssl
from pathlib import Path

from csp.constants import NONE
from django.core.exceptions import ImproperlyConfigured

from callerid_project import databases, installation, keys, logging
from callerid_project.environment import Environment
from console import theme
from core import addons

BASE_DIR = Path(__file__).resolve().parent.parent
MANAGE_COMMAND = installation.manage_command(BASE_DIR)
env = Environment()

# --- Profile -----------------------------------------------------------------------------------------------------

DATABASE_URL = env.str("DATABASE_URL", "").strip()
REDIS_URL = env.redis("REDIS_URL")
EMBEDDED = not DATABASE_URL
if EMBEDDED:
    installation.refuse_sqlite_of_production(BASE_DIR, env.str("CALLERID_ENV_FILE", ""))
try:
    DATA_DIR = Path(env.str("CALLERID_DATA_DIR", "") or BASE_DIR / "var").expanduser().absolute()
except RuntimeError:
    raise ImproperlyConfigured("CALLERID_DATA_DIR starts with the home directory of an unknown user.") from None

# Set by asgi.py: the limits of the serving process do not apply to commands, such as imports and migrations.
SERVING = env.flag("CALLERID_SERVING", False)
# What this process answers: searches, pages (the console and everything else), or both.
SERVE = env.choice("SERVE", "all", "search", "console")
HOST = env.str("HOST", "127.0.0.1").strip("[]")
PORT = env.number("PORT", 8000, most=65_535)
MAX_RUNNING_SEARCHES = env.number("MAX_RUNNING_SEARCHES", 32, most=10_000)
MAX_WAITING_SEARCHES = env.number("MAX_WAITING_SEARCHES", 256, least=0, most=100_000)
BODY_TIMEOUT_S = env.number("BODY_TIMEOUT_S", 5.0, least=0.1, most=60)
# More than the 600 s for which Google's load balancers hold an idle connection: docs/proxy.md.
KEEP_ALIVE_S = env.number("KEEP_ALIVE_S", 620, most=86_400)
STOP_TIMEOUT_S = env.number("STOP_TIMEOUT_S", 5, most=3_600)
DB_POOL_SIZE = env.number("DB_POOL_SIZE", 8, most=1_000)
DB_PREPARE = env.flag("DB_PREPARE", True)
# While serving, a statement may use part of a search's deadline; migrations and imports have no limit.
DB_STATEMENT_TIMEOUT_MS = env.number("DB_STATEMENT_TIMEOUT_MS", 500 if SERVING else 0, least=0)

if EMBEDDED:
    _keys = keys.load_or_create(DATA_DIR, overrides=env.ENVIRON)
else:
    _keys = keys.from_environment(env.ENVIRON)
SECRET_KEY = _keys["SECRET_KEY"]
JWT_SIGNING_KEY = _keys["JWT_SIGNING_KEY"]
NUMBER_HASH_KEY = _keys["NUMBER_HASH_KEY"]
JWT_PREVIOUS_KEYS = env.items("JWT_PREVIOUS_KEYS")
keys.require_strong(_keys, JWT_PREVIOUS_KEYS)

# HOST as it appears in a URL on this machine, which cannot connect to a wildcard address everywhere.
URL_HOST = "127.0.0.1" if HOST in ("0.0.0.0", "::") else HOST  # noqa: S104
if ":" in URL_HOST:
    URL_HOST = f"[{URL_HOST}]"
# A leading '.' includes subdomains. '*' accepts every Host header, so it is never a default.
ALLOWED_HOSTS = env.hosts("ALLOWED_HOSTS", list(dict.fromkeys(["localhost", "127.0.0.1", "[::1]", URL_HOST])))
TRUSTED_PROXIES = env.number("TRUSTED_PROXIES", 0, least=0, most=100)
METRICS_NETWORKS = env.networks("METRICS_NETWORKS", ["127.0.0.0/8", "::1/128"])
ADMIN_PATH = env.str("ADMIN_PATH", "admin").strip().strip("/")
_RESERVED = ("callerid", "customer", "schema", "docs", "livez", "readyz", "metrics", "static")
if not re.fullmatch(r"[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)*", ADMIN_PATH) or ADMIN_PATH.partition("/")[0] in _RESERVED:
    raise ImproperlyConfigured(
        "ADMIN_PATH must consist of letters, digits, '-' and '_', with slashes between, and must not start with "
        f"{', '.join(_RESERVED[:-1])} or {_RESERVED[-1]}: for example ADMIN_PATH=back-office."
    )

# --- The search --------------------------------------------------------------------------------------------------

RATE_LIMIT = env.rate("RATE_LIMIT", "30/m")
TEST_RATE_LIMIT = env.rate("TEST_RATE_LIMIT", "30/m")
AUTH_FAILURE_RATE = env.rate("AUTH_FAILURE_RATE", "60/m")
ADMIN_LOGIN_RATE = (10, 60)
SEARCH_DEADLINE_S = env.number("SEARCH_DEADLINE_S", 1.5, least=0.05, most=60)
TOKEN_DAYS = env.number("TOKEN_DAYS", 365, most=36_500)
CHARGE_EMPTY = env.flag("CHARGE_EMPTY", True)
# If False, no vendor is called for a number that the numbering plan rules out, and an empty answer about it is free.
CHARGE_IMPOSSIBLE = env.flag("CHARGE_IMPOSSIBLE", True)
COMPLAINT_THRESHOLD = env.number("COMPLAINT_THRESHOLD", 2)
COMPLAINT_WINDOW_DAYS = env.number("COMPLAINT_WINDOW_DAYS", 90, most=36_500)
SOURCE_A = env.str("SOURCE_A", "directory,geography")
SOURCE_B = env.str("SOURCE_B", "complaints")
COMPLAINT_KEPT_DAYS = env.number("COMPLAINT_KEPT_DAYS", max(400, COMPLAINT_WINDOW_DAYS), most=36_500)
if COMPLAINT_KEPT_DAYS < COMPLAINT_WINDOW_DAYS:
    raise ImproperlyConfigured(
        "COMPLAINT_KEPT_DAYS is less than COMPLAINT_WINDOW_DAYS: complaints that still count would be deleted. "
        f"Set COMPLAINT_KEPT_DAYS={COMPLAINT_WINDOW_DAYS} or more, or leave it unset."
    )
COMPLAINT_STALE_DAYS = env.number("COMPLAINT_STALE_DAYS", 7, most=36_500)
# Of the names of places and countries, by load_numbering_plan.
PLACE_LANGUAGE = env("PLACE_LANGUAGE", default="en")
if not re.fullmatch("[a-z]{2}(_[A-Z][a-z]{3})?", PLACE_LANGUAGE):
    raise ImproperlyConfigured("PLACE_LANGUAGE must be a code of ISO 639-1, such as de, or zh_Hant.")
# The maximum time for which an answer of a vendor is cached, whatever its preset or class says.
# phonebook/cache_versions.py relies on it.
ANSWER_KEPT_AT_MOST_S = 365 * 24 * 3600
SOURCE_A_PRICE = env.prices("SOURCE_A_PRICE")
SOURCE_B_PRICE = env.prices("SOURCE_B_PRICE")
CURRENCY = env.str("CURRENCY", "USD")
CREDIT_PRICE = env.price("CREDIT_PRICE")
# Of a search, and of everything that is open without a login.
MAX_BODY_BYTES = 16 * 1024
PRESET_DIR = env.str("PRESET_DIR", "")
if PRESET_DIR and not Path(PRESET_DIR).is_dir():
    raise ImproperlyConfigured("PRESET_DIR must be a directory with presets, such as PRESET_DIR=/etc/callerid.")
CALL_LIFETIME_S = env.number("CALL_LIFETIME_S", 10.0, least=0.1, most=600)
CA_BUNDLE = env.str("CA_BUNDLE", "")
if CA_BUNDLE:
    try:
        ssl.create_default_context(cafile=CA_BUNDLE)
    except OSError as error:
        raise ImproperlyConfigured("CA_BUNDLE must be a file of PEM certificates, or unset.") from error

# --- Numbers without a country code (core.forms) -----------------------------------------------------------------

COUNTRY_CODE = env.digits("CALLERID_COUNTRY_CODE", most=3)
INTERNATIONAL_PREFIX = env.digits("CALLERID_INTERNATIONAL_PREFIX", "00", most=6)

# --- The console -------------------------------------------------------------------------------------------------

UNFOLD = theme.UNFOLD
REQUIRE_2FA = env.flag("REQUIRE_2FA", not EMBEDDED)
OTP_TOTP_ISSUER = theme.UNFOLD["SITE_TITLE"]
SUPPORT_CREDITS_PER_DAY = env.number("SUPPORT_CREDITS_PER_DAY", 1_000, least=0)
# What health checks call a problem.
ALERT_MIN_COUNT = env.number("ALERT_MIN_COUNT", 20)
ALERT_SLOW_MS = env.number("ALERT_SLOW_MS", min(2_500, max(1, round(800 * SEARCH_DEADLINE_S))), most=2_500)
ALERT_DEGRADED_PERCENT = env.number("ALERT_DEGRADED_PERCENT", 10.0, least=0.1, most=100)
ALERT_FAILED_PERCENT = env.number("ALERT_FAILED_PERCENT", 1.0, least=0.1, most=100)
# smtp+tls://user:password@host:587
vars().update(env.mail_server("EMAIL_URL"))
DEFAULT_FROM_EMAIL = env.str("EMAIL_FROM", "callerid@localhost")
EMAIL_IS_CONFIGURED = bool(env.str("EMAIL_URL", "") and env.str("EMAIL_FROM", ""))
# The start of links in e-mails: scheme and host, without a path.
PUBLIC_URL = env.origin("PUBLIC_URL")
# How long the link of an invitation works. Django's generator of links for passwords counts in seconds.
INVITATION_DAYS = env.number("INVITATION_DAYS", 3, most=30)
PASSWORD_RESET_TIMEOUT = INVITATION_DAYS * 24 * 3600

# --- Add-ons -----------------------------------------------------------------------------------------------------

ADDONS = addons.chosen(env.text("ADDONS"))
for _name in ADDONS:
    vars().update(addons.settings_of(_name, env))

# --- Applications and middleware ---------------------------------------------------------------------------------

INSTALLED_APPS = [
    "callerid_project.apps.ProjectConfig",
    "console.apps.ConsoleConfig",  # before unfold, some of whose templates it replaces
    "unfold.apps.BasicAppConfig",
    "console.apps.AdminConfig",
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
    *addons.apps(ADDONS),
    "monitoring",
    "lookup",
    "phonebook",
    "accounts",
    "core",
]
MIDDLEWARE = [
    "callerid_project.middleware.RequestMiddleware",
    "callerid_project.middleware.PolicyMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "callerid_project.middleware.BodyLimitMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django_otp.middleware.OTPMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "callerid_project.middleware.FieldLimitMiddleware",
    "django_ratelimit.middleware.RatelimitMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
FORM_RENDERER = "core.forms.FormRenderer"
CSRF_FAILURE_VIEW = "callerid_project.errors.csrf_failure"
ROOT_URLCONF = f"callerid_project.{'search_urls' if SERVING and SERVE == 'search' else 'urls'}"
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
# Served from the installed packages: there is no collectstatic step.
WHITENOISE_USE_FINDERS = True
USE_I18N = False
FORMAT_MODULE_PATH = "callerid_project.formats"
TIME_ZONE = "UTC"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
LOGIN_URL = "admin:login"
LOGIN_REDIRECT_URL = "admin:index"  # unlike Django's, unfold's login page has no `next` field
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}", "OPTIONS": options}
    for name, options in {
        "UserAttributeSimilarityValidator": {},
        "MinimumLengthValidator": {"min_length": 12},
        "CommonPasswordValidator": {},
        "NumericPasswordValidator": {},
    }.items()
]

# --- Databases and caches ----------------------------------------------------------------------------------------

# How long the serving process waits for PostgreSQL if the server's own limit has not ended the statement.
DB_MAX_WAIT_S = DB_STATEMENT_TIMEOUT_MS / 1000 + 0.25 if DB_STATEMENT_TIMEOUT_MS else None
if EMBEDDED:
    _database = databases.sqlite(
        DATA_DIR / "callerid.sqlite3", busy_timeout_s=env.number("SQLITE_TIMEOUT_S", 5 if SERVING else 20)
    )
else:
    _database = databases.postgresql(
        env.database("DATABASE_URL"),
        serving=SERVING,
        prepare=DB_PREPARE,
    )
DATABASES = {"default": _database}

CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"},
    # django-ratelimit's counters. Large enough for 100,000 addresses: culling would drop counters that still count.
    "rate_limits": {
        "BACKEND": "core.attempt_limits.RedisOrLocalCache"
        if REDIS_URL
        else "django.core.cache.backends.locmem.LocMemCache",
        "KEY_PREFIX": "callerid",
        "OPTIONS": {"MAX_ENTRIES": 100_000},
    },
}
RATELIMIT_USE_CACHE = "rate_limits"
RATELIMIT_VIEW = "console.login_limits.too_many_attempts"
RATELIMIT_IP_META_KEY = "core.client_address.client_address"
# How long Redis may take to answer. Then each process counts on its own, and tries Redis again after
# REDIS_RETRY_S.
REDIS_TIMEOUT_S = env.number("REDIS_TIMEOUT_S", 0.1, least=0.01, most=10)
REDIS_RETRY_S = 5.0

# --- REST framework and schema -----------------------------------------------------------------------------------

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": [],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "core.negotiation.IgnoreClientContentNegotiation",
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
    # Relative to the schema's own URL, so it is right behind every proxy.
    "SERVERS": [{"url": "/", "description": "This service"}],
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "SWAGGER_UI_SETTINGS": {"validatorUrl": None, "docExpansion": "full", "defaultModelsExpandDepth": 0},
}

# --- Security ----------------------------------------------------------------------------------------------------

# The strictest one, for JSON. Pages relax it (PolicyMiddleware).
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {"default-src": [NONE], "base-uri": [NONE], "form-action": [NONE], "frame-ancestors": [NONE]}
}
SILENCED_SYSTEM_CHECKS = [
    # A redirect to HTTPS comes after the token was sent in clear text: the proxy must refuse plain HTTP.
    "security.W008",
    # HSTS for subdomains and preloading are decisions about the operator's whole domain.
    "security.W005",
    "security.W021",
]
# Bodies are limited before anything parses them (asgi.py, BodyLimitMiddleware): this is the limit of the console, whose
# files are uploaded in parts. Everything else has MAX_BODY_BYTES.
DATA_UPLOAD_MAX_MEMORY_SIZE = 64 * 1024
# Counted from the login, not from the last request. A password change ends the session too.
SESSION_COOKIE_AGE = 12 * 3600
if not EMBEDDED:
    SESSION_COOKIE_SECURE = True
    CSRF_COOKIE_SECURE = True
    SECURE_HSTS_SECONDS = 365 * 24 * 3600
    if TRUSTED_PROXIES > 0:
        SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")

LOGGING_CONFIG = "callerid_project.logging.configure"
LOGGING = {
    "level": env.str("LOG_LEVEL", "INFO").strip().upper(),
    "format": env.str("LOG_FORMAT", logging.default_format()).strip(),
}
if LOGGING["level"] not in ("DEBUG", "INFO", "WARNING", "ERROR"):
    raise ImproperlyConfigured("LOG_LEVEL must be DEBUG, INFO, WARNING or ERROR.")
if LOGGING["format"] not in logging.FORMATTERS:
    raise ImproperlyConfigured("LOG_FORMAT must be text or json.")
