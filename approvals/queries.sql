-- name: Record
insert into approvals (run_id, reviewer_id, requester_id, decision, source, comment, plan_digest, configuration_digest, lock_file_digest, predecessor_version_id, policy_result_digest, round)
values (@run_id, @reviewer_id, @requester_id, @decision, @source, @comment, @plan_digest, @configuration_digest, @lock_file_digest, @predecessor_version_id, @policy_result_digest,
    coalesce((select round from runs where id = @run_id), 1))
on conflict on constraint approvals_one_each do nothing;

-- name: Approved
select id, plan_digest, configuration_digest, lock_file_digest, predecessor_version_id, policy_result_digest, spent_at is not null as spent
  from approvals where run_id = @run_id and decision = 'approved' and round = (select round from runs where id = @run_id) order by id limit 1 for update;

-- name: Spend
update approvals set spent_at = clock_timestamp() where id = @id and spent_at is null;

-- name: List
select reviewer_id, requester_id, decision, source, comment, decided_at from approvals where run_id = @run_id order by id;
