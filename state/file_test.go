package state_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"sort"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/state"
)

func read(text string) (state.File, error) { return state.ReadFile(strings.NewReader(text)) }

func mustRead(t *testing.T, text string) state.File {
	t.Helper()
	f, err := read(text)
	require.NoError(t, err)
	return f
}

func TestReadFileAsTofuWritesIt(t *testing.T) {
	t.Parallel()
	f, err := state.ReadFile(iotest.OneByteReader(bytes.NewReader(file(12, lineage, "é→🙂"))))
	require.NoError(t, err)
	assert.Equal(t, []any{int64(12), lineage, "1.10.6", false, true, true}, []any{f.Serial, f.Lineage, f.TerraformVersion, f.Encrypted, f.HasSerial, f.HasLineage})
	require.Len(t, f.Outputs, 2)
	assert.Equal(t, `"é→🙂"`, string(f.Outputs[0].Value))
	assert.Equal(t, []any{"password", true, `["object",{"a":["list","string"]}]`}, []any{f.Outputs[1].Name, f.Outputs[1].Sensitive, string(f.Outputs[1].Type)})
	assert.Equal(t, []state.Resource{{Module: `module.net["a"]`, Mode: "managed", Type: "terraform_data", Name: "one", Provider: `provider["terraform.io/builtin/terraform"]`, Instances: 2, Keys: []string{"0", "1"}}}, f.Resources)
	assert.Equal(t, 1, f.ResourceCount)
}

func TestReadFileInUnusualForms(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"no white space":   `{"serial":3,"lineage":"l","outputs":{"o":{"value":1,"type":"number"}}}`,
		"much white space": " \r\n\t{ \"serial\" :\n 3 ,\t\"lineage\" : \"l\" , \"outputs\" : { \"o\" : { \"value\" : 1 , \"type\" : \"number\" } } } \n\n",
		"serial last":      `{"outputs":{"o":{"type":"number","value":1}},"resources":[],"check_results":null,"lineage":"l","serial":3}`,
		"escaped keys":     `{"\u0073erial":3,"line\u0061ge":"\u006c","outputs":{"\u006f":{"value":1,"type":"number"}}}`,
		"unknown members":  `{"x":[{"serial":9,"lineage":["z"]},-1.5e+10,true,false,null,"\\\"\/\b\f\n\r\t\uD83D\uDE42"],"serial":3,"lineage":"l","outputs":{"o":{"value":1,"type":"number"}}}`,
		"other cases":      `{"Serial":3,"LINEAGE":"l","Outputs":{"o":{"value":1,"type":"number"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			f := mustRead(t, text)
			assert.Equal(t, []any{int64(3), "l", true, true}, []any{f.Serial, f.Lineage, f.HasSerial, f.HasLineage})
			require.Len(t, f.Outputs, 1)
			assert.Equal(t, []any{"o", "1"}, []any{f.Outputs[0].Name, string(f.Outputs[0].Value)})
		})
	}
}

func TestReadFileResources(t *testing.T) {
	t.Parallel()
	f := mustRead(t, `{"serial":0,"lineage":"","resources":[
		{"mode":"data","type":"t","name":"none","provider":"p","instances":[]},
		{"name":"three","instances":[{"attributes":{"a":[1,{"b":2}]}},{},{}],"each":"list"},
		{"module":null,"name":"odd","instances":null}, 7, null]}`)
	assert.Equal(t, []state.Resource{{Mode: "data", Type: "t", Name: "none", Provider: "p"}, {Name: "three", Instances: 3}, {Name: "odd"}}, f.Resources)
	assert.Equal(t, 3, f.ResourceCount)
}

func TestReadFileEncrypted(t *testing.T) {
	t.Parallel()
	f := mustRead(t, `{"serial":4,"lineage":"l","meta":{"k":"e30="},"encrypted_data":"QUFB","encryption_version":"v0"}`)
	assert.Equal(t, []any{true, int64(4), "l", true, true}, []any{f.Encrypted, f.Serial, f.Lineage, f.HasSerial, f.HasLineage})
	f = mustRead(t, `{"meta":{"k":"e30="},"encrypted_data":"QUFB","encryption_version":"v0"}`)
	assert.Equal(t, []any{true, false, false}, []any{f.Encrypted, f.HasSerial, f.HasLineage})
}

func TestReadFileSerials(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"0": 0, "1": 1, "9223372036854775807": math.MaxInt64} {
		f := mustRead(t, `{"serial":`+text+`}`)
		assert.Equal(t, want, f.Serial)
	}
	for _, text := range []string{"-1", "-0", "1.0", "1e3", "9223372036854775808", "18446744073709551615", `"1"`, "null", "true", "[1]", "01", "+1", strings.Repeat("9", 5000), `"` + strings.Repeat("9", 2<<20) + `"`} {
		_, err := read(`{"serial":` + text + `}`)
		wantFault(t, err, fault.Invalid, "state_malformed")
	}
}

func TestReadFileRefuses(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"nothing":              ``,
		"space":                ` `,
		"another value":        `"serial"`,
		"array":                `[{"serial":1}]`,
		"byte order mark":      "\ufeff{}",
		"trailing value":       `{}{}`,
		"trailing text":        `{"serial":1} x`,
		"trailing zero":        "{}\x00",
		"truncated":            `{"serial":1,"lineage":"l`,
		"truncated key":        `{"ser`,
		"truncated escape":     `{"a":"\`,
		"truncated number":     `{"serial":1`,
		"trailing comma":       `{"serial":1,}`,
		"comma in array":       `{"a":[1,]}`,
		"leading comma":        `{,"serial":1}`,
		"no comma":             `{"serial":1 "lineage":"l"}`,
		"no colon":             `{"serial" 1}`,
		"no value":             `{"serial":}`,
		"null as a key":        `{null:1}`,
		"number as a key":      `{1:1}`,
		"null as a deep key":   `{"a":{null:1}}`,
		"wrong bracket":        `{"a":[1}}`,
		"bad literal":          `{"a":nul}`,
		"bad number":           `{"a":1.}`,
		"bad escape":           `{"a":"\x"}`,
		"bad unicode escape":   `{"a":"\u12g4"}`,
		"short unicode escape": `{"a":"\u12"}`,
		"line feed in string":  "{\"a\":\"x\ny\"}",
		"zero in string":       "{\"a\":\"x\x00y\"}",
		"serial twice":         `{"serial":1,"lineage":"l","serial":1}`,
		"serial in two cases":  `{"serial":1,"Serial":2}`,
		"lineage twice":        `{"lineage":"l","lineage":"m"}`,
		"long s as s":          `{"serial":1,"ſerial":2}`,
		"outputs twice":        `{"outputs":{},"outputs":{}}`,
		"resources twice":      `{"resources":[],"resources":[]}`,
		"output twice":         `{"outputs":{"a":{},"a":{}}}`,
		"output of other form": `{"outputs":{"a":"x"}}`,
		"sensitive as text":    `{"outputs":{"a":{"sensitive":"yes"}}}`,
		"lineage as number":    `{"lineage":1}`,
		"zero in lineage":      `{"lineage":"a\u0000b"}`,
		"zero in version":      `{"terraform_version":"1\u0000"}`,
		"long lineage":         `{"lineage":"` + strings.Repeat("l", 256) + `"}`,
		"long name":            `{"terraform_version":"` + strings.Repeat("l", 1<<20) + `"}`,
		"too deep":             `{"a":` + strings.Repeat("[", 1100) + strings.Repeat("]", 1100) + `}`,
		"far too deep":         `{"a":` + strings.Repeat(`{"a":`, 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			f, err := read(text)
			wantFault(t, err, fault.Invalid, "state_malformed")
			assert.Zero(t, f)
			_, err = state.ReadFile(iotest.OneByteReader(strings.NewReader(text[:min(len(text), 10_000)])))
			assert.Error(t, err)
		})
	}
	_, err := read(`{"a":` + strings.Repeat("[", 900) + strings.Repeat("]", 900) + `}`)
	assert.NoError(t, err, "deep, but not too deep")
}

func TestReadFileTellsNothingOfWhatItReads(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	for _, text := range []string{
		`{"lineage":["hunter2"]}`, `{"serial":"hunter2"}`, `{"outputs":{"hunter2":"hunter2"}}`, `{"outputs":{"hunter2":{},"hunter2":{}}}`, `hunter2`, `{"a" hunter2}`, `{hunter2:1}`, `{"a":hunter2}`,
	} {
		_, err := read(text)
		wantFault(t, err, fault.Invalid, "state_malformed")
		assert.NotContains(t, err.Error(), secret)
	}
}

// What the reader says is not taken for a fault of the file: a request that broke
// off is not a malformed state.
func TestReadFilePassesOnErrors(t *testing.T) {
	t.Parallel()
	for _, broke := range []error{io.ErrUnexpectedEOF, errors.New("gone")} {
		for _, text := range []string{``, `{"serial":1`, `{"lineage":"x`, `{"outputs":{"a":{"value":`, `{"serial":1}`} {
			_, err := state.ReadFile(io.MultiReader(strings.NewReader(text), iotest.ErrReader(broke)))
			assert.Equal(t, broke, err, text)
		}
	}
}

func TestReadFileOutputsOverTheLimit(t *testing.T) {
	t.Parallel()
	big := `{"value":"` + strings.Repeat("x", 5<<20) + `","type":"string"}`
	f := mustRead(t, `{"serial":1,"outputs":{"a":`+big+`},"lineage":"l"}`)
	assert.Equal(t, []any{false, 1}, []any{f.OutputsLeftOut, len(f.Outputs)})
	f = mustRead(t, `{"serial":1,"outputs":{"a":`+big+`,"b":`+big+`,"c":{}},"lineage":"l","resources":[{"name":"r"}]}`)
	assert.Equal(t, []any{true, 0}, []any{f.OutputsLeftOut, len(f.Outputs)}, "all or none")
	assert.Equal(t, []any{int64(1), "l", 1}, []any{f.Serial, f.Lineage, f.ResourceCount}, "and what follows is read")

	var many strings.Builder
	for i := range 10_001 {
		fmt.Fprintf(&many, `,"o%d":{"value":1,"type":"number"}`, i)
	}
	f = mustRead(t, `{"serial":1,"outputs":{`+many.String()[1:]+`}}`)
	assert.Equal(t, []any{true, 0}, []any{f.OutputsLeftOut, len(f.Outputs)})
}

// Names that the buffer cuts, that come again and that are escaped are read as
// encoding/json reads them.
func TestReadFileResourcesAsJSONReadsThem(t *testing.T) {
	t.Parallel()
	type block struct {
		Module    string `json:"module,omitempty"`
		Mode      string `json:"mode"`
		Type      string `json:"type"`
		Name      string `json:"name"`
		Provider  string `json:"provider"`
		Instances []any  `json:"instances"`
	}
	var blocks []block
	for i := range 6000 { // more names than are remembered, and more than the buffer holds
		blocks = append(blocks, block{
			Mode: "managed", Type: fmt.Sprintf("type_%d", i%7), Name: fmt.Sprintf("näme_%d", i), Provider: `provider["registry/x"]`,
			Module: strings.Repeat(fmt.Sprintf("module.m%d.", i), i%40), Instances: make([]any, i%3),
		})
	}
	content, err := json.Marshal(map[string]any{"serial": 1, "resources": blocks})
	require.NoError(t, err)
	for name, r := range map[string]io.Reader{"whole": bytes.NewReader(content), "in halves": iotest.HalfReader(bytes.NewReader(content)), "in bytes": iotest.OneByteReader(bytes.NewReader(content))} {
		f, err := state.ReadFile(r)
		require.NoError(t, err, name)
		require.Len(t, f.Resources, len(blocks), name)
		for i, b := range blocks {
			require.Equal(t, state.Resource{Module: b.Module, Mode: b.Mode, Type: b.Type, Name: b.Name, Provider: b.Provider, Instances: len(b.Instances)}, f.Resources[i], name)
		}
	}
}

func TestReadFileResourcesOverTheLimit(t *testing.T) {
	t.Parallel()
	const many = 400_000
	f := mustRead(t, `{"serial":1,"resources":[{}`+strings.Repeat(",{}", many-1)+`]}`)
	assert.Equal(t, []any{many, 0}, []any{f.ResourceCount, len(f.Resources)})
}

// pattern gives n bytes of a without keeping them.
type pattern struct {
	a byte
	n int
}

func (p *pattern) Read(b []byte) (int, error) {
	if p.n == 0 {
		return 0, io.EOF
	}
	b = b[:min(len(b), p.n)]
	for i := range b {
		b[i] = p.a
	}
	p.n -= len(b)
	return len(b), nil
}

// Not parallel: it measures the memory of the process.
func TestReadFileTakesAnyLengthInConstantMemory(t *testing.T) {
	size := 200 << 20
	if testing.Short() {
		size = 20 << 20
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f, err := state.ReadFile(io.MultiReader(strings.NewReader(`{"serial":5,"encrypted_data":"`), &pattern{'A', size}, strings.NewReader(`","lineage":"l"}`)))
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	assert.Equal(t, []any{true, int64(5), "l"}, []any{f.Encrypted, f.Serial, f.Lineage})
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20), "allocated in all")
}

// Strings are looked at in words of eight bytes: every byte, at every place of a word,
// is judged as encoding/json judges it, and so is an escape that the buffer cuts.
func TestReadFileJudgesEveryByteOfAString(t *testing.T) {
	t.Parallel()
	judge := func(content string, r io.Reader) {
		_, err := state.ReadFile(r)
		assert.Equalf(t, json.Valid([]byte(content)), err == nil, "%.100q: %v", content, err)
	}
	for place := range 9 {
		for c := range 256 {
			content := `{"x":"` + strings.Repeat("é", place/2) + strings.Repeat("a", place%2) + string([]byte{byte(c)}) + `n23456789"}`
			judge(content, strings.NewReader(content))
			if place == 0 {
				judge(content, iotest.OneByteReader(strings.NewReader(content)))
			}
		}
	}
	const buffer = 64 << 10
	for _, tail := range []string{`\n"}`, `\u00e9"}`, `\x"}`, `\u00g9"}`, "\x1f\"}", `"}`, `",}`, `","y":12345}`, `\`, ``} {
		for before := buffer - 24; before <= buffer+1; before++ {
			content := `{"x":"` + strings.Repeat("A", before-len(`{"x":"`)) + tail
			judge(content, strings.NewReader(content))
		}
	}
}

// FuzzReadFile compares with encoding/json, which is what tofu reads with: what
// ReadFile accepts is JSON, and the facts are the same.
func FuzzReadFile(f *testing.F) {
	f.Add(file(1, lineage, "é"))
	for _, seed := range []string{
		`{}`, `{"serial":1,"Serial":2}`, `{"serial":-0}`, `{"lineage":null,"serial":9223372036854775807}`, `{"outputs":{"a":{"value":{"b":[1,2.5e3,"\u00e9"]},"type":"string"}}}`,
		`{"outputs":null,"resources":{}}`, `{"resources":[{"name":"a","name":"b","instances":[1,[2]]},null,{"instances":{}}]}`, `{"encrypted_data":"QQ==","meta":{}}`,
		`{"a":[],"b":{},"c":[[]],"d":{"e":{}}}`, `{"a":1,}`, `{null:1}`, "{\"a\":\"\xff\"}", "{\"\xff\":1,\"\xfe\":2}", `{"outputs":{"a":null}}`, ` { "serial" : 01 } `,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		got, err := state.ReadFile(bytes.NewReader(content))
		if err != nil {
			assert.Truef(t, fault.HasCode(err, "state_malformed"), "%v", err)
			return
		}
		require.True(t, json.Valid(content), "accepted, but not JSON: %q", content)
		want := decode(t, content)
		assert.Equal(t, want.serial, got.Serial)
		assert.Equal(t, want.lineage, got.Lineage)
		assert.Equal(t, want.version, got.TerraformVersion)
		assert.Equal(t, want.encrypted, got.Encrypted)
		for i := range got.Resources {
			assert.True(t, got.Resources[i].Keys == nil || len(got.Resources[i].Keys) == got.Resources[i].Instances, "a key for each instance, or none")
			got.Resources[i].Keys = nil // how they are written is another test's
		}
		assert.Equal(t, want.resources, got.Resources)
		sort.Slice(got.Outputs, func(i, j int) bool { return got.Outputs[i].Name < got.Outputs[j].Name })
		assert.Equal(t, want.outputs, got.Outputs)
	})
}

type facts struct {
	serial           int64
	lineage, version string
	encrypted        bool
	outputs          []state.FileOutput
	resources        []state.Resource
}

// decode reads the facts with encoding/json.
func decode(t *testing.T, content []byte) (want facts) {
	var whole struct {
		Serial    int64           `json:"serial"`
		Lineage   string          `json:"lineage"`
		Version   string          `json:"terraform_version"`
		Encrypted *any            `json:"encrypted_data"`
		Outputs   json.RawMessage `json:"outputs"`
		Resources json.RawMessage `json:"resources"`
	}
	var members map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(content, &whole))
	require.NoError(t, json.Unmarshal(content, &members))
	want = facts{serial: whole.Serial, lineage: whole.Lineage, version: whole.Version}
	for name := range members {
		want.encrypted = want.encrypted || strings.EqualFold(name, "encrypted_data")
	}
	var outputs map[string]json.RawMessage
	if json.Unmarshal(whole.Outputs, &outputs) == nil {
		for name, raw := range outputs {
			var o state.FileOutput
			require.NoError(t, json.Unmarshal(raw, &o))
			o.Name = name
			want.outputs = append(want.outputs, o)
		}
		sort.Slice(want.outputs, func(i, j int) bool { return want.outputs[i].Name < want.outputs[j].Name })
	}
	var resources []json.RawMessage
	if json.Unmarshal(whole.Resources, &resources) == nil {
		for _, raw := range resources {
			var r map[string]json.RawMessage
			if json.Unmarshal(raw, &r) != nil || r == nil {
				continue
			}
			text := func(name string) (s string) {
				if raw, there := r[name]; there {
					require.NoError(t, json.Unmarshal(raw, &s))
				}
				return s
			}
			var instances []json.RawMessage
			_ = json.Unmarshal(r["instances"], &instances) // not a list: none
			want.resources = append(want.resources, state.Resource{
				Module: text("module"), Mode: text("mode"), Type: text("type"), Name: text("name"), Provider: text("provider"), Instances: len(instances),
			})
		}
	}
	return want
}

// BenchmarkReadFile reads what tofu encrypted (one long string), and what it wrote in
// plain: indented, with the attributes of every instance.
func BenchmarkReadFile(b *testing.B) {
	resource := `    {
      "module": "module.net",
      "mode": "managed",
      "type": "terraform_data",
      "name": "one",
      "provider": "provider[\"terraform.io/builtin/terraform\"]",
      "instances": [
        {
          "schema_version": 0,
          "attributes": {
            "id": "0dbd8f9a-3f1a-7a52-46fc-4b2a1d0f6f9b",
            "arn": "arn:aws:iam::123456789012:policy/a-policy-of-some-length",
            "policy": "{\"Version\":\"2012-10-17\",\"Statement\":[{\"Effect\":\"Allow\",\"Action\":[\"s3:GetObject\",\"s3:PutObject\"],\"Resource\":\"*\"}]}",
            "tags": {
              "Name": "one",
              "Owner": "platform"
            },
            "size": 1024,
            "timeouts": null
          },
          "sensitive_attributes": []
        }
      ]
    }`
	for name, content := range map[string]string{
		"encrypted": `{"serial":5,"lineage":"l","encrypted_data":"` + strings.Repeat("QUJD", 2<<20) + `"}`,
		"plain":     `{"serial":5,"lineage":"l","resources":[` + resource + strings.Repeat(",\n"+resource, 7000) + `]}`,
		"escapes":   `{"serial":5,"lineage":"l","x":"` + strings.Repeat(`\n`, 4<<20) + `"}`,
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(content)))
			b.ReportAllocs()
			for b.Loop() {
				_, err := state.ReadFile(strings.NewReader(content))
				require.NoError(b, err)
			}
		})
	}
}
