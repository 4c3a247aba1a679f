"""The service with short time limits of HTTP: `python -m tests.impatient_server`."""

from callerid_project import http_protocol, serve

if __name__ == "__main__":
    http_protocol.HEADER_TIMEOUT_S = 0.5
    http_protocol.WRITE_TIMEOUT_S = 3.0
    serve.UNREAD_TIMEOUT_S = 1
    serve.main()
