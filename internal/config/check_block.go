package config

import (
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
)

func (c *checker) checkBlockList(n *node) {
	for _, it := range n.items("source") {
		s, _ := it.val.(string)
		scheme, _, hasScheme := strings.Cut(s, "://")
		if !hasScheme {
			if !filepath.IsAbs(s) {
				c.err(it.at, `It looks like "https://lists.example.org/hosts" or "/etc/weir/names".`, "%q is neither a URL nor the whole path of a file", s)
			}
			continue
		}
		u, err := url.Parse(s)
		switch {
		case scheme != "https" && scheme != "http":
			c.err(it.at, `It is "https://NAME/PATH", or the path of a file.`, "%s:// is no way to fetch a list", scheme)
		case err != nil || u.Hostname() == "" || !validDomain(u.Hostname()) && !isAddr(u.Hostname()):
			c.err(it.at, `It looks like "https://lists.example.org/hosts".`, "%q is no URL", s)
		case u.User != nil:
			c.err(it.at, "This file is no place for secrets. Fetch it by other means into a file, and name that.", "a list's URL can't hold a password")
		case scheme == "http":
			c.note(it.at, "Whoever is on the way can put names in and take them out. Most lists are there by https:// too.", "this list is not fetched encrypted")
		}
	}
}

func isAddr(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}
