package operator

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Connection says where the server is, and who asks.
type Connection struct {
	Address      string `env:"HOLDFAST_ADDRESS,TFE_ADDRESS" placeholder:"URL" help:"Address of the server, such as https://holdfast.example.com. Default: https://TF_CLOUD_HOSTNAME."`
	TokenFile    string `env:"HOLDFAST_TOKEN_FILE" placeholder:"FILE" help:"File with the token. Default: HOLDFAST_TOKEN, TFE_TOKEN, or what tofu login has kept for the server."`
	CAFile       string `name:"ca-file" env:"HOLDFAST_CA_FILE,SSL_CERT_FILE" placeholder:"FILE" help:"Certificates to trust instead of the system's."`
	PasswordFile string `env:"HOLDFAST_PASSWORD_FILE" placeholder:"FILE" help:"File with your password, for when the server demands a step-up. Only the code is asked for then."`
	JSON         bool   `name:"json" help:"Print JSON."`
}

func (c Connection) client() (*client, error) {
	address, err := c.address()
	if err != nil {
		return nil, err
	}
	token, err := c.token(address)
	if err != nil {
		return nil, err
	}
	return newClient(address, token, c.CAFile)
}

func (c Connection) address() (*url.URL, error) {
	text := c.Address
	if text == "" {
		text = os.Getenv("TF_CLOUD_HOSTNAME")
	}
	if text == "" {
		return nil, errors.New("no server: give --address, or set HOLDFAST_ADDRESS")
	}
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	address, err := url.Parse(text)
	if err != nil || address.Host == "" || address.Scheme != "https" && address.Scheme != "http" {
		return nil, fmt.Errorf("%q is no address: it must be like https://holdfast.example.com", text)
	}
	return &url.URL{Scheme: address.Scheme, Host: address.Host}, nil
}

func (c Connection) token(address *url.URL) (string, error) {
	if c.TokenFile != "" {
		text, err := os.ReadFile(c.TokenFile)
		if err != nil {
			return "", fmt.Errorf("read the token: %w", err)
		}
		return strings.TrimSpace(string(text)), nil
	}
	for _, name := range []string{"HOLDFAST_TOKEN", "TFE_TOKEN", tokenVariable(address.Host)} {
		if token := os.Getenv(name); token != "" {
			return token, nil
		}
	}
	for _, file := range tofuFiles() {
		text, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("read tofu's credentials: %w", err)
		}
		if token := tokenIn(string(text), address.Host); token != "" {
			return token, nil
		}
	}
	return "", fmt.Errorf("no token for %s: set HOLDFAST_TOKEN, or run: tofu login %s", address.Host, address.Host)
}

// tokenVariable is where tofu looks for a host's token.
func tokenVariable(host string) string {
	return "TF_TOKEN_" + strings.NewReplacer("-", "__", ".", "_").Replace(host)
}

// tofuFiles are where tofu keeps tokens, in the order in which it prefers them.
func tofuFiles() (files []string) {
	if file := os.Getenv("TF_CLI_CONFIG_FILE"); file != "" {
		files = append(files, file)
	}
	if home, err := os.UserHomeDir(); err == nil {
		if len(files) == 0 {
			files = append(files, filepath.Join(home, ".tofurc"), filepath.Join(home, ".terraformrc"))
		}
		files = append(files, filepath.Join(home, ".terraform.d", "credentials.tfrc.json"))
	}
	if dir, err := os.UserConfigDir(); err == nil {
		files = append(files, filepath.Join(dir, "opentofu", "tofurc"), filepath.Join(dir, "opentofu", "credentials.tfrc.json"))
	}
	return files
}

// tokenIn finds a host's token in a file of tofu's, of either form.
func tokenIn(text, host string) string {
	var kept struct {
		Credentials map[string]struct{ Token string }
	}
	if json.Unmarshal([]byte(text), &kept) == nil {
		return kept.Credentials[host].Token
	}
	block := regexp.MustCompile(`(?m)^\s*credentials\s+"` + regexp.QuoteMeta(host) + `"\s*\{[^}]*?\btoken\s*=\s*"([^"]+)"`)
	if found := block.FindStringSubmatch(text); found != nil {
		return found[1]
	}
	return ""
}
