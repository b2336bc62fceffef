# An organization as code: who may do what, which workspaces there are, and what their runs
# are given. See README.md.

terraform {
  required_providers {
    tfe = {
      source  = "hashicorp/tfe"
      version = "~> 0.65"
    }
  }
}

# The address and a token come from TFE_HOSTNAME and TFE_TOKEN, or from `tofu login`.
provider "tfe" {
  organization = var.organization
}

variable "organization" {
  type        = string
  default     = "demo"
  description = "An organization that exists. To have it made here too, see README.md."
}

variable "aws_secret_access_key" {
  type      = string
  sensitive = true
  default   = "change me"
}

locals {
  environments = toset(["stage", "prod"])
}

resource "tfe_project" "network" {
  name        = "network"
  description = "What everything else stands on"
  tags        = { team = "platform" }
}

resource "tfe_workspace" "network" {
  for_each          = local.environments
  name              = "network-${each.key}"
  project_id        = tfe_project.network.id
  tag_names         = ["network", each.key]
  working_directory = "live/${each.key}"
  queue_all_runs    = false
}

resource "tfe_team" "platform" {
  name       = "platform"
  visibility = "organization"
}

resource "tfe_team" "developers" {
  name       = "developers"
  visibility = "organization"
}

# Platform looks after the project; developers plan on stage and see prod.
resource "tfe_team_project_access" "platform" {
  team_id    = tfe_team.platform.id
  project_id = tfe_project.network.id
  access     = "maintain"
}

resource "tfe_team_access" "developers" {
  for_each     = tfe_workspace.network
  team_id      = tfe_team.developers.id
  workspace_id = each.value.id
  access       = each.key == "prod" ? "read" : "plan"
}

resource "tfe_variable" "size" {
  for_each     = tfe_workspace.network
  workspace_id = each.value.id
  category     = "terraform"
  key          = "size"
  value        = each.key == "prod" ? "3" : "1"
  hcl          = true
}

# What all of the project's runs are given.
resource "tfe_variable_set" "aws" {
  name        = "aws"
  description = "Credentials of the platform account"
}

resource "tfe_project_variable_set" "network" {
  variable_set_id = tfe_variable_set.aws.id
  project_id      = tfe_project.network.id
}

resource "tfe_variable" "secret" {
  variable_set_id = tfe_variable_set.aws.id
  category        = "env"
  key             = "AWS_SECRET_ACCESS_KEY"
  value           = var.aws_secret_access_key
  sensitive       = true
}
