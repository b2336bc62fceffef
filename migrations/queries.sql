-- name: MinServer
select min_server from schema_compatibility;
