"""The naive peer: the search as tutorials teach it, on our tables. `startproject`'s settings, with the additions of
DRF's tutorial, django-ratelimit's README and Django's documentation of caches."""

import os
from urllib.parse import urlsplit

_database = urlsplit(os.environ["DATABASE_URL"])

SECRET_KEY = os.environ["SECRET_KEY"]
JWT_SIGNING_KEY = os.environ["JWT_SIGNING_KEY"]
NUMBER_HASH_KEY = os.environ["NUMBER_HASH_KEY"]
RATE_LIMIT = os.environ["RATE_LIMIT"]
DEBUG = False
ALLOWED_HOSTS = ["127.0.0.1"]
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "bench.peers.naive_drf",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
ROOT_URLCONF = "bench.peers.naive_drf.urls"
WSGI_APPLICATION = "bench.peers.naive_drf.wsgi.application"
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": _database.path.lstrip("/"),
        "USER": _database.username,
        "HOST": _database.hostname,
        "PORT": _database.port,
    }
}
CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": os.environ["REDIS_URL"]},
}
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
