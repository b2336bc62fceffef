package history

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/tests/stack"
)

// crowd is everybody who writes and reads, and what they were told.
type crowd struct {
	t          *testing.T
	stack      *stack.Stack
	workspaces []string
	began      time.Time

	mu           sync.Mutex
	operations   []porcupine.Operation
	acknowledged map[string]string // id of a version → its bytes
}

func newCrowd(t *testing.T, s *stack.Stack) *crowd {
	t.Helper()
	c := &crowd{t: t, stack: s, began: time.Now(), acknowledged: map[string]string{}}
	for i := range workspaces {
		a := c.ask(t.Context(), "POST", "/api/v2/organizations/demo/workspaces", fmt.Sprintf(`{"data":{"type":"workspaces","attributes":{"name":"w-%d"}}}`, i))
		require.Equal(t, 201, a.status, a.body)
		c.workspaces = append(c.workspaces, a.id())
		require.Equal(t, 200, c.ask(t.Context(), "POST", "/api/v2/workspaces/"+a.id()+"/actions/lock", `{}`).status)
	}
	return c
}

// answer is what came back; the status is 0 when nothing did.
type answer struct {
	status int
	body   []byte
}

type document struct {
	Data struct {
		ID         string
		Attributes struct {
			Serial      int    `json:"serial"`
			Status      string `json:"status"`
			UploadURL   string `json:"hosted-state-upload-url"`
			DownloadURL string `json:"hosted-state-download-url"`
		}
	}
}

func (a answer) document() (d document) {
	_ = json.Unmarshal(a.body, &d)
	return d
}

func (a answer) id() string { return a.document().Data.ID }

// ask sends one request, once.
func (c *crowd) ask(ctx context.Context, method, target, body string) answer {
	if strings.HasPrefix(target, "/") {
		target = c.stack.Address() + target
	}
	request, err := http.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	if !strings.Contains(target, "/links/") {
		request.Header.Set("Authorization", "Bearer "+c.stack.Token())
		request.Header.Set("Content-Type", "application/vnd.api+json")
	}
	response, err := c.stack.HTTP.Do(request)
	if err != nil {
		return answer{}
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{}
	}
	return answer{response.StatusCode, content}
}

// insist repeats what got no answer or a 5xx, as tofu does, up to patience times.
func (c *crowd) insist(ctx context.Context, patience int, method, target, body string) (a answer) {
	for range patience {
		if a = c.ask(ctx, method, target, body); a.status != 0 && a.status < 500 {
			return a
		}
		pause(ctx, 200*time.Millisecond)
	}
	return a
}

// write reads, then writes the next serial, again and again. Some give up at the first error, so
// that nobody ever learns what became of their write; most repeat it until there is an answer.
func (c *crowd) write(ctx context.Context, writer int) {
	workspace := c.workspaces[writer%len(c.workspaces)]
	for n := 0; ctx.Err() == nil; n++ {
		seen, ok := c.read(ctx, workspace)
		if !ok {
			continue
		}
		patience := 50
		if rand.IntN(4) == 0 {
			patience = 1
		}
		c.publish(workspace, value{seen.serial + 1, fmt.Sprintf("%d-%d", writer, n)}, patience)
	}
}

// publish works outside of the traffic's context: what has begun is brought to an answer.
func (c *crowd) publish(workspace string, v value, patience int) {
	ctx := c.t.Context()
	content := stateOf(v)
	sum := md5.Sum([]byte(content))
	call := c.now()
	a := c.insist(ctx, patience, "POST", "/api/v2/workspaces/"+workspace+"/state-versions", fmt.Sprintf(
		`{"data":{"type":"state-versions","attributes":{"serial":%d,"lineage":"one","md5":%q}}}`, v.serial, hex.EncodeToString(sum[:])))
	if a.status == 200 || a.status == 201 {
		id := a.id()
		a = c.insist(ctx, patience, "PUT", a.document().Data.Attributes.UploadURL, content)
		if a.status == 200 {
			c.mu.Lock()
			c.acknowledged[id] = content
			c.mu.Unlock()
		}
	}
	o := output{outcome: unknown}
	switch {
	case a.status == 200:
		o.outcome = written
	case a.status == 409:
		o.outcome = refused
	case a.status != 0 && a.status < 500:
		c.t.Errorf("a write was answered %d: %s", a.status, a.body)
	}
	c.note(call, input{workspace, true, v}, o)
}

// stateOf is about 20 kB, so that an upload takes a while.
func stateOf(v value) string {
	return fmt.Sprintf(`{"version":4,"terraform_version":"1.12.0","serial":%d,"lineage":"one","outputs":{"mark":{"value":%q,"type":"string"},"rest":{"value":%q,"type":"string"}},"resources":[]}`,
		v.serial, v.mark, bytes.Repeat([]byte("x"), 20_000))
}

// read sees the current state by its bytes.
func (c *crowd) read(ctx context.Context, workspace string) (value, bool) {
	call := c.now()
	a := c.ask(ctx, "GET", "/api/v2/workspaces/"+workspace+"/current-state-version", "")
	switch a.status {
	case 404:
		c.note(call, input{workspace: workspace}, output{})
		return value{}, true
	case 200:
		bytes := c.ask(ctx, "GET", a.document().Data.Attributes.DownloadURL, "")
		if bytes.status == 200 {
			v := valueOf(bytes.body)
			c.note(call, input{workspace: workspace}, output{seen: v})
			return v, true
		}
	}
	return value{}, false
}

func valueOf(content []byte) value {
	var file struct {
		Serial  int
		Outputs struct{ Mark struct{ Value string } }
	}
	_ = json.Unmarshal(content, &file)
	return value{file.Serial, file.Outputs.Mark.Value}
}

func (c *crowd) now() int64 { return int64(time.Since(c.began)) }

// note records an operation that ended now; an unknown one may take effect at any later time.
func (c *crowd) note(call int64, in input, out output) {
	end := c.now()
	if in.write && out.outcome == unknown {
		end = int64(time.Hour)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.operations = append(c.operations, porcupine.Operation{Call: call, Return: end, Input: in, Output: out})
}

// readAll is the last word: what is current when everything is quiet.
func (c *crowd) readAll() {
	for _, w := range c.workspaces {
		require.Eventually(c.t, func() bool { _, ok := c.read(c.t.Context(), w); return ok }, 3*time.Minute, 100*time.Millisecond, "%s can be read", w)
	}
}

func (c *crowd) history() []porcupine.Operation { return c.operations }

func (c *crowd) counts() (done, refusals, lost int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.operations {
		switch in, out := o.Input.(input), o.Output.(output); {
		case !in.write:
		case out.outcome == written:
			done++
		case out.outcome == refused:
			refusals++
		default:
			lost++
		}
	}
	return done, refusals, lost
}

func (c *crowd) reads() (n int) {
	for _, o := range c.operations {
		if !o.Input.(input).write {
			n++
		}
	}
	return n
}

// mustBeWhole demands each acknowledged version, finalized and to the byte.
func (c *crowd) mustBeWhole(t *testing.T) {
	t.Helper()
	for id, content := range c.acknowledged {
		a := c.insist(t.Context(), 50, "GET", "/api/v2/state-versions/"+id, "")
		require.Equal(t, 200, a.status, "%s was acknowledged", id)
		require.Equal(t, "finalized", a.document().Data.Attributes.Status)
		stored := c.insist(t.Context(), 50, "GET", a.document().Data.Attributes.DownloadURL, "")
		require.Equal(t, 200, stored.status, id)
		assert.True(t, content == string(stored.body), "%s holds other bytes than were acknowledged", id)
	}
}
