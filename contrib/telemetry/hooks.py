from callerid_project import hooks

PACKAGE = "contrib.telemetry"

# First and last, so that what other add-ons do then is reported and traced too.
hooks.ON_START.add(f"{PACKAGE}.error_reports.configure", f"{PACKAGE}.traces.configure", order=-1)
hooks.ON_STOP.add(f"{PACKAGE}.traces.close", f"{PACKAGE}.error_reports.close", order=1)
