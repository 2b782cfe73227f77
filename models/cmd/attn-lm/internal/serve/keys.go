package serve

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"os"
	"strings"
)

// keys are the hashes of the keys that clients may send.
type keys [][sha256.Size]byte

// ReadKeys reads the file Config.Keys, which may have changed since. After an error the earlier
// keys stay.
func (s *Server) ReadKeys() error {
	if s.Keys == "" {
		return nil
	}
	data, err := os.ReadFile(s.Keys)
	if err != nil {
		return err
	}
	var all keys
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		key := strings.Trim(line, " \t\r\n")
		if key == "" {
			continue
		}
		if i := strings.IndexFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }); i >= 0 {
			return fmt.Errorf("%s: line %d has a space or another character than letters, digits and "+
				"signs of ASCII, want a key", s.Keys, number)
		}
		all = append(all, sha256.Sum256([]byte(key)))
	}
	if len(all) == 0 {
		return fmt.Errorf("%s: there is no key, want one a line", s.Keys)
	}
	s.keys.Store(&all)
	return nil
}

// checkKey refuses requests without one of the keys. Its time depends on the number of keys, not on
// their values.
func (s *Server) checkKey(r *http.Request) error {
	all := s.keys.Load()
	if all == nil {
		return nil
	}
	scheme, shown, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	sum, known := sha256.Sum256([]byte(strings.Trim(shown, " "))), 0
	for i := range *all {
		known |= subtle.ConstantTimeCompare(sum[:], (*all)[i][:])
	}
	if known == 1 && strings.EqualFold(scheme, "Bearer") {
		return nil
	}
	return invalid("", "the key is not one of this server, want a header Authorization: Bearer KEY").
		coded(http.StatusUnauthorized, "invalid_api_key")
}
