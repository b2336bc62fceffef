-- The statements about lists of workspaces. What they are found and put in order by is in the
-- table listed_workspaces, which a trigger keeps like workspaces.

-- fragment: TagHits
-- The workspaces that have the first of the wanted tags.
select wt.workspace_id from workspace_tags wt join tags t on t.id = wt.tag_id
                 where t.organization_id = @organization_id and t.name = (@tags::text[])[1]

-- fragment: PairHits
-- Those that have the first of the wanted pairs themselves, each once.
select b.workspace_id from tag_bindings b
                 where b.organization_id = @organization_id and b.key = (@keys::text[])[1] and ((@values::text[])[1] = '' and not @blank::boolean or b.value = (@values::text[])[1])

-- fragment: StatusHits
-- Those whose current run is in one of the wanted statuses.
select c.workspace_id from current_runs c where c.organization_id = @organization_id and c.status = any(@run_statuses::text[])

-- fragment: Hits
-- What the only one of the filters finds that applies.
select null as workspace_id where false
-- when: tags
union all {TagHits}
-- when: own pairs
union all {PairHits}
-- when: statuses
union all {StatusHits}
-- always

-- fragment: Selected
-- What a filter selects. Each wanted tag and pair must be there (AND); no unwanted one may be.
   and w.organization_id = @organization_id
-- when: scoped
   and (w.project_id = any(@projects::text[]) or w.id = any(@workspaces::text[]))
-- when: project
   and w.project_id = @project_id
-- when: search
   and w.lower_name like lower(@part::text)
-- when: pattern
   and w.lower_name like lower(@pattern::text)
-- when: tags
   and w.id in ({TagHits})
-- when: two tags
   and w.id in (select wt.workspace_id from workspace_tags wt join tags t on t.id = wt.tag_id
                 where t.organization_id = @organization_id and t.name = (@tags::text[])[2])
-- when: more tags
   and (select count(*) from workspace_tags wt join tags t on t.id = wt.tag_id
         where wt.workspace_id = w.id and t.name = any(@tags::text[])) = cardinality(@tags::text[])
-- when: without
   and not exists (select from workspace_tags wt join tags t on t.id = wt.tag_id
                    where wt.workspace_id = w.id and t.name = any(@without::text[]))
-- when: own pairs
   and w.id in ({PairHits})
-- when: inherited pairs
   and w.id in ({PairHits}
                union all
                select x.id from project_tag_bindings b join listed_workspaces x on x.project_id = b.project_id
                 where b.organization_id = @organization_id and b.key = (@keys::text[])[1] and ((@values::text[])[1] = '' and not @blank::boolean or b.value = (@values::text[])[1])
                   and not exists (select from tag_bindings own where own.workspace_id = x.id and own.key = b.key))
-- when: more pairs
   and not exists (select from unnest(@keys::text[], @values::text[]) as wanted (key, value)
                    where not exists (select from tag_bindings b where b.workspace_id = w.id and b.key = wanted.key
                                         and (wanted.value = '' and not @blank::boolean or b.value = wanted.value))
                      and not exists (select from project_tag_bindings b where b.project_id = w.project_id and b.key = wanted.key
                                         and (wanted.value = '' and not @blank::boolean or b.value = wanted.value)
                                         and not exists (select from tag_bindings own where own.workspace_id = w.id and own.key = b.key)))
-- when: any pair
   and w.id in (select b.workspace_id from tag_bindings b
                  join unnest(@keys::text[], @values::text[]) as wanted (key, value) on b.key = wanted.key and (wanted.value = '' and not @blank::boolean or b.value = wanted.value)
                 where b.organization_id = @organization_id
                union all
                select x.id from project_tag_bindings b join listed_workspaces x on x.project_id = b.project_id
                  join unnest(@keys::text[], @values::text[]) as wanted (key, value) on b.key = wanted.key and (wanted.value = '' and not @blank::boolean or b.value = wanted.value)
                 where b.organization_id = @organization_id
                   and not exists (select from tag_bindings own where own.workspace_id = x.id and own.key = b.key))
-- when: statuses
   and w.id in ({StatusHits})
-- always

-- fragment: InOrder
case @sort::text when 'name' then w.name end collate "C", case @sort when '-name' then w.name end collate "C" desc,
                       case @sort when 'current-run.created-at' then w.last_run_at end nulls last,
                       case when @sort in ('', '-current-run.created-at') then w.last_run_at end desc nulls last,
                       w.name collate "C"

-- fragment: Backwards
case @sort::text when 'name' then w.name end collate "C" desc, case @sort when '-name' then w.name end collate "C",
                       case @sort when 'current-run.created-at' then w.last_run_at end desc nulls first,
                       case when @sort in ('', '-current-run.created-at') then w.last_run_at end nulls first,
                       w.name collate "C" desc

-- name: WorkspacePage
-- How many are selected, and the ids of those on the page. Two searches are quicker than one
-- whose finds are kept: the one counts in an index, the other ends with the page. A page of the
-- later half is reached from the end. Where nothing is on the page, only the count is taken.
-- planned anew
with counted as materialized (
    select count(*) as total from listed_workspaces w where w.deleted_at is null
{Selected}
)
select (select total from counted) as total,
       array(select w.id from listed_workspaces w where w.deleted_at is null and (select total from counted) >= @offset::bigint * 2 and (select total from counted) > @offset
{Selected}
              order by {InOrder}
              limit @limit offset @offset)
       || array(select w.id from (
                select w.id, w.name, w.last_run_at from listed_workspaces w where w.deleted_at is null and (select total from counted) < @offset * 2 and (select total from counted) > @offset
{Selected}
                 order by {Backwards}
                 limit greatest(least(@limit::bigint, (select total from counted) - @offset), 0) offset greatest((select total from counted) - @offset - @limit, 0)) w
              order by {InOrder}) as ids;

-- name: WorkspacePageOfFew
-- WorkspacePage for the few that are found by tags, pairs or statuses, or that the reader sees: there
-- is no order in which they could be found, so all are found once, counted and put in order.
-- planned anew
with found as materialized (
    select w.id, w.name, w.last_run_at from listed_workspaces w where w.deleted_at is null
{Selected}
)
select (select count(*) from found) as total,
       array(select w.id from found w
              order by {InOrder}
              limit @limit offset @offset) as ids;

-- name: LivingCount
-- How many workspaces there are, where nothing but the project selects.
select coalesce(sum(c.living), 0)::bigint from workspace_counts c where c.organization_id = @organization_id
-- when: project
   and c.project_id = @project_id
-- always
;

-- name: ScopeCount
-- How many workspaces a reader sees who does not see all, or a few more.
select coalesce(sum(c.living), 0)::bigint + cardinality(@workspaces::text[])
  from workspace_counts c where c.organization_id = @organization_id and c.project_id = any(@projects::text[]);

-- fragment: Living
-- What LivingCount counted: only the project may select.
select w.id from listed_workspaces w where w.deleted_at is null
{Selected}

-- name: LivingPage
-- The ids on a page.
-- planned anew
{Living}
 order by {InOrder} limit @limit offset @offset;

-- name: LivingPageFromTheEnd
-- In the order backwards.
-- planned anew
{Living}
 order by {Backwards} limit @limit offset @offset;

-- name: HitCount
-- How many workspaces are selected where one tag, pair or status is all that selects: they are
-- counted without a look at those that live. And whether these are so many of all, and not more
-- than there is memory for, that it is quicker to walk through the list until the page is full
-- than to put them in order.
-- planned anew
with counted as materialized (
    select (select count(*) from (
{Hits}
           ) h) - (select count(*) from listed_workspaces w where w.deleted_at is not null and w.organization_id = @organization_id and w.id in (
{Hits}
           )) as total
)
select total, total <= 300000 and total * 32 > (select coalesce(sum(c.living), 0) from workspace_counts c where c.organization_id = @organization_id) as dense from counted;

-- fragment: Dense
-- What HitCount counted. "is true" keeps the planner from joining: all hits are kept in memory, and
-- the list is walked through in its order.
select w.id from listed_workspaces w
 where w.deleted_at is null and w.organization_id = @organization_id and (w.id in (
{Hits}
       )) is true

-- name: DensePage
-- planned anew
{Dense}
 order by {InOrder} limit @limit offset @offset;

-- name: DensePageFromTheEnd
-- In the order backwards.
-- planned anew
{Dense}
 order by {Backwards} limit @limit offset @offset;

-- name: PairsInherited
-- Whether workspaces may have pairs with this key from their projects.
select exists (select from project_tag_bindings where organization_id = @organization_id and key = (@keys::text[])[1]);

-- name: WorkspacesInOrder
select {WorkspaceColumns}, {ShownColumns} {ShownWorkspaces} and w.id = any(@ids::text[]) order by array_position(@ids, w.id);
