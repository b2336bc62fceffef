-- +goose Up
-- What an attempt was given and what it redeemed, kept so that a repeat is answered alike and a forgery is not.

alter table attempts
    add column execution_nonce text not null default '', -- f(run, attempt), fixed by accept
    add column accept_digest   text not null default '', -- of the accepted acceptance
    add column start_digest    text not null default ''; -- of the redeemed apply-start

-- One session an attempt. Its bootstrap capability is redeemed once; the token itself is derived, not stored.
create table attempt_sessions (
    jti                  text primary key,
    attempt_id           text not null constraint attempt_sessions_one unique references attempts,
    phase                text not null,
    sandbox_id           text not null,
    bootstrap_expires_at timestamptz not null,
    redeemed_at          timestamptz,
    redemption_digest    text not null default '',
    constraint attempt_sessions_redeemed_whole check ((redeemed_at is null) = (redemption_digest = ''))
);

-- The primary that this installation trusts. Another one may have lost what was acknowledged.
create table database_identity (
    singleton         boolean primary key default true constraint database_identity_singleton check (singleton),
    system_identifier text not null,
    timeline          bigint not null,
    noted_at          timestamptz not null default clock_timestamp(),
    suspect_since     timestamptz -- the primary is another one, and nothing is dispatched until what applies is proved again or held
);
