-- What the Compose file's Postgres begins with, after roles.sql: passwords, from the environment, and databases.
-- For psql, as a superuser, once.

-- A statement that fails would otherwise stand in the server's log, with the password in it.
SET log_min_error_statement = panic;

\getenv migrate_password MIGRATE_PASSWORD
\getenv api_password API_PASSWORD
\getenv worker_password WORKER_PASSWORD
\getenv events_password EVENTS_PASSWORD
\getenv temporal_password TEMPORAL_PASSWORD

ALTER ROLE fencepost_migrate PASSWORD :'migrate_password';
ALTER ROLE fencepost_api PASSWORD :'api_password';
ALTER ROLE fencepost_worker PASSWORD :'worker_password';
ALTER ROLE fencepost_events PASSWORD :'events_password';
CREATE ROLE temporal LOGIN PASSWORD :'temporal_password';

CREATE DATABASE fencepost OWNER fencepost_migrate;
CREATE DATABASE temporal OWNER temporal;
CREATE DATABASE temporal_visibility OWNER temporal;
