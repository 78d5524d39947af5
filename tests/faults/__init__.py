"""What Fencepost does while the infrastructure around it fails."""
