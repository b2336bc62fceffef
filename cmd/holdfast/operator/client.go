package operator

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/holdfast-run/holdfast/cmd/holdfast/terminal"
)

// patience bounds one request: a recovery reads a whole state.
const patience = 10 * time.Minute

// largestAnswer bounds what is read of one answer.
const largestAnswer = 64 << 20

// Refusal is an error that the API answered.
type Refusal struct {
	Status int
	Code   string
	Detail string
	Meta   map[string]any
}

// Error gives code and detail, cleaned.
func (r *Refusal) Error() string {
	return fmt.Sprintf("%s: %s", terminal.Line(r.Code), terminal.Line(r.Detail))
}

// refusedAs tells whether the API answered err with the code.
func refusedAs(err error, code string) bool {
	var r *Refusal
	return errors.As(err, &r) && r.Code == code
}

// client speaks the API with one token.
type client struct {
	address *url.URL // without a path
	token   string
	http    *http.Client
}

func newClient(address *url.URL, token, caFile string) (*client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if caFile != "" {
		pem, err := os.ReadFile(caFile)
		if err != nil {
			return nil, fmt.Errorf("read the certificates to trust: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate", caFile)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return &client{address: address, token: token, http: &http.Client{
		Transport: transport, Timeout: patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the token is for this server
	}}, nil
}

// call sends attributes, where there are some, and reads the answer into into.
func (c *client) call(ctx context.Context, method, path string, query url.Values, attributes, into any) error {
	var body io.Reader
	if attributes != nil {
		encoded, err := json.Marshal(map[string]any{"data": map[string]any{"attributes": attributes}})
		if err != nil {
			return err
		}
		body = bytes.NewReader(encoded)
	}
	at := c.address.JoinPath("/api/v2", path)
	at.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, method, at.String(), body)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	request.Header.Set("Accept", "application/vnd.api+json")
	if body != nil {
		request.Header.Set("Content-Type", "application/vnd.api+json")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("the server did not answer; what was asked for may have happened, and can be repeated: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, largestAnswer))
	if err != nil {
		return fmt.Errorf("the server's answer broke off; what was asked for may have happened, and can be repeated: %w", err)
	}
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return refusal(response, answer)
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("%s is not the API of a Holdfast server: %w", c.address, err)
	}
	return nil
}

func refusal(response *http.Response, answer []byte) error {
	r := &Refusal{Status: response.StatusCode, Code: "http_" + strconv.Itoa(response.StatusCode), Detail: response.Status}
	var document struct {
		Errors []struct {
			Code, Title, Detail string
			Meta                map[string]any
		}
	}
	if json.Unmarshal(answer, &document) == nil && len(document.Errors) > 0 {
		e := document.Errors[0]
		r.Code, r.Detail, r.Meta = e.Code, e.Detail, e.Meta
		if r.Detail == "" {
			r.Detail = e.Title
		}
	} else if at := response.Header.Get("Location"); at != "" {
		r.Detail = fmt.Sprintf("%s to %s: give that address instead, if it is the server's", response.Status, at)
	}
	return r
}

// resource is a thing as the API shows it.
type resource struct {
	ID            string          `json:"id"`
	Type          string          `json:"type"`
	Attributes    json.RawMessage `json:"attributes"`
	Relationships json.RawMessage `json:"relationships,omitempty"`
}

func (c *client) one(ctx context.Context, method, path string, attributes, into any) (resource, error) {
	var document struct{ Data resource }
	if err := c.call(ctx, method, path, nil, attributes, &document); err != nil {
		return resource{}, err
	}
	return document.Data, json.Unmarshal(document.Data.Attributes, into)
}

// all gives every page of a list.
func (c *client) all(ctx context.Context, path string) (list []resource, err error) {
	for number := 1; ; {
		var document struct {
			Data []resource
			Meta struct {
				Pagination struct {
					Next *int `json:"next-page"`
				}
			}
		}
		query := url.Values{"page[size]": {"100"}, "page[number]": {strconv.Itoa(number)}}
		if err := c.call(ctx, http.MethodGet, path, query, nil, &document); err != nil {
			return nil, err
		}
		list = append(list, document.Data...)
		next := document.Meta.Pagination.Next
		if next == nil || *next <= number {
			return list, nil
		}
		number = *next
	}
}
