import os

from django.core.wsgi import get_wsgi_application

os.environ["DJANGO_SETTINGS_MODULE"] = "bench.peers.naive_drf.settings"

application = get_wsgi_application()
