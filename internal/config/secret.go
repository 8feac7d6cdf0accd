package config

import (
	"bytes"
	"regexp"

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
	out := append([]byte(nil), src...)
	for i := 0; i < len(toks); i++ {
		if toks[i].Type != hclsyntax.TokenIdent || !isSecret(string(toks[i].Bytes)) || !startsValue(toks[i+1:]) {
			continue
		}
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
			if depth < 0 || depth == 0 && endsValue(toks[i:]) {
				i-- // it may be the next secret's name
				break
			}
			if t.Type == hclsyntax.TokenComment {
				continue
			}
			for b := t.Range.Start.Byte; b < t.Range.End.Byte; b++ {
				if out[b] != '\n' && out[b] != '\r' {
					out[b] = '*'
				}
			}
		}
	}
	return out
}

// endsValue tells whether toks begin with what ends the value before them: the
// end of its line (a comment to the end of the line has it), or the next key.
func endsValue(toks hclsyntax.Tokens) bool {
	switch toks[0].Type {
	case hclsyntax.TokenNewline:
		return true
	case hclsyntax.TokenComment:
		return bytes.HasSuffix(toks[0].Bytes, []byte("\n"))
	case hclsyntax.TokenIdent:
		return len(toks) > 1 && (toks[1].Type == hclsyntax.TokenEqual || toks[1].Type == hclsyntax.TokenColon)
	}
	return false
}

// startsValue tells whether toks, which follow a name, give it a value. A name
// can also be the type of a block, or be pointed at.
func startsValue(toks hclsyntax.Tokens) bool {
	if len(toks) == 0 {
		return false
	}
	switch toks[0].Type {
	case hclsyntax.TokenEqual, hclsyntax.TokenColon:
		return true
	case hclsyntax.TokenOQuote: // an equals sign forgotten, or a label
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
