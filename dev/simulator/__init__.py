"""A simulator of SES v2 for development and tests."""
