-- fragment: AttemptColumns
a.id, a.organization_id, a.workspace_id, a.run_id, a.phase, a.status, a.fence_epoch, coalesce(a.runner_id, '') as runner_id, coalesce(a.group_id, '') as group_id,
    a.assignment_expires_at, a.accepted_at, a.sandbox_id, a.token_expires_at, a.manifest, a.manifest_digest, a.heartbeat_at, a.stop_requested_at,
    a.apply_started_at, a.tofu_version, coalesce(a.state_confirmed_id, '') as state_confirmed_id, a.exit_code, a.outcome, a.done_digest, a.errored_state, a.log_size,
    coalesce(a.log_object_id, '') as log_object_id, a.execution_nonce, a.accept_digest, a.start_digest, a.runner_version, a.runner_digest, a.start_denied_at,
    coalesce((select s.jti from attempt_sessions s where s.attempt_id = a.id), '') as jti, a.json_log, a.json_log_size, coalesce(a.json_log_object_id, '') as json_log_object_id, a.log_truncated, a.created_at, a.finished_at

-- fragment: Demand
json_build_object('organization', made.organization_id, 'pool', coalesce(made.pool_id, ''), 'version', made.tofu_version, 'selector', made.selector)

-- fragment: ScopeAllows
-- Whether the workspace w is within the scope of the group g.
(g.organization_scoped
 or exists (select from runner_group_workspaces s where s.group_id = g.id and s.workspace_id = w.id and s.allowed)
 or exists (select from runner_group_projects s where s.group_id = g.id and s.project_id = w.project_id))
and not exists (select from runner_group_workspaces s where s.group_id = g.id and s.workspace_id = w.id and not s.allowed)

-- fragment: Fits
-- Subqueries that the planner cannot turn into joins: the index gives the order, and a few rows are enough. It takes <@ for
-- nearly always false and would read and sort the whole table; of coalesce it expects nothing.
and a.tofu_version = any (@versions::text[]) and coalesce(a.selector <@ @labels::text[], false)
                and (@everywhere::boolean
                     or ((@scoped::boolean
                          or (select count(*) from runner_group_workspaces s where s.group_id = @group_id and s.workspace_id = a.workspace_id and s.allowed) > 0
                          or (select count(*) from runner_group_projects s, workspaces w where s.group_id = @group_id and w.id = a.workspace_id and w.project_id = s.project_id) > 0)
                         and (select count(*) from runner_group_workspaces s where s.group_id = @group_id and s.workspace_id = a.workspace_id and not s.allowed) = 0))

-- name: Create
-- Who may execute it is settled here, from the workspace as it is now. The answer tells whom to wake.
with made as (
    insert into attempts (id, organization_id, workspace_id, run_id, round, phase, fence_epoch, tofu_version, speculative, pool_id, selector)
    select @id, @organization_id, w.id, @run_id, coalesce((select round from runs where id = @run_id), 1), @phase, @fence_epoch, @tofu_version, @speculative,
           case when w.execution_mode = 'agent' then w.agent_pool_id end, w.runner_selector
      from workspaces w where w.id = @workspace_id
    returning organization_id, pool_id, tofu_version, selector)
select {Demand}::text as demand from made;

-- name: Demand
select {Demand}::text from attempts made where made.id = any (@ids::text[]);

-- name: Waiting
-- What the pending attempts ask for, each kind once.
select distinct organization_id as organization, coalesce(pool_id, '') as pool, tofu_version, selector from attempts where status = 'pending';

-- name: SeeRunner
-- The runner, the versions of its group, and to the minute the use of its token: a poll is no reason for more writes.
with seen as (
    insert into runners (id, group_id, name, token_id, labels, tofu_versions, ip_address)
    values (@id, @group_id, @name, nullif(@token_id::text, ''), @labels, @versions, @ip_address)
    on conflict (id) do update
       set last_seen_at = clock_timestamp(), name = excluded.name, token_id = excluded.token_id, labels = excluded.labels,
           tofu_versions = excluded.tofu_versions, ip_address = excluded.ip_address
     where runners.group_id = @group_id
    returning id, xmax = 0 as made
), versions as (
    insert into runner_group_versions (group_id, version)
    select @group_id, v from unnest(@versions::text[]) as v where not exists (select from runner_group_versions where group_id = @group_id and version = v)
    on conflict do nothing
), used as (
    update runner_tokens set last_used_at = clock_timestamp()
     where id = @token_id and (last_used_at is null or last_used_at < clock_timestamp() - interval '1 minute'))
select id, made from seen;

-- name: ForgetRunners
-- Those that ended without a word a day ago.
delete from runners r where r.group_id = @group_id and r.last_seen_at < clock_timestamp() - interval '1 day'
   and not exists (select from attempts a where a.runner_id = r.id and a.status in ('assigned', 'running'));

-- name: MustEnd
select exists (select from runners where id = @id and draining_since is not null);

-- name: Versions
-- All versions that some group taking remote runs of the organization can execute.
select distinct v.version from runner_group_versions v join runner_groups g on g.id = v.group_id
 where g.deleted_at is null and g.takes_remote and (g.organization_id is null or g.organization_id = @organization_id);

-- name: VersionsFor
-- All versions that runners can execute who may take the attempts of a workspace.
select distinct v.version
  from workspaces w, runner_group_versions v
  join runner_groups g on g.id = v.group_id
 where w.id = @workspace_id and g.deleted_at is null
   and case when w.execution_mode = 'agent' then g.id = w.agent_pool_id else g.takes_remote and (g.organization_id is null or g.organization_id = w.organization_id) end
   and {ScopeAllows}
   and (w.runner_selector <@ g.labels
        or exists (select from runners r where r.group_id = g.id and v.version = any (r.tofu_versions) and w.runner_selector <@ (g.labels || r.labels)));

-- name: Standing
-- What decides what a runner may be offered, as it is now; no row when it may be offered nothing.
select coalesce(g.organization_id, '') as organization, g.takes_remote, g.labels, g.organization_scoped as scoped,
       g.organization_scoped and not exists (select from runner_group_workspaces s where s.group_id = g.id and not s.allowed) as everywhere
  from runner_groups g
 where g.id = @group_id and g.deleted_at is null and g.draining_since is null
   and not exists (select from runners r where r.id = @runner_id and r.draining_since is not null);

-- name: Claim
-- The turn goes round the organizations that have fitting work: first to applies, wherever they are, else to the organization
-- whose last turn is longest ago. Within one it is apply, plan, speculative plan, the oldest first. Each organization brings a
-- few candidates, so that claims at the same moment pass over each other's without waiting: they are tried in their order, one
-- row after the other, until one is not locked. contended: there was work, and others had it locked.
with recursive organizations (id) as (
    (select organization_id from attempts where status = 'pending' and pool_id is null and @takes_remote::boolean and @organization::text = '' order by organization_id limit 1)
    union all
    select (select a.organization_id from attempts a where a.status = 'pending' and a.pool_id is null and a.organization_id > o.id order by a.organization_id limit 1)
      from organizations o where o.id is not null
), open_to as materialized (
    select o.id, coalesce((select t.claim_seq from attempts t where t.organization_id = o.id and t.claim_seq is not null order by t.claim_seq desc limit 1), 0) as last_turn
      from (select id from organizations where id is not null union all select @organization where @takes_remote and @organization <> '') o
     where o.id not in (select c.organization_id from closed_organizations c)
), candidates as materialized (
    select c.id, c.organization_id, c.phase, c.speculative, c.created_at, o.last_turn from open_to o cross join lateral (
           select a.id, a.organization_id, a.phase, a.speculative, a.created_at from attempts a
            where a.status = 'pending' and a.pool_id is null and a.organization_id = o.id
                {Fits}
            order by a.phase <> 'apply', a.speculative, a.created_at, a.id limit (select greatest(4, 64 / greatest(count(*), 1)) from open_to)) c
    union all
    (select a.id, a.organization_id, a.phase, a.speculative, a.created_at, 0 from attempts a
      where a.status = 'pending' and a.pool_id = @group_id
        and not exists (select from closed_organizations c join runner_groups g on g.organization_id = c.organization_id where g.id = @group_id)
                {Fits}
      order by a.phase <> 'apply', a.speculative, a.created_at, a.id limit 64)
), ranked as (
    select c.id, c.phase, c.created_at, c.last_turn, row_number() over (partition by c.organization_id order by c.phase <> 'apply', c.speculative, c.created_at, c.id) as place from candidates c
), taken as (
    update attempts a
       set status = 'assigned', runner_id = @runner_id, group_id = @group_id, claim_seq = nextval('attempt_claims'),
           assignment_expires_at = clock_timestamp() + make_interval(secs => @expiry_seconds::double precision)
     where a.status = 'pending' and a.id = (
           select p.id from (select id from ranked order by phase <> 'apply', place, last_turn, created_at, id) r
            cross join lateral (select a.id from attempts a where a.id = r.id and a.status = 'pending' for update skip locked) p
            limit 1)
    returning a.id)
select coalesce((select id from taken), '') as id, exists (select from candidates) as contended;

-- name: StillOpen
-- Whether the group may be offered something: asked after a claim, so that nothing is given to a token that was revoked meanwhile.
select g.draining_since is null and r.draining_since is null as open
  from runner_tokens t join runner_groups g on g.id = t.group_id join runners r on r.group_id = g.id
 where t.id = @token_id and t.revoked_at is null and g.id = @group_id and g.deleted_at is null and r.id = @runner_id
   for share of t, g;

-- name: Get
select {AttemptColumns}
  from attempts a where a.id = @id;

-- name: Lock
select {AttemptColumns}
  from attempts a where a.id = @id for update;

-- name: OfRun
-- Attempts of the rounds before a requeue are kept, and are not the run's any more.
select {AttemptColumns}
  from attempts a join runs r on r.id = a.run_id and r.round = a.round
 where a.run_id = @run_id and a.phase = @phase order by a.created_at desc, a.id limit 1;

-- name: Offered
select {AttemptColumns}
  from attempts a where a.runner_id = @runner_id and a.group_id = @group_id and a.status = 'assigned' and a.assignment_expires_at > clock_timestamp()
 order by a.created_at, a.id limit 1;

-- name: Unclaim
update attempts set status = 'pending', runner_id = null, group_id = null, assignment_expires_at = null
 where id = @id and status = 'assigned' and runner_id = @runner_id;

-- name: GiveBack
-- What runners were offered and never accepted: of one runner, of those who came with a token, or of a whole group.
update attempts set status = 'pending', runner_id = null, group_id = null, assignment_expires_at = null
 where status = 'assigned' and (runner_id = @runner_id or runner_id in (select id from runners where token_id = @token_id) or group_id = @whole_group_id)
returning id;

-- name: DrainRunner
update runners set draining_since = coalesce(draining_since, clock_timestamp()) where id = @id;

-- fragment: Agents
select r.id, r.name, r.group_id as "group", coalesce(g.organization_id, '') as organization, r.ip_address, r.last_seen_at, r.created_at, r.draining_since is not null as draining,
    g.labels || r.labels as labels, r.tofu_versions,
    case when exists (select from attempts a where a.runner_id = r.id and a.status in ('assigned', 'running')) then 'busy'
         when r.last_seen_at > clock_timestamp() - interval '2 minutes' then 'idle' else 'unknown' end as status
  from runners r join runner_groups g on g.id = r.group_id and g.deleted_at is null

-- name: AgentByID
{Agents} where r.id = @id;

-- fragment: SelectedAgents
where r.group_id = @group_id and (@since::timestamptz is null or r.last_seen_at >= @since)

-- name: AgentsOf
{Agents} {SelectedAgents}
 order by case when @newest_first::boolean then r.created_at end desc, r.created_at, r.id limit @limit offset @offset;

-- name: AgentsCount
select count(*) from runners r {SelectedAgents};

-- name: AssignmentOpen
select assignment_expires_at > clock_timestamp() from attempts where id = @id;

-- name: Ready
update runners set status = 'ready', last_seen_at = clock_timestamp() where id = @id and group_id = @group_id;

-- name: RunnerStatus
select status from runners where id = @id and group_id = @group_id;

-- name: Deregister
delete from runners where id = @id and group_id = @group_id;

-- name: Accept
update attempts
   set status = 'running', accepted_at = clock_timestamp(), heartbeat_at = clock_timestamp(), sandbox_id = @sandbox_id, json_log = @json_log,
       execution_nonce = @execution_nonce, accept_digest = @accept_digest, runner_version = @runner_version, runner_digest = @runner_digest,
       token_expires_at = date_trunc('second', clock_timestamp()) + make_interval(secs => @authority_seconds::double precision)
 where id = @id and status = 'assigned' and runner_id = @runner_id;

-- name: FixManifest
update attempts set manifest = @manifest, manifest_digest = @manifest_digest where id = @id and status = 'running' and manifest is null;

-- name: OpenSession
insert into attempt_sessions (jti, attempt_id, phase, sandbox_id, bootstrap_expires_at, redeemed_at, redemption_digest)
values (@jti, @attempt_id, @phase, @sandbox_id, date_trunc('second', clock_timestamp()) + make_interval(secs => @lifetime_seconds::double precision),
    case when @redemption_digest <> '' then clock_timestamp() end, @redemption_digest);

-- name: BootstrapGet
select jti, attempt_id, phase, sandbox_id, bootstrap_expires_at, bootstrap_expires_at > clock_timestamp() as open, redeemed_at, redemption_digest
  from attempt_sessions where attempt_id = @attempt_id;

-- name: Redeem
update attempt_sessions set redeemed_at = clock_timestamp(), redemption_digest = @redemption_digest
 where jti = @jti and redeemed_at is null;

-- name: Session
-- Everything an attempt's token stands for; live while its attempt runs and its authority lasts.
select a.id, a.organization_id, a.workspace_id, a.run_id, a.phase, a.status, a.sandbox_id, coalesce(a.fence_epoch, 0) as fence_epoch,
    coalesce(r.predecessor_version_id, '') as predecessor_version_id, a.apply_started_at is not null as applying,
    coalesce(a.token_expires_at > clock_timestamp(), false) as live, coalesce(s.jti, '') as jti
  from attempts a join runs r on r.id = a.run_id
  left join attempt_sessions s on s.attempt_id = a.id and s.redeemed_at is not null and s.sandbox_id = a.sandbox_id and s.phase = a.phase
 where a.id = @id;

-- name: Heartbeat
update attempts set heartbeat_at = clock_timestamp() where id = @id and status = 'running'
returning stop_requested_at is not null;

-- name: RequestStop
update attempts set stop_requested_at = coalesce(stop_requested_at, clock_timestamp()) where id = @id and status = 'running';

-- name: DenyStart
update attempts set start_denied_at = clock_timestamp() where id = @id and status = 'running' and apply_started_at is null;

-- name: Return
-- An offer that a gate withdrew before it was accepted.
update attempts set status = 'pending', runner_id = null, group_id = null, assignment_expires_at = null where id = @id and status = 'assigned';

-- name: StartApply
update attempts set apply_started_at = clock_timestamp(), start_digest = @start_digest where id = @id and status = 'running' and phase = 'apply' and apply_started_at is null
returning apply_started_at;

-- name: ConfirmState
update attempts set state_confirmed_id = @state_version_id, state_confirmed_at = clock_timestamp()
 where id = @id and status = 'running' and apply_started_at is not null;

-- name: Finish
update attempts
   set status = @status, outcome = @outcome, exit_code = @exit_code, done_digest = @done_digest, errored_state = @errored_state::boolean, log_truncated = @log_truncated::boolean, finished_at = clock_timestamp()
 where id = @id and status = @from_status;

-- name: InsertArtifact
insert into attempt_artifacts (attempt_id, organization_id, kind, object_id, sha256) values (@attempt_id, @organization_id, @kind, @object_id, @sha256)
on conflict (attempt_id, kind) do nothing;

-- name: Artifact
select kind, object_id, sha256 from attempt_artifacts where attempt_id = @attempt_id and kind = @kind;

-- name: Artifacts
select kind, object_id, sha256 from attempt_artifacts where attempt_id = @attempt_id;

-- name: AdvanceLog
update attempts set log_size = @next, heartbeat_at = clock_timestamp() where id = @id and status = 'running' and log_size = @start_at;

-- name: AdvanceJSONLog
update attempts set json_log_size = @next, heartbeat_at = clock_timestamp() where id = @id and status = 'running' and json_log and json_log_size = @start_at;

-- name: InsertChunk
insert into log_chunks (attempt_id, stream, start_at, size, sha256, sealed) values (@attempt_id, @stream, @start_at, @size, @sha256, @sealed);

-- name: Chunks
select start_at, size, sealed from log_chunks
 where attempt_id = @attempt_id and stream = @stream and start_at + size > @from_byte and start_at < @to_byte
 order by start_at;

-- name: ChunkDigest
select sha256 from log_chunks where attempt_id = @attempt_id and stream = @stream and start_at = @start_at and size = @size;

-- name: Unfolded
select a.id from attempts a
 where a.status in ('finished', 'lost', 'canceled')
   and ((a.log_object_id is null and a.log_size > 0) or (a.json_log_object_id is null and a.json_log_size > 0))
 order by a.finished_at limit @limit;

-- name: Fold
update attempts set log_object_id = @object_id where id = @id and log_object_id is null and status in ('finished', 'lost', 'canceled');

-- name: FoldJSON
update attempts set json_log_object_id = @object_id where id = @id and json_log_object_id is null and status in ('finished', 'lost', 'canceled');

-- name: DeleteChunks
delete from log_chunks where attempt_id = @attempt_id and stream = @stream;

-- name: ExpiredAssignments
select id from attempts where status = 'assigned' and assignment_expires_at <= clock_timestamp() order by assignment_expires_at limit @limit;

-- name: OfferAgain
-- An offer that nobody accepted in time goes back to the others, unless it has happened too often.
update attempts set status = 'pending', runner_id = null, group_id = null, assignment_expires_at = null, expired_offers = expired_offers + 1
 where id = @id and status = 'assigned' and expired_offers + 1 < @most::integer
returning id;

-- fragment: Missed
-- Silent for a while in which another runner of the group was heard: the servers can be reached, and it does not reach them.
a.status = 'running' and a.apply_started_at is null and coalesce(a.missed_since <= a.heartbeat_at, true)
   and (exists (select from runners r where r.group_id = a.group_id and r.last_seen_at >= a.heartbeat_at + make_interval(secs => @quiet_seconds::double precision))
     or exists (select from attempts b where b.group_id = a.group_id and b.status = 'running' and b.heartbeat_at >= a.heartbeat_at + make_interval(secs => @quiet_seconds::double precision)))

-- name: Missing
select a.id from attempts a where {Missed} order by a.heartbeat_at limit @limit;

-- name: NoteMissed
update attempts a set missed_since = clock_timestamp() where a.id = @id and {Missed};

-- fragment: SilentTooLong
-- One that applies by the time alone. One that has no authority to write when it is missed as well, or when even the longest
-- outage would be over.
a.status = 'running' and (a.token_expires_at <= clock_timestamp()
    or case when a.apply_started_at is not null then a.heartbeat_at <= clock_timestamp() - make_interval(secs => @apply_seconds::double precision)
            else a.heartbeat_at <= clock_timestamp() - make_interval(secs => @plan_seconds::double precision)
                 and ((a.missed_since > a.heartbeat_at and a.missed_since <= clock_timestamp() - make_interval(secs => @quiet_seconds::double precision))
                      or a.heartbeat_at <= clock_timestamp() - make_interval(secs => @plan_seconds::double precision + @outage_seconds::double precision)) end)

-- name: Silent
-- Running attempts that have not been heard of for too long, or whose authority has ended.
select a.id from attempts a where {SilentTooLong} order by a.heartbeat_at limit @limit;

-- name: StillSilent
-- The same once more for one attempt, after its row was locked.
select {SilentTooLong} from attempts a where a.id = @id;

-- name: OpenAttempts
-- Attempts at work or waiting for it, and since when the oldest of each kind is.
select phase, status, count(*)::int as count, extract(epoch from clock_timestamp() - min(created_at))::double precision as oldest_seconds,
       coalesce(extract(epoch from clock_timestamp() - min(heartbeat_at)), 0)::double precision as silent_seconds
  from attempts where status in ('pending', 'assigned', 'running') group by phase, status;

-- name: WaitsForRunners
-- How long the attempts that began in the last quarter of an hour had waited for a runner, in seconds.
select coalesce(percentile_cont(0.5) within group (order by extract(epoch from accepted_at - created_at)), 0)::double precision as median,
       coalesce(percentile_cont(0.99) within group (order by extract(epoch from accepted_at - created_at)), 0)::double precision as p99
  from attempts where accepted_at > clock_timestamp() - interval '15 minutes';

-- name: ListOfRun
select {AttemptColumns}
  from attempts a where a.run_id = @run_id order by a.created_at, a.id limit @limit offset @offset;

-- name: CountOfRun
select count(*) from attempts where run_id = @run_id;

-- name: EmergencyOpen
select token_expires_at + make_interval(secs => @grace_seconds::double precision) > clock_timestamp() from attempts where id = @id;

-- name: RevokeAuthority
update attempts
   set authority_revoked_at = coalesce(authority_revoked_at, clock_timestamp()),
       outcome = case when status in ('pending', 'assigned', 'running') then 'recovered' else outcome end,
       finished_at = case when status in ('pending', 'assigned', 'running') then clock_timestamp() else finished_at end,
       status = case when status in ('pending', 'assigned', 'running') then 'lost' else status end
 where run_id = @run_id;

-- name: AuthorityActive
select authority_revoked_at is null from attempts where id = @id;
