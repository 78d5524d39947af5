"""The steps of a message, one file an activity."""
