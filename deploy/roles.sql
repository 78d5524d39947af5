-- The roles of a Fencepost database. Run once as a superuser, before the first `fencepost migrate`; safe to run again.
-- Then give each role that logs in a password (\password fencepost_api, ...) and create the database:
--   CREATE DATABASE fencepost OWNER fencepost_migrate;
DO $$
DECLARE
  role text;
BEGIN
  -- migrate owns the tables; api, worker and events hold only what each needs; purge is for retention and erasure.
  FOREACH role IN ARRAY ARRAY['fencepost_migrate', 'fencepost_api', 'fencepost_worker', 'fencepost_events'] LOOP
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role) THEN
      EXECUTE format('CREATE ROLE %I LOGIN', role);
    END IF;
  END LOOP;
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'fencepost_purge') THEN
    CREATE ROLE fencepost_purge NOLOGIN;
  END IF;
END
$$;
