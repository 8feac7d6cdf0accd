package config

import (
	"bytes"
	"regexp"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// secretKey matches keys whose value would be a secret. The language has none
// of them: secrets are files, whose keys end in _file.
var secretKey = regexp.MustCompile(`^(.*_)?(psk|password|passwd|passphrase|pass|secret|token|key|pin)$`)

func isSecret(key string) bool { return key != "public_key" && secretKey.MatchString(key) }

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
