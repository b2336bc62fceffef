-- +goose Up
-- query and content of a policy are a pair, by which plans are judged. A query that the content does not answer waits
-- beside the pair until content comes that does; then both change at once. A server of before knows the pair alone.
alter table policies
    add column query_awaited text, -- null: nothing waits
    add constraint policies_query_awaited check (query_awaited is null or (kind = 'opa' and content_sealed is not null and query_awaited <> '' and query_awaited <> query));
