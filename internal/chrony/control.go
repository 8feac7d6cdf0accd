package chrony

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// control is the running chronyd, as chronyc reaches it.
type control struct{ program, socket string }

func controlOf(c Config) control {
	return control{c.Program.Control, filepath.Join(c.Run, socketFile)}
}

// do has chronyd do something. chronyc tries three times within 7 s.
func (k control) do(ctx context.Context, commands ...string) (string, error) {
	args := append([]string{"-h", k.socket, "-c", "-n", "-m"}, commands...)
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, k.program, args...)
	cmd.Env = []string{"LC_ALL=C", "TZ=UTC"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("chronyc %s: %w: %s", strings.Join(commands, ", "), err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}

// look asks how chronyd is doing.
func (k control) look(ctx context.Context) (Report, error) {
	out, err := k.do(ctx, "tracking", "sources")
	if err != nil {
		return Report{}, err
	}
	return parse(out)
}

// parse reads what chronyc -c -n says to tracking and sources: a line of 14
// fields, then one of 10 for each source (chronyc(1)). Names are not told.
func parse(text string) (Report, error) {
	r := csv.NewReader(strings.NewReader(text))
	r.FieldsPerRecord = -1
	rows, err := r.ReadAll()
	if err != nil {
		return Report{}, fmt.Errorf("what chronyc says can't be read: %w", err)
	}
	var out Report
	seen := false
	for _, f := range rows {
		switch len(f) {
		case 14:
			seen = true
			err = errors.Join(err, out.tracking(f))
		case 10:
			s, serr := source(f)
			out.Sources, err = append(out.Sources, s), errors.Join(err, serr)
		default:
			err = errors.Join(err, fmt.Errorf("chronyc says %q, which is neither tracking nor a source", strings.Join(f, ",")))
		}
	}
	if err == nil && !seen {
		err = errors.New("chronyc says nothing of tracking")
	}
	return out, err
}

// tracking takes in: reference id, address, stratum, time of the last update, what
// the clock is behind, ..., leap status.
func (r *Report) tracking(f []string) error {
	r.Synced = f[13] != "Not synchronised"
	if !r.Synced {
		return nil
	}
	stratum, err1 := strconv.Atoi(f[2])
	at, err2 := strconv.ParseFloat(f[3], 64)
	behind, err3 := strconv.ParseFloat(f[4], 64)
	if err := errors.Join(err1, err2, err3); err != nil {
		return fmt.Errorf("chronyc's tracking: %w", err)
	}
	r.Addr, _ = netip.ParseAddr(f[1]) // none: by no server
	r.Stratum, r.Updated, r.Behind = stratum, time.Unix(0, int64(at*1e9)).UTC(), seconds(behind)
	return nil
}

var states = map[string]State{"*": Selected, "+": Combined, "-": NotCombined, "x": Falseticker, "~": Variable, "?": Unreachable}

// source reads: mode, state, address or a name that has none yet, stratum, poll,
// reach in octal, seconds since the last answer, the adjusted offset, the measured
// one (positive: the clock is ahead), its error.
func source(f []string) (Source, error) {
	s := Source{State: states[f[1]]}
	var err error
	if s.Addr, err = netip.ParseAddr(f[2]); err != nil {
		s.Name = f[2]
	}
	stratum, err1 := strconv.Atoi(f[3])
	reach, err2 := strconv.ParseUint(f[5], 8, 8)
	off, err3 := strconv.ParseFloat(f[8], 64)
	if err := errors.Join(err1, err2, err3); err != nil {
		return s, fmt.Errorf("chronyc's sources: %w", err)
	}
	s.Stratum, s.Reach, s.Behind = stratum, uint8(reach), seconds(-off)
	return s, nil
}

// seconds is a number of them as a duration; what exceeds one is its bound.
func seconds(s float64) time.Duration {
	const most = float64(1<<63 - 1)
	return time.Duration(max(-most, min(s*1e9, most*0.999)))
}
