package terraform.policies.deletion_limit_test

import data.terraform.policies.deletion_limit.deny

changes := [{"address": sprintf("a.b[%d]", [i]), "mode": "managed", "type": "t", "change": {"actions": ["delete"], "before": {}, "after": null}} | some i in numbers.range(1, 3)]

test_too_many if count(deny) == 1 with input as {"params": {"max_deletions": "2"}, "run": {"is_destroy": false}, "plan": {"resource_changes": changes}}

test_few_enough if count(deny) == 0 with input as {"params": {"max_deletions": "3"}, "run": {"is_destroy": false}, "plan": {"resource_changes": changes}}

test_the_default if count(deny) == 0 with input as {"run": {"is_destroy": false}, "plan": {"resource_changes": changes}}

test_a_destroy_is_meant if count(deny) == 0 with input as {"params": {"max_deletions": "0"}, "run": {"is_destroy": true}, "plan": {"resource_changes": changes}}
