package dns

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
)

// TestRecorder: what is told is bounded, clean, and nothing while it is off.
func TestRecorder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got [][]Asked
		r := NewRecorder(func(b []Asked) { got = append(got, b) })
		r.Add(Asked{Name: "off.example."})
		r.Record(true)
		r.Add(Asked{Name: "a\x1b[2J\u202e.example.", Type: "A\n", Answer: "blocked by \xff"})
		for i := range 1000 {
			r.Add(Asked{Name: fmt.Sprintf("%d.example.", i)})
		}
		time.Sleep(time.Second)
		synctest.Wait()
		r.Add(Asked{Name: strings.Repeat("x", 5000)})
		time.Sleep(time.Second)
		synctest.Wait()
		r.Record(false)
		r.Add(Asked{Name: "off.example."})
		time.Sleep(time.Second)
		synctest.Wait()
		if len(got) != 2 || len(got[0]) != batchMost+1 || got[0][batchMost].Missed != 1001-batchMost || len(got[1]) != 1 {
			t.Fatalf("batches: %d, %v", len(got), got)
		}
		if a := got[0][0]; a.Name != "a?[2J?.example" || a.Type != "A?" || a.Answer != "blocked by ?" {
			t.Errorf("not clean: %q %q %q", a.Name, a.Type, a.Answer)
		}
		if n := len(got[1][0].Name); n != 1020 {
			t.Errorf("a name of %d bytes", n)
		}
	})
}

// TestAsked: each question is told with what was answered.
func TestAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []Asked
		r := NewRecorder(func(b []Asked) { got = append(got, b...) })
		r.Record(true)
		s := &service{asked: r}
		lan := netip.MustParseAddr("172.31.0.50")
		s.answer(request{Msg: query("www.example.com.", dns.TypeA), client: lan, size: 1232}, answerCode(dns.RcodeSuccess))
		s.answer(request{Msg: query("ads.example.", dns.TypeAAAA), client: lan, size: 1232}, blocked("ads.example.", "ads"))
		time.Sleep(time.Second)
		synctest.Wait()
		if len(got) != 2 || got[0].Answer != "NOERROR" || got[0].Name != "www.example.com" || got[0].Type != "A" || got[0].Client != lan || got[1].Answer != "blocked by ads" {
			t.Errorf("told: %+v", got)
		}
	})
}
