-- The statements of package vcs.

-- fragment: ClientColumns
c.id, c.organization_id as organization, o.name as organization_name, c.name, c.service_provider, c.api_url, c.http_url, c.key, c.rsa_public_key, c.organization_scoped, c.created_at,
       array(select p.project_id from oauth_client_projects p join projects x on x.id = p.project_id and x.deleted_at is null where p.client_id = c.id order by p.project_id) as projects,
       array(select t.id from oauth_tokens t where t.client_id = c.id order by t.created_at, t.id) as tokens

-- fragment: LivingClients
oauth_clients c join organizations o on o.id = c.organization_id and o.deleted_at is null

-- name: Client
select {ClientColumns} from {LivingClients} where c.id = @id;

-- name: Clients
select {ClientColumns} from {LivingClients} where c.organization_id = @organization_id order by c.created_at, c.id limit @limit offset @offset;

-- name: ClientsCount
select count(*) from oauth_clients c where c.organization_id = @organization_id;

-- name: ClientInsert
insert into oauth_clients (id, organization_id, name, service_provider, api_url, http_url, key, rsa_public_key, secret_sealed, private_key_sealed, organization_scoped)
values (@id, @organization_id, nullif(@name::text, ''), @service_provider, @api_url, @http_url, coalesce(@key::text, ''), coalesce(@rsa_public_key::text, ''),
        @secret_sealed::bytea, @private_key_sealed::bytea, coalesce(@organization_scoped::boolean, true));

-- name: ClientUpdate
-- Only what is given changes.
update oauth_clients
   set name = case when @name::text is null then name else nullif(@name::text, '') end,
       key = coalesce(@key::text, key), rsa_public_key = coalesce(@rsa_public_key::text, rsa_public_key),
       secret_sealed = coalesce(@secret_sealed::bytea, secret_sealed), private_key_sealed = coalesce(@private_key_sealed::bytea, private_key_sealed),
       organization_scoped = coalesce(@organization_scoped::boolean, organization_scoped)
 where id = @id;

-- name: ClientDelete
delete from oauth_clients where id = @id;

-- name: ProjectsThere
select count(*) from projects where organization_id = @organization_id and id = any (@projects::text[]) and deleted_at is null;

-- name: ProjectsAdd
insert into oauth_client_projects (organization_id, client_id, project_id)
select @organization_id, @id, p from unnest(@projects::text[]) as p
on conflict do nothing;

-- name: ProjectsRemove
delete from oauth_client_projects where client_id = @id and project_id = any (@projects::text[]);

-- name: ProjectsClear
delete from oauth_client_projects where client_id = @id;

-- fragment: TokenColumns
t.id, t.client_id as client, t.organization_id as organization, t.ssh_key_sealed is not null as has_ssh_key, t.created_at

-- fragment: LivingTokens
oauth_tokens t join organizations o on o.id = t.organization_id and o.deleted_at is null

-- name: Token
select {TokenColumns} from {LivingTokens} where t.id = @id;

-- fragment: SelectedTokens
where t.organization_id = @organization_id and (@client_id::text = '' or t.client_id = @client_id)
   and (@provider::text = '' or exists (select from oauth_clients c where c.id = t.client_id and c.service_provider = @provider))

-- name: Tokens
select {TokenColumns} from {LivingTokens}
 {SelectedTokens} order by t.created_at, t.id limit @limit offset @offset;

-- name: TokensSome
select {TokenColumns} from {LivingTokens} where t.id = any (@ids::text[]) order by t.id;

-- name: TokensCount
select count(*) from oauth_tokens t {SelectedTokens};

-- name: TokenInsert
insert into oauth_tokens (id, organization_id, client_id, token_sealed) values (@id, @organization_id, @client_id, @token_sealed);

-- name: TokensClear
delete from oauth_tokens where client_id = @client_id;

-- name: TokenSSHKey
update oauth_tokens set ssh_key_sealed = @ssh_key_sealed where id = @id;

-- name: TokenDelete
delete from oauth_tokens where id = @id;
