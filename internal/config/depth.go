package config

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// tooDeep is where a text nests deeper than the parser is let go: it calls itself
// for each bracket, block, template, sign and condition, and a stack that has run
// over cannot be recovered. The language itself nests six deep.
func tooDeep(src []byte, name string) (hcl.Range, bool) {
	const most = 200
	tokens, _ := hclsyntax.LexConfig(src, name, hcl.InitialPos)
	depth, signs, choices := 0, 0, 0
	for _, t := range tokens {
		switch t.Type {
		case hclsyntax.TokenOBrack, hclsyntax.TokenOBrace, hclsyntax.TokenOParen, hclsyntax.TokenOQuote, hclsyntax.TokenOHeredoc,
			hclsyntax.TokenTemplateInterp:
			depth++
		case hclsyntax.TokenCBrack, hclsyntax.TokenCBrace, hclsyntax.TokenCParen, hclsyntax.TokenCQuote, hclsyntax.TokenCHeredoc,
			hclsyntax.TokenTemplateSeqEnd:
			depth = max(depth-1, 0)
		case hclsyntax.TokenTemplateControl:
			depth++
			choices++ // %{if} goes on until its %{endif}
		case hclsyntax.TokenQuestion:
			choices++
		}
		if t.Type == hclsyntax.TokenBang || t.Type == hclsyntax.TokenMinus {
			signs++
		} else {
			signs = 0
		}
		if max(depth, signs, choices) > most {
			return t.Range, true
		}
	}
	return hcl.Range{}, false
}
