"""What follows what, as Temporal workflows: deterministic, without SQL, HTTP or boto3."""
