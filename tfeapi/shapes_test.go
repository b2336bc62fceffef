package tfeapi

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-run/holdfast/internal/shapes"
)

// openAPIVariable names the OpenAPI document of the API we are compatible with, which is not
// part of this repository (CONTRIBUTING.md says where it is). Without it no answer is compared.
const openAPIVariable = "TFE_OPENAPI"

// deviationsFile lists what of our answers differs from that document and is meant to.
const deviationsFile = "testdata/openapi-deviations.txt"

// openAPI is the record of all answers of all tests of this package, or nil without a document.
var openAPI = sync.OnceValue(func() *openAPIRecord {
	path := os.Getenv(openAPIVariable)
	if path == "" {
		return nil
	}
	document, err := shapes.Open(path)
	if err != nil {
		panic(err)
	}
	kept, err := shapes.ReadKept(deviationsFile)
	if err != nil {
		panic(err)
	}
	return &openAPIRecord{Record: shapes.NewRecord(document), document: document, kept: kept}
})

type openAPIRecord struct {
	*shapes.Record
	document *shapes.Document
	kept     shapes.Kept
	unread   []string // parameters of the query that nothing here reads
}

// described compares each answer of a server with the OpenAPI document, if there is one, and
// fails the test at a deviation that is not kept.
func described(t *testing.T, server http.Handler) http.Handler {
	record := openAPI()
	if record == nil {
		return server
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, api := strings.CutPrefix(r.URL.Path, "/api/v2")
		if !api || r.Method == http.MethodHead {
			server.ServeHTTP(w, r)
			return
		}
		copied := &copiedAnswer{ResponseWriter: w}
		server.ServeHTTP(copied, r)
		if mime := w.Header().Get("Content-Type"); mime != mediaType && (mime != "" || copied.status != http.StatusNoContent) {
			return // bytes, a log: no document
		}
		for _, deviation := range record.Compare(r.Method, path, copied.status, copied.body.Bytes()) {
			if !record.kept.Covers(deviation) {
				t.Errorf("%s %s: %d differs from the OpenAPI document: %s", r.Method, r.URL.Path, copied.status, deviation)
			}
		}
	})
}

// copiedAnswer keeps what it passes on.
type copiedAnswer struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (c *copiedAnswer) WriteHeader(status int) {
	c.status = status
	c.ResponseWriter.WriteHeader(status)
}

func (c *copiedAnswer) Write(data []byte) (int, error) {
	if c.Header().Get("Content-Type") == mediaType {
		c.body.Write(data)
	}
	return c.ResponseWriter.Write(data)
}

// Unwrap lets a handler reach the connection.
func (c *copiedAnswer) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// openAPIWhole lets a run of all tests also hold the whole against the kept deviations.
var openAPIWhole = flag.Bool("openapi-whole", false, "all tests run: fail at kept deviations that do not occur, and at properties that no answer has")

// closeOpenAPI says what was compared. With -openapi-whole a deviation that no longer occurs is to
// be taken out, and so is a property that is kept as absent and is there.
func closeOpenAPI() (holds bool) {
	record := openAPI()
	if record == nil {
		return true
	}
	answers, operations := record.Count()
	seen := record.Seen()
	occurred := slices.Concat(slices.Sorted(maps.Keys(seen)), record.Absent(), record.unread)
	fmt.Printf("OpenAPI: %d answers of %d operations compared; %d lines of deviations kept\n", answers, operations, record.kept.Len())
	for _, deviation := range slices.Sorted(maps.Keys(seen)) {
		if !record.kept.Covers(deviation) {
			fmt.Printf("new: %s | %s\n", deviation, seen[deviation])
		}
	}
	if !*openAPIWhole {
		return true // a part of the tests does not show every answer
	}
	holds = true
	for _, deviation := range record.Absent() {
		if !record.kept.Covers(deviation) {
			fmt.Printf("FAIL: the OpenAPI document has %s in every answer\n", deviation)
			holds = false
		}
	}
	for _, deviation := range record.kept.Unused(occurred) {
		fmt.Printf("FAIL: %s no longer occurs: take it out of %s\n", deviation, deviationsFile)
		holds = false
	}
	return holds
}
