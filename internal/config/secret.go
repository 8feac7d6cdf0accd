package config

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// secretKey matches keys whose value would be a secret. The language has none
// of them: secrets are files, whose keys end in _file.
var secretKey = regexp.MustCompile(`^(.*_)?(psk|password|passwd|passphrase|pass|secret|token|key|pin)$`)

func isSecret(key string) bool { return key != "public_key" && secretKey.MatchString(key) }

// file reads the path of a file that has a secret, and makes it whole: it begins at
// the folder of the file that has it. A secret in its place is not shown.
func (c *checker) file(k *key, s string, at hcl.Range) (any, bool) {
	if !isPath(s) {
		c.err(at, fmt.Sprintf("Put it into a file that only root can read (mode 0600) and name that file: %s = %s", k.name, k.example), "%s takes a file's name, and this looks like what is in it", k.name)
		return nil, false
	}
	if filepath.IsAbs(s) {
		return filepath.Clean(s), true
	}
	for _, f := range c.files {
		if f.Name == at.Filename && f.Dir != "" {
			return filepath.Join(f.Dir, s), true
		}
	}
	c.err(at, `A file's whole path begins with "/". Others begin at the folder of the file that has them, and this one came from none.`, "%q is found from nowhere", s)
	return nil, false
}

// bareSecret is what a key is in base64, 16 bytes at the least, or in hexadecimal. A
// path that looks so can be written with ./ before it.
var bareSecret = regexp.MustCompile(`^(?:[A-Za-z0-9+/]{22,}={0,2}|[0-9A-Fa-f]{32,})$`)

// isPath tells whether a value can be a file's path, and is not what the file is to have.
func isPath(s string) bool {
	return s != "" && len(s) < 4096 && !strings.ContainsAny(s, "\x00\n\r\"{};") && (strings.HasPrefix(s, "/") && strings.Count(s, "/") > 1 || !bareSecret.MatchString(s)) && !strings.HasSuffix(s, "=")
}

// hideSecrets returns src with the value of each secret key starred, also where
// the syntax is broken: it looks at tokens only. Line breaks stay.
func hideSecrets(src []byte) []byte {
	toks, _ := hclsyntax.LexConfig(src, "", hcl.InitialPos)
	out := slices.Clone(src)
	// Where a stray quote hides the key from the tokens, the line tells.
	for _, m := range secretLine.FindAllSubmatchIndex(src, -1) {
		if line := out[m[0]:m[1]]; !isKeyIn(toks, m[2]) {
			star(line[max(m[4], m[6])-m[0]:])
		}
	}
	for i := range toks { // a secret where its file is to be named
		if toks[i].Type == hclsyntax.TokenQuotedLit && i > 2 && toks[i-2].Type == hclsyntax.TokenEqual && isSecret(strings.TrimSuffix(string(toks[i-3].Bytes), "_file")) && !isPath(string(toks[i].Bytes)) {
			star(out[toks[i].Range.Start.Byte:toks[i].Range.End.Byte])
		}
	}
	for i := 0; i < len(toks); i++ {
		if toks[i].Type != hclsyntax.TokenIdent || !isSecret(string(toks[i].Bytes)) || !startsValue(string(toks[i].Bytes), toks[i+1:]) {
			continue
		}
		name := i
		for depth := 0; i+1 < len(toks); {
			i++
			t := toks[i]
			switch t.Type {
			case hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenOBrace:
				depth++
				continue
			case hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenCBrace:
				depth--
				continue
			case hclsyntax.TokenEqual, hclsyntax.TokenColon, hclsyntax.TokenComma:
				continue
			}
			if depth < 0 || depth == 0 && endsValue(toks[i:], i-name > 2) {
				i-- // it may be the next secret's name
				break
			}
			if t.Type == hclsyntax.TokenComment {
				continue
			}
			star(out[t.Range.Start.Byte:t.Range.End.Byte])
		}
	}
	return out
}

// secretLine finds a secret's key, and the rest of the line behind its = or : or where those are forgotten.
var secretLine = regexp.MustCompile(`(?m)\b((?:[a-zA-Z0-9_-]*_)?(?:psk|password|passwd|passphrase|pass|secret|token|key|pin))(?:"?[ \t]*[=:][ \t]*([^ \t\r\n].*)|[ \t]+("[^"{\n]*"?[ \t]*))$`)

// isKeyIn tells whether a name begins at that byte.
func isKeyIn(toks hclsyntax.Tokens, at int) bool {
	i, ok := slices.BinarySearchFunc(toks, at, func(t hclsyntax.Token, at int) int { return t.Range.Start.Byte - at })
	return ok && toks[i].Type == hclsyntax.TokenIdent
}

// star hides b, but not the ends of lines.
func star(b []byte) {
	for i, c := range b {
		if c != '\n' && c != '\r' {
			b[i] = '*'
		}
	}
}

// endsValue tells whether toks begin with what ends the value before them: the
// end of its line (a comment to the end of the line has it), or the next key
// where there was some value before it.
func endsValue(toks hclsyntax.Tokens, some bool) bool {
	switch toks[0].Type {
	case hclsyntax.TokenNewline:
		return true
	case hclsyntax.TokenComment:
		return bytes.HasSuffix(toks[0].Bytes, []byte("\n"))
	case hclsyntax.TokenIdent:
		return some && len(toks) > 1 && (toks[1].Type == hclsyntax.TokenEqual || toks[1].Type == hclsyntax.TokenColon)
	}
	return false
}

// startsValue tells whether toks, which follow a name, give it a value. A name
// can also be the type of a block, or be pointed at.
func startsValue(name string, toks hclsyntax.Tokens) bool {
	if len(toks) == 0 {
		return false
	}
	switch toks[0].Type {
	case hclsyntax.TokenEqual, hclsyntax.TokenColon:
		return true
	case hclsyntax.TokenOQuote: // an equals sign forgotten, or the label of a key { }
		if name != "key" {
			return true
		}
		for _, t := range toks {
			switch t.Type {
			case hclsyntax.TokenOBrace:
				return false
			case hclsyntax.TokenNewline:
				return true
			}
		}
		return true
	}
	return false
}
