-- compose.yaml: the passwords of its roles, from the environment of the PostgreSQL container, at its first start.
\getenv owner_password OWNER_PASSWORD
\getenv serving_password SERVING_PASSWORD
ALTER ROLE callerid PASSWORD :'owner_password';
ALTER ROLE callerid_serving PASSWORD :'serving_password';
