package config

import (
	"fmt"
	"strings"
	"testing"
)

// bigHouse has 1,000 hosts and 500 forwards.
func bigHouse() File {
	var b strings.Builder
	b.WriteString("wan \"fiber\" { interface = \"eth1\" }\nwan \"lte\" { interface = \"eth2\" }\nlan \"home\" {\n  interface = \"eth0\"\n  address   = \"10.0.0.1/16\"\n")
	for i := range 1000 {
		fmt.Fprintf(&b, "  host \"h%d\" {\n    mac     = \"02:00:00:00:%02x:%02x\"\n    address = [\"10.0.%d.%d\", \"::%x\"]\n  }\n", i, i/256, i%256, 1+i/250, 1+i%250, i+2)
	}
	b.WriteString("}\n")
	for i := range 500 {
		fmt.Fprintf(&b, "forward \"f%d\" {\n  port = %d\n  to   = host.h%d\n}\n", i, 1000+i, i)
	}
	return File{Name: "big.hcl", Src: []byte(b.String())}
}

func BenchmarkParse(b *testing.B) {
	for _, f := range []File{read(b, "../../examples/gateway.hcl"), read(b, "testdata/whole.hcl"), bigHouse()} {
		b.Run(f.Name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if cfg, diags := Parse(f); cfg == nil {
					b.Fatal(diags.Format([]File{f}))
				}
			}
		})
	}
}
