package cluster

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/seed-1415985d/attn"
)

// redacted stands for user info.
const redacted = "xxxxx"

// scheme begins an address: after it comes who connects, up to the last @.
var scheme = regexp.MustCompile(`(?:^|[\s,"'=(\[])[A-Za-z][A-Za-z0-9+.-]*://`)

// bare is what may be an address without a scheme.
var bare = regexp.MustCompile(`\S+@`)

// Redact returns a text, such as an error, with "xxxxx" for the user info of all addresses in it:
// names, passwords and tokens. It removes more rather than less, as a password that was written
// carelessly may have any character.
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

// redactedError says what an error says, without the user info of addresses in it.
type redactedError struct{ err error }

func (e *redactedError) Error() string { return Redact(e.err.Error()) }
func (e *redactedError) Unwrap() error { return e.err }

// splitServers reads addresses with commas between them. One that cannot be read is refused here
// and not shown, since any part of it may be a password.
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

// withScheme is an address with the scheme that NATS takes where there is none.
func withScheme(server string) string {
	if !strings.Contains(server, "://") {
		return "nats://" + server
	}
	return server
}
