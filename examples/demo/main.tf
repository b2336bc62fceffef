# What `make demo` runs. terraform_data is built into tofu, so no provider is fetched.

terraform {
  # Hostname and organization come from TF_CLOUD_HOSTNAME and TF_CLOUD_ORGANIZATION.
  cloud {
    workspaces {
      name = "demo"
    }
  }
}

resource "terraform_data" "greeting" {
  input = var.greeting
}

# The secret ends up in the plan and in the state, as a database password would.
resource "terraform_data" "vault" {
  triggers_replace = var.secret
}
