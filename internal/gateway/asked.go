package gateway

import (
	"context"
	"net/http"

	"weir/internal/api"
	"weir/internal/dns"
	"weir/internal/tail"
	"weir/internal/worker"
)

// askedKept is how many questions `weir log --dns` can look back.
const askedKept = 1000

// answers decodes the reports of who answers names. The questions among them are
// kept, and none of the loop's business; the rest it takes.
func answers[R any](kept *tail.Log[dns.Asked], asked func(R) []dns.Asked, take func(R)) func(*worker.Child, worker.Message) (func(), error) {
	return func(_ *worker.Child, m worker.Message) (func(), error) {
		defer m.Close()
		var r R
		if err := m.Decode(&r); err != nil {
			return nil, err
		}
		if of := asked(r); len(of) > 0 {
			kept.Add(of, 0)
			return nil, nil
		}
		return func() { take(r) }, nil
	}
}

// Asked tells which names were asked for, and with follow which are from now on.
func (d *daemon) Asked(ctx context.Context, follow bool, each func(api.Asked) error) error {
	on, err := call(ctx, d, func() (bool, error) { return d.cfg.DNS.Log, nil })
	if err != nil {
		return err
	}
	if !on {
		return &api.Error{Status: http.StatusConflict, Problem: api.Problem{Title: "the names that are asked for are not kept; write dns { log = true } into the file, and weir apply"}}
	}
	return tellTail(ctx, d.questions, follow, func(a dns.Asked) error {
		v := api.Asked{At: a.At, Name: a.Name, Type: a.Type, Answer: a.Answer, Missed: a.Missed}
		if a.Client.IsValid() {
			v.Client = a.Client.String()
		}
		return each(v)
	})
}
