"""The service with short time limits of HTTP: `python -m tests.impatient_server`."""

from callerid_project import http_protocol
from callerid_project.serve import main

if __name__ == "__main__":
    http_protocol.HEADER_TIMEOUT_S = 0.5
    main()
