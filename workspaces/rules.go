package workspaces

import (
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast-run/holdfast/accounts"
)

const (
	maxDescription      = 4096
	maxWorkingDirectory = 1024
)

var (
	projectName   = regexp.MustCompile(`^[A-Za-z0-9 _-]{3,40}$`)
	workspaceName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,90}$`)
	// latest, or one version written out: a range would mean another tofu from one run to the next.
	terraformVersion = regexp.MustCompile(`^(latest|[0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,9}(-[0-9A-Za-z][0-9A-Za-z.-]{0,63})?)$`)
)

func checkProjectName(name string) error {
	if !projectName.MatchString(name) || strings.TrimSpace(name) != name {
		return accounts.Invalid("name", "Name may only contain letters, numbers, spaces, - and _, must be 3 to 40 characters long and must not begin or end with a space")
	}
	return nil
}

func checkWorkspaceName(name string) error {
	if !workspaceName.MatchString(name) {
		return accounts.Invalid("name", "Name may only contain letters, numbers, - and _, and must be 1 to 90 characters long")
	}
	return nil
}

// check refuses settings that break a rule. What is absent is right.
func (s Settings) check() error {
	if s.Description != nil {
		if err := accounts.CheckText("description", "Description", *s.Description, maxDescription); err != nil {
			return err
		}
	}
	if s.ExecutionMode != nil {
		if err := checkExecutionMode(*s.ExecutionMode); err != nil {
			return err
		}
	}
	if s.RunnerSelector != nil {
		if err := accounts.CheckLabels("runner-selector", "Runner selector", *s.RunnerSelector); err != nil {
			return err
		}
	}
	if s.TerraformVersion != nil && !terraformVersion.MatchString(*s.TerraformVersion) {
		return accounts.Invalid("terraform-version", "Terraform version must be latest or one exact version such as 1.12.6")
	}
	if s.EnvironmentClass != nil && *s.EnvironmentClass != Production && *s.EnvironmentClass != Other {
		return accounts.Invalid("environment-class", "Environment class must be %s or %s", Production, Other)
	}
	if s.FailedApply != nil && *s.FailedApply != Hold && *s.FailedApply != ReleaseWhenProven {
		return accounts.Invalid("failed-apply", "Failed apply must be %s or %s", Hold, ReleaseWhenProven)
	}
	if s.WorkingDirectory != nil {
		return checkWorkingDirectory(*s.WorkingDirectory)
	}
	return nil
}

func checkExecutionMode(mode ExecutionMode) error {
	switch mode {
	case Remote, Local, Agent:
		return nil
	}
	return accounts.Invalid("execution-mode", "Execution mode must be %s, %s or %s", Remote, Local, Agent)
}

// checkWorkingDirectory: the directory lies inside the uploaded configuration, on
// whatever system the runner works.
func checkWorkingDirectory(dir string) error {
	if err := accounts.CheckText("working-directory", "Working directory", dir, maxWorkingDirectory); err != nil {
		return err
	}
	if strings.HasPrefix(dir, "/") || strings.Contains(dir, `\`) || slices.Contains(strings.Split(dir, "/"), "..") {
		return accounts.Invalid("working-directory", `Working directory must be a relative path with / between its parts and without ..`)
	}
	return nil
}
