// The verified download of an OpenTofu release, for scripts/tofu.sh.
// It is a module of its own so that its dependencies never meet the server's.
module github.com/holdfast-run/holdfast/tools/gettofu

go 1.26

require github.com/opentofu/tofudl v0.0.1

require (
	github.com/ProtonMail/go-crypto v1.0.0 // indirect
	github.com/ProtonMail/go-mime v0.0.0-20230322103455-7d82a3887f2f // indirect
	github.com/ProtonMail/gopenpgp/v2 v2.7.5 // indirect
	github.com/cloudflare/circl v1.6.3 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	golang.org/x/crypto v0.31.0 // indirect
	golang.org/x/sys v0.28.0 // indirect
	golang.org/x/text v0.21.0 // indirect
)
