"""Errors of services about one of their arguments, which pages show at the field of this name."""


class FieldError(ValueError):
    """`field`: the name of the argument; empty if the error is about no single one."""

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field
