package tfeapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// answer is what a handler gives back. Exactly one of document, json and stream is
// set, or none for an answer without a body.
type answer struct {
	status    int
	document  *document
	json      any // a plain JSON body, of the few addresses that are no JSON:API
	stream    io.ReadCloser
	size      int64  // of stream, or unknownSize
	mediaType string // of stream, or of json when it is another than application/json
}

func ok(v view, included ...view) answer {
	return answer{status: http.StatusOK, document: &document{one: v, included: included}}
}

func created(v view) answer {
	return answer{status: http.StatusCreated, document: &document{one: v}}
}

// page answers with one page of total things.
func page[V view](items []V, p paging, total int, included ...view) answer {
	return answer{status: http.StatusOK, document: &document{many: views(items), page: p.of(total), included: included}}
}

// all answers with a list that is never cut into pages.
func all[V view](items []V, included ...view) answer {
	drawn := page(items, paging{number: 1, size: max(1, len(items))}, len(items), included...)
	drawn.document.whole = true
	return drawn
}

// pageOf answers with a list that is whole in hand: with the page that is asked for, and with all
// of it when none is, for clients that ask so read no second page.
func pageOf[V view](r *request, items []V, included ...view) (answer, error) {
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	if !r.pageAsked() {
		return all(items, included...), nil
	}
	total := len(items)
	part := items[min(p.offset(), total):min(p.offset()+p.limit(), total)]
	related := map[ref]bool{}
	for _, item := range part {
		for _, target := range item.relations() {
			switch target := target.(type) {
			case ref:
				related[target] = true
			case []ref:
				for _, one := range target {
					related[one] = true
				}
			}
		}
	}
	var beside []view
	for _, v := range included {
		n, err := node(v)
		if err != nil {
			return answer{}, err
		}
		if related[ref{n.Type, n.ID}] {
			beside = append(beside, v)
		}
	}
	return page(part, p, total, beside...), nil
}

func noContent() answer { return answer{status: http.StatusNoContent} }
func accepted() answer  { return answer{status: http.StatusAccepted} }

// unknownSize is the size of a stream whose end shows only when it comes.
const unknownSize = -1

// download answers with bytes. Their type is never that of a document: the client
// takes any document for a signal about snapshots.
func download(body io.ReadCloser, size int64) answer {
	return answer{status: http.StatusOK, stream: body, size: size, mediaType: "application/octet-stream"}
}

// write sends the answer. An error means that nothing was sent yet.
func (a answer) write(w http.ResponseWriter) error {
	if a.stream != nil {
		a.writeStream(w)
		return nil
	}
	var body any
	mime := mediaType
	switch {
	case a.document != nil:
		payload, err := a.document.payload()
		if err != nil {
			return err
		}
		body = payload
	case a.json != nil:
		body, mime = a.json, "application/json"
		if a.mediaType != "" {
			mime = a.mediaType
		}
	default:
		w.WriteHeader(a.status)
		return nil
	}
	var buffer bytes.Buffer
	if err := json.NewEncoder(&buffer).Encode(body); err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	w.Header().Set("Content-Type", mime)
	w.Header().Set("Content-Length", strconv.Itoa(buffer.Len()))
	w.WriteHeader(a.status)
	_, _ = w.Write(buffer.Bytes()) // a client that left gets nothing
	return nil
}

// writeStream sends the bytes. When they fail half-way the connection is broken
// off, so that the client cannot take a part for the whole.
func (a answer) writeStream(w http.ResponseWriter) {
	defer func() { _ = a.stream.Close() }() // read to its end, or given up
	w.Header().Set("Content-Type", a.mediaType)
	if a.size != unknownSize {
		w.Header().Set("Content-Length", strconv.FormatInt(a.size, 10))
	}
	w.WriteHeader(a.status)
	if n, err := io.Copy(w, a.stream); err != nil || (a.size != unknownSize && n != a.size) {
		panic(http.ErrAbortHandler)
	}
}
