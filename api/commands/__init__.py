"""The commands of `fencepost` that talk to the API, and what all commands share; `cli.py` puts them together."""
