package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

const requestLimit = 2 * time.Minute

// api speaks to the server as the site admin.
type api struct {
	address, token string
	integration    string // "cloud" is answered as tofu's cloud integration is; empty as anybody else
	roots          *x509.CertPool
	http           *http.Client
}

func newAPI(address, token, bundle string) (*api, error) {
	a := &api{address: address, token: token, roots: x509.NewCertPool()}
	certificates, err := os.ReadFile(bundle)
	if err != nil {
		return nil, err
	}
	a.roots.AppendCertsFromPEM(certificates)
	a.http = a.client(true)
	return a, nil
}

// client makes a client with connections of its own. Over HTTP/2, which tofu speaks, all
// requests share one connection.
func (a *api) client(http2 bool) *http.Client {
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: a.roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: http2}
	if !http2 {
		transport.TLSClientConfig.NextProtos = []string{"http/1.1"}
	}
	return &http.Client{Timeout: requestLimit, Transport: transport}
}

// request prepares one for a path of the API, or for an address that the API gave out.
// Those carry their own permission: like tofu, we send the token only to paths.
func (a *api) request(ctx context.Context, method, target string, body []byte) (*http.Request, error) {
	address := target
	if strings.HasPrefix(target, "/") {
		address = a.address + target
	}
	r, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if method == http.MethodGet || address != target {
		r.Header.Set("Authorization", "Bearer "+a.token)
	}
	if a.integration != "" {
		r.Header.Set("X-Terraform-Integration", a.integration)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/vnd.api+json")
	}
	return r, nil
}

// do sends a request, copies the answer's body to sink and gives its length. Anything but
// success is an error.
func (a *api) do(ctx context.Context, method, target string, body []byte, sink io.Writer) (int64, error) {
	r, err := a.request(ctx, method, target, body)
	if err != nil {
		return 0, err
	}
	answer, err := a.http.Do(r)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	if answer.StatusCode >= 300 {
		said, _ := io.ReadAll(io.LimitReader(answer.Body, 1000))
		return 0, fmt.Errorf("%s %s: %s: %s", method, r.URL.Path, answer.Status, said)
	}
	return io.Copy(sink, answer.Body)
}

// document is what the sections read of JSON:API documents.
type document struct {
	Data struct {
		ID         string
		Attributes struct {
			UploadURL        string `json:"hosted-state-upload-url"`
			DownloadURL      string `json:"hosted-state-download-url"`
			LogURL           string `json:"log-read-url"`
			ConfigurationURL string `json:"upload-url"`
			Token            string
		}
		Relationships map[string]struct {
			Data json.RawMessage
		}
	}
}

// related is the id of a single related thing.
func (d document) related(name string) (string, error) {
	var link struct{ ID string }
	if err := json.Unmarshal(d.Data.Relationships[name].Data, &link); err != nil || link.ID == "" {
		return "", fmt.Errorf("the document has no %s", name)
	}
	return link.ID, nil
}

// read sends a request and decodes the answer.
func (a *api) read(ctx context.Context, method, target string, body []byte) (d document, err error) {
	var text bytes.Buffer
	if _, err = a.do(ctx, method, target, body, &text); err != nil {
		return d, err
	}
	return d, json.Unmarshal(text.Bytes(), &d)
}

// workspace makes a workspace and gives its id.
func (a *api) workspace(ctx context.Context, name string) (string, error) {
	d, err := a.read(ctx, http.MethodPost, "/api/v2/organizations/"+organization+"/workspaces",
		fmt.Appendf(nil, `{"data":{"type":"workspaces","attributes":{"name":%q}}}`, name))
	return d.Data.ID, err
}

// lockedWorkspace makes one that this program itself writes states to.
func (a *api) lockedWorkspace(ctx context.Context, name string) (string, error) {
	id, err := a.workspace(ctx, name)
	if err != nil {
		return "", err
	}
	_, err = a.do(ctx, http.MethodPost, "/api/v2/workspaces/"+id+"/actions/lock", []byte(`{}`), io.Discard)
	return id, err
}
