package rehearse

import (
	"testing"
	"time"

	"weir/internal/config"
)

// What a file says of its lines is what a rehearsal waits for and judges by; unsaid it
// is what weir promises.
func TestLimits(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	type limits struct{ noticed, doubted, unused, found, needed time.Duration }
	for _, c := range []struct {
		name, wan, rest string
		want            limits
	}{
		{"the defaults", ``, ``, limits{s, 4 * s, 2750 * ms, 2 * s, 250 * ms}},
		{"once a minute", `probe { every = "1m" }`, ``, limits{60750 * ms, 63750 * ms, 60750 * ms, time.Minute, time.Minute}},
		{"each second, for all", ``, `failover {
  probe { every = "1s" }
}`, limits{1750 * ms, 4750 * ms, 2750 * ms, 2 * s, s}},
		{"a quick one", `probe { every = "50ms" }`, ``, limits{800 * ms, 3800 * ms, 1150 * ms, 400 * ms, 50 * ms}},
		{"slow answers", `probe { timeout = "2s" }`, ``, limits{2500 * ms, 5500 * ms, 4250 * ms, 2 * s, 250 * ms}},
		{"metered", `metered = true`, ``, limits{4750 * ms, 15750 * ms, 30750 * ms, 30 * s, s}},
		{"metered, once a minute", "metered = true\n  probe { every = \"1m\" }", ``, limits{4750 * ms, 15750 * ms, 60750 * ms, time.Minute, time.Minute}},
		{"metered, and led to by a route", `metered = true`, `route "r" {
  from   = lan.home
  prefer = wan.a
}`, limits{4750 * ms, 15750 * ms, 30750 * ms, 2 * s, s}},
		{"led to by a route", ``, `route "r" {
  from  = lan.home
  never = wan.b
}`, limits{s, 4 * s, s, 250 * ms, 250 * ms}},
	} {
		src := "wan \"a\" {\n  interface = \"eth1\"\n  " + c.wan + "\n}\nwan \"b\" { interface = \"eth2\" }\nlan \"home\" {\n  interface = \"eth0\"\n  address = \"10.0.0.1/24\"\n}\n" + c.rest + "\n"
		cfg, diags := config.Parse(config.File{Name: "t.hcl", Src: []byte(src)})
		if diags.HasErrors() {
			t.Fatalf("%s: %v", c.name, diags)
		}
		site := &Site{Config: cfg}
		if got := (limits{site.noticed("a"), site.doubted("a"), site.unused("a"), site.found("a"), site.needed("a")}); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
