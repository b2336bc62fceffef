package web

import (
	"log/slog"
	"net/http"

	"github.com/gorilla/mux"

	"github.com/holdfast-run/holdfast/clock"
)

// statusWriter remembers the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap leads http.ResponseController to what the writer can do besides.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// logged writes one line per page: the template of its address, never what a form or a query held.
func (d Deps) logged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		started, answer := clock.Now(), &statusWriter{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(answer, r)
		route, _ := mux.CurrentRoute(r).GetPathTemplate() // always there: only what matched a route comes here
		took := clock.Since(started)
		if d.Observe != nil {
			d.Observe(r.Method, route, answer.status, took)
		}
		d.Log.LogAttrs(r.Context(), slog.LevelInfo, "page", slog.String("method", r.Method), slog.String("route", route), slog.Int("status", answer.status), slog.Duration("duration", took))
	})
}
