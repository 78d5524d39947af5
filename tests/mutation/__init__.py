"""The mutation run: each guard of the protocol, taken out alone, makes a named test fail."""
