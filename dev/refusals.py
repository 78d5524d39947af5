"""The error that the one-machine stack answers a person with."""


class StartRefused(Exception):  # noqa: N818 - it is an answer to a person, not a fault of the program
    """Something here keeps the stack from starting; the text is one clear line that names the fix."""
