"""What add-ons add to the serving process."""

from core.hooks import Hook

#: Dotted names of modules with `urlpatterns`: pages outside the console.
URLS = Hook[str]()
#: Dotted paths of functions, called when the process starts, and before it ends. One that raises ImproperlyConfigured
#: at the start ends it.
ON_START, ON_STOP = Hook[str](), Hook[str]()
