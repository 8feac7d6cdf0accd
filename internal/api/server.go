package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// maxBody bounds what a caller may send: a house's files are some kilobytes.
const maxBody = 4 << 20

// A change may be on trial for so long, and its reason have so many bytes.
const (
	maxTrial = 24 * time.Hour
	maxWhy   = 1000
)

// Daemon is what the API asks the running gateway. Its methods are called from
// many goroutines at once.
type Daemon interface {
	Status(context.Context) (Status, error)
	// Changed returns a channel that is closed when Status has something new.
	Changed() <-chan struct{}
	Leases(context.Context) ([]Lease, error)
	// Why explains a connection from one end to another, in people's words.
	Why(ctx context.Context, from, to, protocol string) (Why, error)
	Plan(context.Context, Change) (Outcome, error)
	Apply(context.Context, Change) (Outcome, error)
	// Rollback puts a file in force that was before; change has no files.
	Rollback(context.Context, Change) (Outcome, error)
	// Confirm keeps the file that is on trial.
	Confirm(ctx context.Context, who string) (File, error)
	// History tells which files were in force, the newest first.
	History(context.Context) ([]Past, error)
	// Use has new connections take a WAN while it works.
	Use(context.Context, Choice) (Used, error)
	// Down takes everything apart and ends the daemon.
	Down(context.Context) error
	// InForce returns the text of the files in force back changes ago; 0 is now.
	InForce(ctx context.Context, back int) ([]Source, error)
	// Refused calls each with what was refused lately, and then, if follow is
	// set, with what is refused until ctx is done or each returns an error.
	Refused(ctx context.Context, follow bool, each func(Refused) error) error
	// Asked does the same with the names that are asked for.
	Asked(ctx context.Context, follow bool, each func(Asked) error) error
	// Traffic calls each with who sends how much, once after q.Every, or with q.Watch
	// whenever that is over until ctx is done or each returns an error.
	Traffic(ctx context.Context, q TrafficQuery, each func(Traffic) error) error
}

// Error is an error with the HTTP status and the body that tell of it. The
// server answers with it, and the client gives it back.
type Error struct {
	Status int
	Problem
}

func (e *Error) Error() string { return e.Title }

// Handler serves d. Every path is below /v1/.
func Handler(d Daemon) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("watch") {
			watch(w, r, d)
			return
		}
		answer(d.Status)(w, r)
	})
	mux.HandleFunc("GET /v1/leases", answer(d.Leases))
	mux.HandleFunc("GET /v1/why", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		answer(func(ctx context.Context) (Why, error) {
			return d.Why(ctx, q.Get("from"), q.Get("to"), q.Get("protocol"))
		})(w, r)
	})
	mux.HandleFunc("GET /v1/file", func(w http.ResponseWriter, r *http.Request) {
		back := 0
		if q := r.URL.Query(); q.Has("back") {
			var err error
			if back, err = strconv.Atoi(q.Get("back")); err != nil {
				refuse(w, &Error{http.StatusBadRequest, Problem{Title: fmt.Sprintf("back=%s is no number of changes", q.Get("back"))}})
				return
			}
		}
		answer(func(ctx context.Context) ([]Source, error) { return d.InForce(ctx, back) })(w, r)
	})
	mux.HandleFunc("GET /v1/history", answer(d.History))
	mux.HandleFunc("POST /v1/confirm", func(w http.ResponseWriter, r *http.Request) {
		answer(func(ctx context.Context) (File, error) { return d.Confirm(ctx, who(ctx, "")) })(w, r)
	})
	mux.HandleFunc("POST /v1/plan", change(d.Plan, true))
	mux.HandleFunc("POST /v1/apply", change(d.Apply, true))
	mux.HandleFunc("POST /v1/rollback", change(d.Rollback, false))
	mux.HandleFunc("POST /v1/use", func(w http.ResponseWriter, r *http.Request) {
		var c Choice
		if err := body(w, r, &c); err != nil {
			refuse(w, &Error{http.StatusBadRequest, Problem{Title: "the request is not a choice as docs/api.md has it: " + err.Error()}})
			return
		}
		c.By = who(r.Context(), c.By)
		answer(func(ctx context.Context) (Used, error) { return d.Use(ctx, c) })(w, r)
	})
	mux.HandleFunc("POST /v1/down", func(w http.ResponseWriter, r *http.Request) {
		if err := d.Down(r.Context()); err != nil {
			refuse(w, err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /v1/log", streamed(d.Refused))
	mux.HandleFunc("GET /v1/asked", streamed(d.Asked))
	mux.HandleFunc("GET /v1/traffic", traffic(d))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, &Error{http.StatusNotFound, Problem{Title: "there is no " + r.Method + " " + r.URL.Path + " here; this weir speaks /v1/ as docs/api.md has it"}})
	})
	return mux
}

// traffic is the handler of who sends how much.
func traffic(d Daemon) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q, err := trafficQuery(r.URL.Query())
		if err != nil {
			refuse(w, &Error{http.StatusBadRequest, Problem{Title: err.Error()}})
			return
		}
		streamed(func(ctx context.Context, _ bool, each func(Traffic) error) error { return d.Traffic(ctx, q, each) })(w, r)
	}
}

// streamed is the handler of what goes on for as long as there is something to tell.
func streamed[T any](tell func(context.Context, bool, func(T) error) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		send := stream(w)
		err := tell(r.Context(), r.URL.Query().Has("follow"), func(v T) error { return send(v) })
		if err != nil && r.Context().Err() == nil {
			refuse(w, err)
		}
	}
}

// answer is the handler of what only tells.
func answer[T any](ask func(context.Context) (T, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := ask(r.Context())
		if err != nil {
			refuse(w, err)
			return
		}
		reply(w, v)
	}
}

// change is the handler of what takes a Change, which files says has to have
// files, and gives an Outcome.
func change(do func(context.Context, Change) (Outcome, error), files bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var c Change
		err := body(w, r, &c)
		switch {
		case err != nil:
		case files && len(c.Files) == 0:
			err = errors.New("files is missing")
		case c.ConfirmS < 0 || c.ConfirmS > maxTrial.Seconds():
			err = fmt.Errorf("confirm_s is %v, and at most %v", c.ConfirmS, maxTrial.Seconds())
		case c.Back < 0:
			err = fmt.Errorf("back is %d", c.Back)
		case len(c.Why) > maxWhy:
			err = fmt.Errorf("why has %d bytes, and at most %d", len(c.Why), maxWhy)
		}
		if err != nil {
			refuse(w, &Error{http.StatusBadRequest, Problem{Title: "the request is not a change as docs/api.md has it: " + err.Error()}})
			return
		}
		c.Who = who(r.Context(), c.Who)
		if c.Session != nil {
			c.Who += " from " + c.Session.Peer
		}
		out, err := do(r.Context(), c)
		if err != nil {
			refuse(w, err)
			return
		}
		reply(w, out)
	}
}

// body reads the one JSON object that a request has to have.
func body(w http.ResponseWriter, r *http.Request, into any) error {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	d.DisallowUnknownFields() // a misspelt confirm_s must not be taken for none
	err := d.Decode(into)
	if err == nil && !errors.Is(d.Decode(&struct{}{}), io.EOF) {
		err = errors.New("something follows it")
	}
	return err
}

// watch sends the status now and after each change, a line each, but not more
// often than four times a second.
func watch(w http.ResponseWriter, r *http.Request, d Daemon) {
	send := stream(w)
	pace := time.NewTicker(250 * time.Millisecond)
	defer pace.Stop()
	for {
		changed := d.Changed() // before Status: a change in between is not lost
		s, err := d.Status(r.Context())
		if err != nil || send(s) != nil {
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
		select {
		case <-pace.C:
		case <-r.Context().Done():
			return
		}
	}
}

// stream returns a function that sends one JSON object as a line, at once.
func stream(w http.ResponseWriter) func(any) error {
	w.Header().Set("Content-Type", "application/x-ndjson")
	enc, flush := json.NewEncoder(w), http.NewResponseController(w)
	return func(v any) error {
		if err := enc.Encode(v); err != nil {
			return err
		}
		return flush.Flush()
	}
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ") // people ask with curl, too
	_ = enc.Encode(v)       // the caller is gone: nobody is left to tell
}

func refuse(w http.ResponseWriter, err error) {
	var e *Error
	if !errors.As(err, &e) {
		e = &Error{http.StatusInternalServerError, Problem{Title: err.Error()}}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.Status)
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	_ = enc.Encode(e.Problem)
}
