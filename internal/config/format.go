package config

import (
	"bytes"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
)

// Format lays a file out: two spaces for each block, equals signs and comments
// in line, at most one empty line and none at a block's edges, LF at the lines'
// ends. It keeps comments and meaning, and returns a file that does not parse
// (see Syntax) as it is.
func Format(src []byte) []byte {
	if _, deep := tooDeep(src, ""); deep {
		return src
	}
	if _, diags := hclsyntax.ParseConfig(src, "", hcl.InitialPos); diags.HasErrors() {
		return src
	}
	const most = 4 // hclwrite may need a second look at what it has moved itself
	for range most {
		out := hclwrite.Format(squeeze(src))
		if bytes.Equal(out, src) {
			break
		}
		src = out
	}
	return src
}

// squeeze takes empty lines out: all but one of several, and those at the edges
// of a block or the file. It looks at tokens, so that text and comments stay.
func squeeze(src []byte) []byte {
	toks, _ := hclsyntax.LexConfig(src, "", hcl.InitialPos)
	var out bytes.Buffer
	last := 0           // up to where src has been dealt with
	open := true        // at the file's or a block's beginning: an empty line goes
	lines, held := 1, 0 // line ends since the last word, and those not yet written
	for _, t := range toks {
		gap := src[last:t.Range.Start.Byte] // blanks
		last = t.Range.End.Byte
		if t.Type == hclsyntax.TokenNewline {
			if lines++; lines <= 2 {
				held++
			}
			continue
		}
		if open && lines > 0 || t.Type == hclsyntax.TokenCBrace || t.Type == hclsyntax.TokenEOF {
			held = min(held, 1)
			if out.Len() == 0 {
				held = 0
			}
			if endsLine(out.Bytes()) {
				held = 0
			}
		}
		for ; held > 0; held-- {
			out.WriteByte('\n')
		}
		out.Write(gap)
		word := t.Bytes
		if t.Type == hclsyntax.TokenComment { // has its line's end in it, which hclwrite leaves alone
			word = bytes.ReplaceAll(word, []byte("\r\n"), []byte("\n"))
		}
		out.Write(word)
		open = t.Type == hclsyntax.TokenOBrace
		lines = 0
		if t.Type == hclsyntax.TokenComment && bytes.HasSuffix(t.Bytes, []byte("\n")) {
			lines = 1
		}
	}
	if out.Len() > 0 && !endsLine(out.Bytes()) {
		out.WriteByte('\n')
	}
	return out.Bytes()
}

func endsLine(b []byte) bool { return bytes.HasSuffix(b, []byte("\n")) }
