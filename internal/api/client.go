package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"syscall"
)

// ErrNoDaemon says that nobody listens on the socket: weir does not run there.
var ErrNoDaemon = errors.New("weir is not running")

// Client asks a running weir. Its errors are an *Error where the daemon
// answered, and wrap ErrNoDaemon where there is none.
type Client struct {
	path string
	http *http.Client
}

// NewClient returns a client of the daemon whose socket is at path. It does not
// connect yet.
func NewClient(path string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}
	return &Client{path: path, http: &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}}
}

// Status asks for the gateway's status.
func (c *Client) Status(ctx context.Context) (Status, error) {
	return get[Status](ctx, c, "/v1/status")
}

// WatchStatus calls each with the status now and after every change, until ctx
// is done or the daemon ends.
func (c *Client) WatchStatus(ctx context.Context, each func(Status) error) error {
	return lines(ctx, c, "/v1/status?watch", each)
}

// Leases asks for the leases of the LANs' clients.
func (c *Client) Leases(ctx context.Context) ([]Lease, error) {
	return get[[]Lease](ctx, c, "/v1/leases")
}

// Why asks what becomes of a connection; protocol may be empty.
func (c *Client) Why(ctx context.Context, from, to, protocol string) (Why, error) {
	return get[Why](ctx, c, "/v1/why?"+url.Values{"from": {from}, "to": {to}, "protocol": {protocol}}.Encode())
}

// InForce asks for the text of the files that were in force back changes ago; 0 is
// now.
func (c *Client) InForce(ctx context.Context, back int) ([]Source, error) {
	return get[[]Source](ctx, c, fmt.Sprintf("/v1/file?back=%d", back))
}

// History asks which files were in force, the newest first.
func (c *Client) History(ctx context.Context) ([]Past, error) {
	return get[[]Past](ctx, c, "/v1/history")
}

// Confirm keeps the file that is on trial.
func (c *Client) Confirm(ctx context.Context) (File, error) {
	return post[File](ctx, c, "/v1/confirm", struct{}{})
}

// Plan asks what a change would do.
func (c *Client) Plan(ctx context.Context, ch Change) (Outcome, error) {
	return c.change(ctx, "/v1/plan", ch)
}

// Apply puts a file in force.
func (c *Client) Apply(ctx context.Context, ch Change) (Outcome, error) {
	return c.change(ctx, "/v1/apply", ch)
}

// Rollback puts the file in force that was before.
func (c *Client) Rollback(ctx context.Context, ch Change) (Outcome, error) {
	return c.change(ctx, "/v1/rollback", ch)
}

// Use has new connections take a WAN while it works; the WAN "" leaves it to
// failover.
func (c *Client) Use(ctx context.Context, ch Choice) (Used, error) {
	return post[Used](ctx, c, "/v1/use", ch)
}

// Down has the daemon take apart what it made, and end. When it returns without
// an error the machine is as it was found.
func (c *Client) Down(ctx context.Context) error {
	r, err := c.do(ctx, http.MethodPost, "/v1/down", nil)
	if err != nil {
		return err
	}
	return r.Close()
}

// Refused calls each with what was refused lately, and with follow what is
// refused from now on, until ctx is done or the daemon ends.
func (c *Client) Refused(ctx context.Context, follow bool, each func(Refused) error) error {
	return follows(ctx, c, "/v1/log", follow, each)
}

// Asked does the same with the names that are asked for.
func (c *Client) Asked(ctx context.Context, follow bool, each func(Asked) error) error {
	return follows(ctx, c, "/v1/asked", follow, each)
}

// Traffic calls each with who sends how much: once after q.Every, or with q.Watch
// whenever that is over until ctx is done or the daemon ends.
func (c *Client) Traffic(ctx context.Context, q TrafficQuery, each func(Traffic) error) error {
	return lines(ctx, c, "/v1/traffic?"+q.values().Encode(), each)
}

func follows[T any](ctx context.Context, c *Client, path string, follow bool, each func(T) error) error {
	if follow {
		path += "?follow"
	}
	return lines(ctx, c, path, each)
}

func (c *Client) change(ctx context.Context, path string, ch Change) (Outcome, error) {
	return post[Outcome](ctx, c, path, ch)
}

func post[T any](ctx context.Context, c *Client, path string, what any) (T, error) {
	var v T
	body, err := json.Marshal(what)
	if err != nil {
		return v, err
	}
	r, err := c.do(ctx, http.MethodPost, path, bytes.NewReader(body))
	if err != nil {
		return v, err
	}
	defer r.Close()
	if err := json.NewDecoder(r).Decode(&v); err != nil {
		return v, fmt.Errorf("read the answer of weir at %s: %w", c.path, err)
	}
	return v, nil
}

func get[T any](ctx context.Context, c *Client, path string) (T, error) {
	var v T
	r, err := c.do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return v, err
	}
	defer r.Close()
	if err := json.NewDecoder(r).Decode(&v); err != nil {
		return v, fmt.Errorf("read the answer of weir at %s: %w", c.path, err)
	}
	return v, nil
}

// lines reads one JSON object a line. A clean end is no error.
func lines[T any](ctx context.Context, c *Client, path string, each func(T) error) error {
	r, err := c.do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer r.Close()
	for d := json.NewDecoder(r); ; {
		var v T
		switch err := d.Decode(&v); {
		case errors.Is(err, io.EOF), ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("weir at %s broke off: %w", c.path, err)
		}
		if err := each(v); err != nil {
			return err
		}
	}
}

// do sends a request and returns the body of a 2xx answer.
func (c *Client) do(ctx context.Context, method, path string, body io.Reader) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://weir"+path, body)
	if err != nil {
		return nil, err
	}
	res, err := c.http.Do(req)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("%w: nobody listens on %s; start it with `weir run FILE`, or name its --runtime-dir", ErrNoDaemon, c.path)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("ask weir at %s: %w; it answers root and the group of `api { group }`", c.path, fs.ErrPermission)
	case err != nil:
		return nil, fmt.Errorf("ask weir at %s: %w", c.path, err)
	case res.StatusCode/100 == 2:
		return res.Body, nil
	}
	defer res.Body.Close()
	e := &Error{Status: res.StatusCode}
	if err := json.NewDecoder(io.LimitReader(res.Body, maxBody)).Decode(&e.Problem); err != nil || e.Title == "" {
		e.Title = "weir at " + c.path + " answered " + res.Status
	}
	return nil, e
}
