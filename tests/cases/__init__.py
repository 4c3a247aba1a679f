"""Situations that people reported in public, rebuilt as small inputs: README.md."""
