-- +goose Up
-- Step-up: a user proves itself once more, by password and a second factor, and the token or
-- session that it did so with may do for a while what needs more than a stolen credential.

-- The stamp of the last step-up, and what the user proved itself by.
alter table tokens
    add column step_up_at     timestamptz,
    add column step_up_method text,
    add constraint tokens_step_up check ((step_up_at is null) = (step_up_method is null));
alter table sessions
    add column step_up_at     timestamptz,
    add column step_up_method text,
    add constraint sessions_step_up check ((step_up_at is null) = (step_up_method is null));

-- Somebody else took the user's factor away. The factor that follows is held back until it is
-- a day old or a second admin confirms.
alter table users
    add column totp_reset_at           timestamptz,
    add column totp_reset_by           text, -- the actor: a user's id, or the name of the server's operator
    add column totp_reset_confirmed_at timestamptz,
    add column totp_reset_confirmed_by text references users,
    add constraint users_totp_reset check ((totp_reset_at is null) = (totp_reset_by is null)),
    add constraint users_totp_reset_confirmed check ((totp_reset_confirmed_at is null) = (totp_reset_confirmed_by is null) and (totp_reset_confirmed_at is null or totp_reset_at is not null)),
    add constraint users_totp_reset_second_admin check (totp_reset_confirmed_by is distinct from totp_reset_by or totp_reset_confirmed_by is null);

-- The time-based one-time passwords (RFC 6238) of a user. Without confirmed_at it is only begun.
create table totp_factors (
    user_id       text primary key references users,
    root_version  integer not null, -- of the root key that the secret is sealed under
    secret_sealed bytea not null,
    last_step     bigint not null default 0, -- the time step of the last code that was accepted: none is accepted twice
    after_reset   boolean not null default false,
    created_at    timestamptz not null default clock_timestamp(),
    confirmed_at  timestamptz,
    constraint totp_factors_begun check (confirmed_at is not null or (last_step = 0 and not after_reset))
);

-- What stands in for a code when the device is lost. Only the digest is kept, and each is good once.
create table recovery_codes (
    user_id    text not null references totp_factors on delete cascade,
    hash       bytea not null constraint recovery_codes_hash_size check (octet_length(hash) = 32),
    used_at    timestamptz,
    primary key (user_id, hash)
);
