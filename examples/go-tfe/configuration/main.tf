variable "greeting" {
  type    = string
  default = "Hello from Holdfast"
}

resource "terraform_data" "greeting" {
  input = var.greeting
}

output "greeting" {
  value = terraform_data.greeting.output
}

output "key" {
  value     = "not to be printed"
  sensitive = true
}
