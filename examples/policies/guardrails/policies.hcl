policy "public-buckets" {
  description       = "Object storage is not readable by everybody"
  query             = "data.terraform.policies.public_buckets.deny"
  enforcement_level = "mandatory"
}

policy "open-ports" {
  description       = "Administration ports are not open to the internet"
  query             = "data.terraform.policies.open_ports.deny"
  enforcement_level = "mandatory"
}

policy "protected-resources" {
  description       = "What is marked as protected is neither destroyed nor replaced"
  query             = "data.terraform.policies.protected_resources.deny"
  enforcement_level = "mandatory"
}

policy "required-tags" {
  description       = "Resources that can have tags have the required ones"
  query             = "data.terraform.policies.required_tags.deny"
  enforcement_level = "advisory"
}

policy "deletion-limit" {
  description       = "A run that is no destroy removes only a few resources"
  query             = "data.terraform.policies.deletion_limit.deny"
  enforcement_level = "mandatory"
}

policy "pinned-modules" {
  description       = "Modules are pinned to a version"
  query             = "data.terraform.policies.pinned_modules.deny"
  enforcement_level = "advisory"
}
