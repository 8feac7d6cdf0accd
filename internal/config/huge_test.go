package config

import (
	"fmt"
	"strings"
	"testing"
)

// huge makes a file of some size.
func huge(size int, head, tail string, line func(n int) string) []byte {
	var b strings.Builder
	b.WriteString(head)
	for n := 0; b.Len() < size; n++ {
		b.WriteString(line(n))
	}
	b.WriteString(tail)
	return []byte(b.String())
}

// hugeFiles are files of nothing but mistakes, or of more than any house has.
var hugeFiles = []struct {
	name string
	src  func(size int) []byte
	want string // what is told at last, or of what is too much
}{
	{"keys", func(size int) []byte {
		return huge(size, "", "", func(n int) string { return fmt.Sprintf("keyy%d = %d\n", n, n) })
	}, "mistakes more"},
	{"keys of a block", func(size int) []byte {
		return huge(size, "wan \"f\" {\n", "}\n", func(n int) string { return fmt.Sprintf("  interfac%d = 1\n", n) })
	}, "mistakes more"},
	{"blocks of no type", func(size int) []byte {
		return huge(size, "", "", func(n int) string { return fmt.Sprintf("zzz%d {\n}\n", n) })
	}, "mistakes more"},
	{"blocks of a type misspelled", func(size int) []byte {
		return huge(size, "", "", func(n int) string { return fmt.Sprintf("wna \"f%d\" {\n}\n", n) })
	}, "mistakes more"},
	{"WANs", func(size int) []byte {
		return huge(size, "", "", func(n int) string { return fmt.Sprintf("wan \"f%d\" {\n interface = \"eth%d\"\n}\n", n, n) })
	}, "more than 4096 wan blocks"},
	{"LANs", func(size int) []byte {
		return huge(size, "", "", func(n int) string {
			return fmt.Sprintf("lan \"f%d\" {\n interface = \"eth%d\"\n address = \"10.0.0.1/24\"\n}\n", n, n)
		})
	}, "more than 4096 lan blocks"},
	{"hosts", func(size int) []byte {
		return huge(size, "lan \"home\" {\n", "}\n", func(n int) string { return fmt.Sprintf("host \"f%d\" {\n}\n", n) })
	}, "more than 65536 host blocks"},
	{"forwards", func(size int) []byte {
		return huge(size, "", "", func(n int) string {
			return fmt.Sprintf("forward \"f%d\" {\n port = %d\n to = host.n%d\n}\n", n, n%60000+1, n)
		})
	}, "mistakes more"},
	{"values", func(size int) []byte {
		return huge(size, "forward \"f\" {\n port = [\n", "]\n}\n", func(n int) string { return fmt.Sprintf("%d,\n", n%65535+1) })
	}, "port has more than 4096 values"},
}

// No file that is read at all takes long, or says without end what is wrong with
// it: BenchmarkHuge has the times.
func TestHuge(t *testing.T) {
	for _, f := range hugeFiles {
		size := 300 << 10 // enough for all that is counted here, but
		if f.name == "hosts" {
			if testing.Short() {
				continue // counted as lines and LANs are
			}
			size = 1500 << 10
		}
		files := []File{{Name: "huge.hcl", Src: f.src(size)}}
		_, diags := Parse(files...)
		if !diags.HasErrors() || len(diags) > mostMistakes+1 {
			t.Errorf("%s: %d messages", f.name, len(diags))
		}
		text := diags.Format(files)
		if !strings.Contains(text, f.want) {
			t.Errorf("%s: nothing says %q:\n%.2000s", f.name, f.want, text)
		}
	}
}

func BenchmarkHuge(b *testing.B) {
	for _, f := range hugeFiles {
		b.Run(f.name, func(b *testing.B) {
			files := []File{{Name: "huge.hcl", Src: f.src(2<<20 - 1000)}} // what is read at most
			for b.Loop() {
				_, diags := Parse(files...)
				diags.Format(files)
			}
		})
	}
}
