"""What a message is, what may happen to it, and the SQL that makes it so."""
