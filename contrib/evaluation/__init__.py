"""How good the verdicts and names of sources are: docs/evaluating-sources.md."""
