package blocklist

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"weir/internal/durable"
)

// How long a source may take.
const (
	fetchWithin  = 3 * time.Minute
	answerWithin = 20 * time.Second // to a connection, and to the beginning of the answer
	maxRedirects = 5
)

// validators tell whether a source has changed (RFC 9110, 8.8).
type validators struct {
	ETag     string `json:"etag,omitempty"`
	Modified string `json:"last_modified,omitempty"`
}

// client fetches lists. Names of servers are asked of the gateway's own resolver,
// which knows the line in use; the machine may have another one, or none.
func client(resolver string) *http.Client {
	d := &net.Dialer{Timeout: answerWithin, Resolver: &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, resolver)
	}}}
	return &http.Client{
		Transport: &http.Transport{
			DialContext: d.DialContext, TLSHandshakeTimeout: answerWithin, ResponseHeaderTimeout: answerWithin,
			MaxResponseHeaderBytes: 64 << 10, DisableKeepAlives: true, ForceAttemptHTTP2: true,
		},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			switch {
			case len(via) > maxRedirects:
				return fmt.Errorf("more than %d redirections", maxRedirects)
			case via[0].URL.Scheme == "https" && r.URL.Scheme != "https":
				return errors.New("it leads away from https")
			}
			return nil
		},
	}
}

// fetch fetches url into file, unless it is as old says. The file is there in whole
// or not at all.
func fetch(ctx context.Context, c *http.Client, url, file string, old validators) (now validators, changed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchWithin)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return old, false, err
	}
	q.Header.Set("User-Agent", "weir")
	if old.ETag != "" {
		q.Header.Set("If-None-Match", old.ETag)
	}
	if old.Modified != "" {
		q.Header.Set("If-Modified-Since", old.Modified)
	}
	r, err := c.Do(q)
	if err != nil {
		var name *net.DNSError
		if errors.As(err, &name) {
			name.Server = "weir's own resolver" // not the machine's, which it thinks that it asked
		}
		return old, false, err
	}
	defer r.Body.Close()
	switch {
	case r.StatusCode == http.StatusNotModified:
		return old, false, nil
	case r.StatusCode != http.StatusOK:
		return old, false, fmt.Errorf("get %s: the server says %s", url, r.Status)
	}
	// One byte more than is allowed tells that it is too much.
	body, err := unpacked(io.LimitReader(r.Body, maxBytes+1))
	if err != nil {
		return old, false, fmt.Errorf("get %s: %w", url, err)
	}
	err = durable.Machine.Write(file, public, func(w io.Writer) error {
		n, err := io.Copy(w, io.LimitReader(body, maxBytes+1))
		if err == nil && n > maxBytes {
			err = fmt.Errorf("it has more than %d MB", maxBytes>>20)
		}
		return err
	})
	if err != nil {
		return old, false, fmt.Errorf("get %s: %w", url, err)
	}
	return validators{ETag: r.Header.Get("ETag"), Modified: r.Header.Get("Last-Modified")}, true, nil
}

// unpacked takes gzip off what is packed in itself; what is packed only on its way
// the transport has unpacked.
func unpacked(r io.Reader) (io.Reader, error) {
	b := bufio.NewReader(r)
	if magic, _ := b.Peek(2); len(magic) == 2 && magic[0] == 0x1f && magic[1] == 0x8b {
		return gzip.NewReader(b)
	}
	return b, nil
}

// public is a list: nobody's secret, and BIND has to read it.
var public = durable.As{Mode: 0o644}
