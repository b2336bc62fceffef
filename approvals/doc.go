// Package approvals knows who must approve a plan, and keeps decisions and what
// exactly each covers.
//
// Owns: tables approvals and approval_rules. Words: decision (approved or rejected, by
// a person, as that person's own because of auto-apply, or by the policy), binding (what a
// decision covers: plan, configuration, lock file, predecessor state, policy result),
// binding digest (one number for it), redeem (spend the approvals of a run on starting one
// apply), place (organization, project or workspace), setting (what is said at one), rule
// (what holds: of all settings around a workspace the stricter parts), mode (who may give an
// approval), vote (an approval as a rule judges it), settled (with what nobody said filled in).
// Invariants: a reviewer decides once per run and round (approvals_one_each); a decision is
// never changed, only spent, and spent once (trigger approvals_are_kept); an approval whose
// binding differs from the facts at the moment of applying applies nothing (AP-16, G-39); a
// place asks for more than what is around it and never for less (TestRulesAddUp); no run is
// confirmed with fewer approvals than its rule asks for (trigger runs_confirmed_by_enough).
// Refuses: knowing run statuses and deadlines; the caller checks those under the
// run's lock, and the right to apply.
// Tested by: approvals_test.go, rule_test.go, setting_test.go, words_test.go.
package approvals
