"""Tests that need Debian packages or root; run by `make test-host`."""
