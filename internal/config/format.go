package config

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
)

// Format lays a file out: two spaces for each block, equals signs and comments
// in line. It keeps comments, changes no meaning, and returns a file that does
// not parse as it is.
func Format(src []byte) []byte {
	if _, diags := hclsyntax.ParseConfig(src, "", hcl.InitialPos); diags.HasErrors() {
		return src
	}
	return hclwrite.Format(src)
}
