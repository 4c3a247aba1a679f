"""Benchmarks. Each command starts its own servers; `--help` describes what it measures.

- `search`: a search's rate, latency and CPU, next to other services and pgbench
- `servers`: uvicorn and granian
- `overload`: many times the saturation rate, and slow clients
- `vendors`: searches whose vendors are slow or faulty
- `growth`: large tables, and the memory of a process over time
- `imports`: imports next to plain SQL, and searches during an import
- `console`: the console's pages with a large ledger
- `startup`: commands and the server's start
- `instructions`: CPU instructions of a search (valgrind)
"""
