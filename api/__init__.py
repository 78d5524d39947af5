"""HTTP in: intake, reading, health. No SQL."""
