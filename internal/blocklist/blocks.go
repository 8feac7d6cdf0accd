package blocklist

import (
	"fmt"
	"os"
)

// Blocks returns names that files block as sources of one list would, sorted: for
// whoever wants to try the list. What only blocks names below has one there.
func Blocks(files, allow []string) ([]string, error) {
	all := names{}
	for _, path := range files {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		_, err = parse(f, all)
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	all = compile(all, allow)
	var out []string
	for _, name := range all.sorted() {
		switch k := all[name]; {
		case k&blockName != 0:
			out = append(out, name)
		case k&blockBelow != 0:
			out = append(out, "any."+name)
		}
	}
	return out, nil
}
