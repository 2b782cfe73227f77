package cluster

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/seed-1415985d/attn"
)

// redacted stands for user info.
const redacted = "xxxxx"

// scheme matches the beginning of an address; user info follows, up to the last @.
var scheme = regexp.MustCompile(`(?:^|[\s,"'=(\[])[A-Za-z][A-Za-z0-9+.-]*://`)

// bare matches a possible address without a scheme.
var bare = regexp.MustCompile(`\S+@`)

// Redact returns a text, such as an error, with "xxxxx" for the user info of all addresses in it:
// names, passwords and tokens. In doubt it removes more, since a carelessly written password may
// have any character.
func Redact(text string) string {
	starts := scheme.FindAllStringIndex(text, -1)
	if len(starts) == 0 {
		return bare.ReplaceAllLiteralString(text, redacted+"@")
	}
	var b strings.Builder
	b.WriteString(bare.ReplaceAllLiteralString(text[:starts[0][0]], redacted+"@"))
	for i, s := range starts {
		end := len(text)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		rest := text[s[1]:end]
		b.WriteString(text[s[0]:s[1]])
		if at := strings.LastIndexByte(rest, '@'); at >= 0 {
			rest = redacted + rest[at:]
		}
		b.WriteString(rest)
	}
	return b.String()
}

// redactedError is an error without the user info of addresses in its text.
type redactedError struct{ err error }

func (e *redactedError) Error() string { return Redact(e.err.Error()) }
func (e *redactedError) Unwrap() error { return e.err }

// splitServers splits addresses at commas. It refuses an invalid one without showing it, since any
// part of it may be a password.
func splitServers(list string) (servers []string, err error) {
	all := strings.Split(list, ",")
	for i, s := range all {
		s = strings.TrimSpace(s)
		doubtful := len(all) > 1 && strings.Contains(s, "@") && !strings.Contains(s, "://")
		s = withScheme(s)
		u, err := url.Parse(s)
		if err != nil || doubtful || strings.Contains(u.Path+u.RawQuery+u.Fragment, "@") {
			return nil, fail(attn.ErrOption, "address %d of %d of NATSConfig.URL cannot be read, want "+
				"nats://HOST:PORT or nats://USER:PASSWORD@HOST:PORT, where a password has %%2C for a comma "+
				"and %%2F for a slash; it is not shown, as it may have a password", i+1, len(all))
		}
		servers = append(servers, s)
	}
	return servers, nil
}

// withScheme returns an address with NATS's default scheme if it has none.
func withScheme(server string) string {
	if !strings.Contains(server, "://") {
		return "nats://" + server
	}
	return server
}
