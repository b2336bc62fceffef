-- +goose Up
-- Who is signed in to the web pages, what a client may log in with, and who guesses passwords.

-- A session is stored as the SHA-256 of the secret in its cookie.
create table sessions (
    hash       bytea primary key constraint sessions_hash_size check (octet_length(hash) = 32),
    user_id    text not null references users,
    created_at timestamptz not null default clock_timestamp(),
    seen_at    timestamptz not null default clock_timestamp(),
    ended_at   timestamptz
);
create index sessions_user on sessions (user_id);

-- A code is what a client takes from the browser and exchanges for a token. It is spent by its
-- first use, right or wrong; the row stays so that a second use is seen.
create table login_codes (
    hash         bytea primary key constraint login_codes_hash_size check (octet_length(hash) = 32),
    session      bytea not null references sessions on delete cascade,
    client       text not null,
    redirect_uri text not null,
    challenge    text not null,
    description  text not null,
    created_at   timestamptz not null default clock_timestamp(),
    used_at      timestamptz,
    token_id     text references tokens,
    constraint login_codes_token check (token_id is null or used_at is not null)
);
create index login_codes_session on login_codes (session);

-- Attempts to sign in, counted by whose account they are about and by where they come from.
-- The subject is a SHA-256, so that the table lists neither names that do not exist nor addresses.
create table sign_in_attempts (
    subject    bytea primary key constraint sign_in_attempts_subject_size check (octet_length(subject) = 32),
    since      timestamptz not null default clock_timestamp(),
    attempts   integer not null
);
create index sign_in_attempts_since on sign_in_attempts (since);
