-- +goose Up
-- The keys by which runs prove to others who they are. The newest signs; all that are here are published.
create table signing_keys (
    id             text primary key, -- the key's name in what it signs
    root_version   integer not null, -- of the root key that the private part is sealed under
    private_sealed bytea not null,
    public         bytea not null,   -- DER of PKIX
    created_at     timestamptz not null default clock_timestamp()
);
