-- What the serving role and the read-only role may do. Run it as the owner after each `migrate`, because new tables need
-- it too: callerid --owner dbshell -- -v ON_ERROR_STOP=1 -f /opt/callerid/deploy/postgresql/grants.sql
BEGIN;
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public TO callerid_serving;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO callerid_serving;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO callerid_serving;
-- The ledger accepts new entries, and `forget` may clear a number's hash.
REVOKE UPDATE, DELETE ON accounts_creditentry FROM callerid_serving;
GRANT UPDATE (number_hash) ON accounts_creditentry TO callerid_serving;
-- Tokens and users are never deleted.
REVOKE DELETE ON accounts_apitoken, auth_user FROM callerid_serving;
-- The history accepts new entries, and `forget` may remove a number from the object of one; who did what, and when, stays.
REVOKE UPDATE, DELETE ON django_admin_log FROM callerid_serving;
GRANT UPDATE (object_id, object_repr) ON django_admin_log TO callerid_serving;
REVOKE INSERT, UPDATE, DELETE ON django_migrations FROM callerid_serving;

-- Reports read statistics and the ledger: no password, authenticator secret, session, contact or complaint.
GRANT USAGE ON SCHEMA public TO callerid_readonly;
GRANT SELECT ON accounts_searchhour, monitoring_sourcehour, accounts_creditentry TO callerid_readonly;
GRANT SELECT (id, name, is_test, credits) ON accounts_apitoken TO callerid_readonly;
COMMIT;
