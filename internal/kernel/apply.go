package kernel

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"weir/internal/desired"
	"weir/internal/plan"
)

// StepError says which step of a plan failed. What had been done before it was
// undone.
type StepError struct {
	Step  plan.Step
	N, Of int   // the step's number, from 1
	Err   error // of the step
	Undo  error // of undoing the steps before; nil: all were undone
}

func (e *StepError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %v\n", e.Step, e.Err)
	fmt.Fprintf(&b, "step %d of %d; ", e.N, e.Of)
	switch {
	case e.Undo != nil:
		fmt.Fprintf(&b, "of the %d before it some could not be undone, and what the kernel holds now is neither the old nor the new: %v", e.N-1, e.Undo)
	case e.N == 1:
		b.WriteString("nothing was changed")
	case e.N == 2:
		b.WriteString("the one before it was undone, and all is as it was")
	default:
		fmt.Fprintf(&b, "the %d before it were undone, and all is as it was", e.N-1)
	}
	if h := hint(e.Step, e.Err); h != "" {
		b.WriteString(". " + h)
	}
	return b.String()
}

func (e *StepError) Unwrap() error { return e.Err }

// hint says what to do about the likeliest errors.
func hint(s plan.Step, err error) string {
	switch {
	case errors.Is(err, unix.EPERM):
		return "weir needs CAP_NET_ADMIN and CAP_SYS_ADMIN here: run it as root"
	case errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EHOSTUNREACH):
		return "The gateway is in no network of that link, or the link is down"
	case errors.Is(err, unix.EEXIST):
		return "Somebody else made it in the meantime: `weir plan` shows how it is now"
	case errors.Is(err, unix.ENODEV):
		return "The link went away in the meantime: `weir plan` shows how it is now"
	}
	if m, ok := s.Do.(plan.MoveLink); ok && errors.Is(err, unix.EINVAL) {
		return fmt.Sprintf("The driver of %s does not let it be moved to another namespace", m.Link)
	}
	return ""
}

// ErrRefused says that a plan can't be carried out here; the error's text says
// why, and what to do.
var ErrRefused = errors.New("this plan can't be carried out here")

// Apply carries out a plan. When a step fails those before it are undone, in
// reverse order, and the error is a *StepError. Flows that can't be ended fail
// nothing: they come last, when others may have been ended already, and are the next
// plan's to end. A plan that refuses something changes nothing (ErrRefused). The
// kernel keeps p: it must not be changed afterwards. A plan is for the kernel as it
// was read: if it has changed since, a step may fail.
func (k *Kernel) Apply(ctx context.Context, p plan.Plan) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.apply(ctx, p)
}

func (k *Kernel) apply(ctx context.Context, p plan.Plan) error {
	if len(p.Refused) > 0 {
		return fmt.Errorf("%w: %s", ErrRefused, strings.Join(p.Refused, "; "))
	}
	if len(p.Steps) > 0 {
		if err := k.pauseFlows(); err != nil {
			return fmt.Errorf("have the fast path wait for a change of the kernel: %w", err)
		}
		k.addFound(p.Found)
	}
	var done []effect
	for i, s := range p.Steps {
		if k.opt.Progress != nil {
			k.opt.Progress()
		}
		if flows, ok := s.Do.(plan.DeleteFlows); ok {
			k.tryFlows(flows)
			continue
		}
		err := ctx.Err()
		var e effect
		if err == nil {
			e, err = k.do(ctx, s.Do)
		}
		if err == nil {
			done = append(done, e)
			continue
		}
		fail := &StepError{Step: s, N: i + 1, Of: len(p.Steps), Err: err}
		for j := len(done) - 1; j >= 0; j-- {
			if done[j].undo != nil {
				if k.opt.Progress != nil {
					k.opt.Progress()
				}
				if err := done[j].undo(); err != nil {
					fail.Undo = errors.Join(fail.Undo, fmt.Errorf("undo %s: %w", p.Steps[j], err))
				}
			}
			if done[j].keep != nil {
				done[j].keep()
			}
		}
		return fail
	}
	for _, e := range done {
		if e.keep != nil {
			e.keep()
		}
	}
	goal := p.Goal
	k.saveLast(&goal)
	k.forgetFound(p.Forget)
	return nil
}

// Down gives everything back: ports, addresses, routes and sysctls as they were
// found; what is weir's goes. Where that is not known any more it says so after
// having done what is possible.
func (k *Kernel) Down(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	a, err := k.read(ctx, desired.Desired{})
	if err != nil {
		return err
	}
	err = k.apply(ctx, plan.Diff(a, desired.Desired{}))
	if err == nil {
		k.setAside()
	}
	return errors.Join(err, k.foundLost)
}
