output "greeting" {
  value = terraform_data.greeting.output
}

output "secret" {
  value     = terraform_data.vault.triggers_replace
  sensitive = true
}
