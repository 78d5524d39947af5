"""The one-machine stack and the SES simulator. Never imported by the product."""
