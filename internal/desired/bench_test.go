package desired_test

import (
	"fmt"
	"strings"
	"testing"

	"weir/internal/config"
	"weir/internal/desired"
)

// big is a house of 1,000 hosts and 500 forwards.
func big() string {
	var b strings.Builder
	b.WriteString("wan \"fiber\" { interface = \"eth1\" }\nwan \"lte\" { interface = \"eth2\" }\nlan \"home\" {\n  interface = \"eth0\"\n  address   = \"10.0.0.1/20\"\n")
	for i := range 1000 {
		fmt.Fprintf(&b, "  host \"h%d\" {\n    mac     = \"02:00:00:00:%02x:%02x\"\n    address = \"10.0.%d.%d\"\n  }\n", i, i/250, i%250, 1+i/250, 1+i%250)
	}
	b.WriteString("}\n")
	for i := range 500 {
		fmt.Fprintf(&b, "forward \"f%d\" {\n  port    = %d\n  to_port = 80\n  to      = host.h%d\n}\n", i, 1000+i, i)
	}
	return b.String()
}

func BenchmarkBuild(b *testing.B) {
	for name, src := range map[string]string{"reference": read(b, "gateway"), "1000-hosts-500-forwards": big()} {
		b.Run(name, func(b *testing.B) {
			c, diags := config.Parse(config.File{Name: name, Src: []byte(src)})
			if diags.HasErrors() {
				b.Fatal(diags)
			}
			s := working(c)
			for b.Loop() {
				desired.Build(c, s)
			}
		})
	}
}
