-- +goose Up
-- The registry of modules and providers. Whatever is public in it is a record: its bytes are in a public registry.
create table registry_modules (
    id              text primary key,
    organization_id text not null references organizations,
    registry_name   text not null constraint registry_modules_registry check (registry_name in ('private', 'public')),
    namespace       text not null, -- empty in the private registry: there it is the name of the organization
    name            text not null,
    provider        text not null,
    no_code         boolean not null default false,
    created_at      timestamptz not null default clock_timestamp(),
    updated_at      timestamptz not null default clock_timestamp(),
    constraint registry_modules_address unique (organization_id, registry_name, namespace, name, provider),
    constraint registry_modules_namespace check ((registry_name = 'private') = (namespace = '')),
    unique (organization_id, id)
);

-- Versions sort by precedence, which is made of the version so that its bytes sort like it (semver 2.0.0, 11).
create table registry_module_versions (
    id              text primary key,
    organization_id text not null,
    module_id       text not null,
    version         text not null,
    precedence      text collate "C" not null,
    commit_sha      text not null default '',
    status          text not null default 'pending' constraint registry_module_versions_status check (status in ('pending', 'ok', 'failed')),
    error           text not null default '',
    object_id       text,
    installed_at    timestamptz, -- when somebody was first told where its bytes are; they do not change after that
    created_at      timestamptz not null default clock_timestamp(),
    updated_at      timestamptz not null default clock_timestamp(),
    constraint registry_module_versions_version unique (module_id, version),
    foreign key (organization_id, module_id) references registry_modules (organization_id, id) on delete cascade,
    foreign key (organization_id, object_id) references objects (organization_id, id),
    constraint registry_module_versions_ok check ((status = 'ok') = (object_id is not null))
);

-- Public keys that providers are signed with.
create table gpg_keys (
    id              text primary key,
    organization_id text not null references organizations,
    key_id          text not null, -- 16 capital hexadecimal digits
    ascii_armor     text not null, -- as it was sent
    created_at      timestamptz not null default clock_timestamp(),
    updated_at      timestamptz not null default clock_timestamp(),
    constraint gpg_keys_key unique (organization_id, key_id),
    unique (organization_id, id)
);

create table registry_providers (
    id              text primary key,
    organization_id text not null references organizations,
    registry_name   text not null constraint registry_providers_registry check (registry_name in ('private', 'public')),
    namespace       text not null, -- empty in the private registry
    name            text not null,
    created_at      timestamptz not null default clock_timestamp(),
    updated_at      timestamptz not null default clock_timestamp(),
    constraint registry_providers_namespace check ((registry_name = 'private') = (namespace = '')),
    unique (organization_id, id)
);
-- tofu asks for providers in small letters, whatever a configuration says.
create unique index registry_providers_address on registry_providers (organization_id, registry_name, lower(namespace), lower(name));
create index organizations_name_folded on organizations (lower(name)) where deleted_at is null;

create table registry_provider_versions (
    id                text primary key,
    organization_id   text not null,
    provider_id       text not null,
    version           text not null,
    precedence        text collate "C" not null,
    key_id            text not null, -- as it was said; whether there is such a key shows when the signature comes
    protocols         text[] not null,
    shasums_sealed    bytea,
    signature_sealed  bytea,
    gpg_key_id        text, -- the key by which the signature of these checksums was found good
    created_at        timestamptz not null default clock_timestamp(),
    updated_at        timestamptz not null default clock_timestamp(),
    constraint registry_provider_versions_version unique (provider_id, version),
    unique (organization_id, id),
    foreign key (organization_id, provider_id) references registry_providers (organization_id, id) on delete cascade,
    constraint registry_provider_versions_signer foreign key (organization_id, gpg_key_id) references gpg_keys (organization_id, id),
    constraint registry_provider_versions_signed check (gpg_key_id is null or (shasums_sealed is not null and signature_sealed is not null))
);
create index registry_provider_versions_signer on registry_provider_versions (gpg_key_id) where gpg_key_id is not null;

create table registry_provider_platforms (
    id              text primary key,
    organization_id text not null,
    version_id      text not null,
    os              text not null,
    arch            text not null,
    filename        text not null,
    shasum          text not null, -- as it was said; an upload that has another SHA-256 is refused
    object_id       text,
    created_at      timestamptz not null default clock_timestamp(),
    constraint registry_provider_platforms_platform unique (version_id, os, arch),
    foreign key (organization_id, version_id) references registry_provider_versions (organization_id, id) on delete cascade,
    foreign key (organization_id, object_id) references objects (organization_id, id)
);

create table registry_components (
    id              text primary key,
    organization_id text not null references organizations,
    name            text not null,
    created_at      timestamptz not null default clock_timestamp(),
    updated_at      timestamptz not null default clock_timestamp(),
    constraint registry_components_name unique (organization_id, name),
    unique (organization_id, id)
);

-- Pairs of key and value on one of them.
create table registry_tag_bindings (
    id              text primary key,
    organization_id text not null references organizations,
    module_id       text,
    provider_id     text,
    component_id    text,
    key             text not null,
    value           text not null,
    foreign key (organization_id, module_id) references registry_modules (organization_id, id) on delete cascade,
    foreign key (organization_id, provider_id) references registry_providers (organization_id, id) on delete cascade,
    foreign key (organization_id, component_id) references registry_components (organization_id, id) on delete cascade,
    constraint registry_tag_bindings_one check (num_nonnulls(module_id, provider_id, component_id) = 1)
);
create unique index registry_tag_bindings_module on registry_tag_bindings (module_id, key) where module_id is not null;
create unique index registry_tag_bindings_provider on registry_tag_bindings (provider_id, key) where provider_id is not null;
create unique index registry_tag_bindings_component on registry_tag_bindings (component_id, key) where component_id is not null;
