package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/config"
)

// ending is a server with two kinds of requests: /wait only waits for news, /work does something.
type ending struct {
	url    string
	tell   func()        // to stop
	served chan error    // what serve answered
	begun  chan struct{} // one value for each of them that has begun
	finish chan struct{} // closed: /work may finish
	cut    chan struct{} // closed when /work was cut off
}

func startEnding(t *testing.T, drain time.Duration) *ending {
	t.Helper()
	port, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	listen := port.Addr().String()
	require.NoError(t, port.Close())
	e := &ending{url: "http://" + listen, served: make(chan error, 1), begun: make(chan struct{}, 2), finish: make(chan struct{}), cut: make(chan struct{})}
	ctx, tell := context.WithCancel(t.Context())
	waiting, endWaiting := context.WithCancel(context.Background())
	t.Cleanup(endWaiting)
	e.tell = tell
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /wait", func(w http.ResponseWriter, r *http.Request) {
		e.begun <- struct{}{}
		select {
		case <-waiting.Done():
			w.WriteHeader(http.StatusNoContent)
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		}
	})
	mux.HandleFunc("PUT /work", func(w http.ResponseWriter, r *http.Request) {
		e.begun <- struct{}{}
		select {
		case <-e.finish:
			_, _ = io.Copy(w, r.Body)
		case <-r.Context().Done():
			close(e.cut)
			panic(http.ErrAbortHandler)
		}
	})
	go func() { e.served <- serve(ctx, config.Server{Listen: listen, DrainTimeout: drain}, mux, endWaiting) }()
	require.Eventually(t, func() bool {
		resp, err := http.Get(e.url)
		if err == nil {
			_ = resp.Body.Close()
		}
		return err == nil
	}, 2*time.Minute, 5*time.Millisecond)
	return e
}

// send makes a request and gives its status later, 0 for a broken connection.
func (e *ending) send(method, path string) <-chan int {
	status := make(chan int, 1)
	go func() {
		request, _ := http.NewRequest(method, e.url+path, http.NoBody)
		resp, err := http.DefaultClient.Do(request)
		if err != nil {
			status <- 0
			return
		}
		_ = resp.Body.Close()
		status <- resp.StatusCode
	}()
	return status
}

// A server that is told to stop answers those who only wait, and lets the others finish.
func TestAServerThatEndsLetsRequestsFinish(t *testing.T) {
	t.Parallel()
	e := startEnding(t, 10*time.Minute)
	waits, works := e.send(http.MethodGet, "/wait"), e.send(http.MethodPut, "/work")
	<-e.begun
	<-e.begun
	e.tell()
	assert.Equal(t, http.StatusNoContent, <-waits)
	_, err := net.Dial("tcp", e.url[len("http://"):])
	require.Error(t, err, "nobody can ask anew")
	select {
	case err := <-e.served:
		require.Fail(t, "it ended with a request at hand", fmt.Sprint(err))
	default:
	}
	close(e.finish)
	assert.Equal(t, http.StatusOK, <-works)
	require.NoError(t, <-e.served)
}

func TestRequestsThatDoNotFinishAreCutOff(t *testing.T) {
	t.Parallel()
	e := startEnding(t, time.Millisecond)
	works := e.send(http.MethodPut, "/work")
	<-e.begun
	e.tell()
	assert.Zero(t, <-works)
	<-e.cut
	require.NoError(t, <-e.served)
}
