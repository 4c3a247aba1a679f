-- Creates the roles and the database, once, as the server's administrator; may be repeated:
--     runuser -u postgres -- psql -v ON_ERROR_STOP=1 -f deploy/postgresql/database.sql
-- Then give each role that logs in with a password one that is not in a shell's history: \password callerid
SELECT format('CREATE ROLE %I LOGIN', role) AS "create the roles"
FROM unnest(ARRAY['callerid', 'callerid_serving', 'callerid_readonly']) AS role
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role) \gexec

-- Whatever the service does, the owner, replication and pg_rewind get a connection: PostgreSQL has 100 by default. A limit
-- that was set stays (docs/postgresql.md).
SELECT 'ALTER ROLE callerid_serving CONNECTION LIMIT 80' AS "limit the connections"
FROM pg_roles WHERE rolname = 'callerid_serving' AND rolconnlimit < 0 \gexec

-- PostgreSQL's log holds no phone numbers: errors without their statements, and without DETAIL and CONTEXT.
SELECT format('ALTER ROLE %I SET log_min_error_statement = %L', role, 'panic'),
       format('ALTER ROLE %I SET log_error_verbosity = %L', role, 'terse')
FROM unnest(ARRAY['callerid', 'callerid_serving', 'callerid_readonly']) AS role \gexec
ALTER ROLE callerid_readonly SET default_transaction_read_only = on;
ALTER ROLE callerid_readonly SET statement_timeout = '60s';

SELECT 'CREATE DATABASE callerid OWNER callerid ENCODING ''UTF8'' TEMPLATE template0' AS "create the database"
WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = 'callerid') \gexec
REVOKE CONNECT ON DATABASE callerid FROM PUBLIC;
GRANT CONNECT ON DATABASE callerid TO callerid_serving, callerid_readonly;
\connect callerid
-- For PostgreSQL 14, where everybody may create tables there.
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
GRANT CREATE ON SCHEMA public TO callerid;
