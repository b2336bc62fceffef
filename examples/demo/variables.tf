variable "greeting" {
  type    = string
  default = "hello"
}

variable "secret" {
  type      = string
  sensitive = true
}
