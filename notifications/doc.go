// Package notifications tells people and programs what becomes of runs.
//
// Owns: tables notification_configurations, notification_users and
// notification_deliveries. Words: configuration (who is told, about which triggers),
// subscribable (the workspace or project it is for), trigger (a group of events, by the
// name that Terraform Cloud gave it), event (a step of a run, such as run.requeued;
// docs/events.md lists them), delivery (one event for one configuration), outbox (the
// deliveries that are pending), verification (a message sent to see whether the receiver answers).
// Invariants: a delivery is written by the transaction of the step it tells of, with
// ids only, so no event is lost and none is told that did not happen
// (runs.TestAStepIsToldInItsTransaction); each is sent at least once, those of a run to one receiver
// in the run's order (TestOrder); a receiver that fails is tried again with growing
// pauses, given up in the end, and after several of these disabled with a note
// (TestAReceiverThatIsDead); what a run does never waits for a receiver (EV-08). Address and key are sealed at
// rest and never logged.
// Refuses: knowing what a run is beyond its history; drawing the message of the API,
// which tfeapi does.
// Tested by: configuration_test.go, delivery_test.go, format_test.go, mail_test.go, notify_test.go of runs, and
// notifications_test.go of tfeapi.
package notifications
