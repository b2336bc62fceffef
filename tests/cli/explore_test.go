package cli

import ("testing"; "fmt")

func TestExplore(t *testing.T) {
	d := newDesk(t)
	f := d.folder(`terraform {}`, `output "val" { value = terraform.workspace }`)
	show := func(dialogue []turn, args ...string) { r := f.talk(dialogue, args...); fmt.Printf("=== tofu %v -> %d\n%s\n", args, r.code, r.said) }
	show(nil, "init")
	show(nil, "workspace", "new", "prod")
	show(nil, "apply", "-auto-approve")
	show(nil, "workspace", "new", "staging")
	show(nil, "apply", "-auto-approve")
	f.backend(d.inCloud(`tags = ["app"]`))
	show([]turn{{"Enter a value:", "yes"}, {"Enter a value:", "app-*"}}, "init")
	show([]turn{{"Enter a value:", "1"}}, "init")
	show(nil, "workspace", "list")
	show(nil, "workspace", "select", "app-prod")
	show(nil, "output")
	g := d.folder(d.inCloud(`tags = ["other"]`), `output "val" { value = terraform.workspace }`)
	f = g
	show([]turn{{"Enter a value:", "first"}}, "init")
	show(nil, "workspace", "list")
	show(nil, "workspace", "delete", "first")
	f.backend(`terraform {}`)
	show(nil, "init", "-migrate-state")
	f.backend(d.inCloud(`name = "single"`))
	show([]turn{{"Enter a value:", "yes"}}, "init")
	show(nil, "workspace", "list")
	show(nil, "workspace", "new", "x")
	show(nil, "workspace", "select", "x")
	show(nil, "workspace", "delete", "x")
	show(nil, "workspace", "show")
	l := d.folder(`terraform {}`, `output "val" { value = terraform.workspace }`)
	f = l
	show(nil, "init")
	show(nil, "apply", "-auto-approve")
	f.backend(d.inCloud(`name = "fromlocal"`))
	show([]turn{{"Enter a value:", "yes"}}, "init")
	show(nil, "output")
}
