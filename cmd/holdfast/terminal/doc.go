// Package terminal asks people for what must not be seen, and shows them what others wrote.
//
// Owns: reading secrets from a terminal or a pipe, and the cleaning of foreign text. Words:
// secret (a password or a code), foreign text (whatever a user, a runner or a provider
// wrote: names, reasons, messages, logs).
// Invariants: what is typed is not shown, and the terminal shows again afterwards, also
// after an interrupt; cleaned text holds nothing that moves the cursor, sets a title or a
// clipboard, changes the reading direction, or cannot be seen (TestCleanedTextCannotAct).
// Refuses: colours, line editing.
// Tested by: secret_test.go, clean_test.go.
package terminal
