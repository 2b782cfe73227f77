package main

import (
	"errors"
	"strings"
	"testing"
)

// setup says what it needs before it downloads anything.
func TestSetupSaysWhatItNeeds(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // a folder without downloads
	t.Setenv("HOME", t.TempDir())
	has := func(tools string) func(string) (string, error) {
		return func(tool string) (string, error) {
			if strings.Contains(tools, tool) {
				return "/bin/" + tool, nil
			}
			return "", errors.New("not found")
		}
	}
	for _, c := range []struct {
		system, tools string
		user          int
		want          string
	}{
		{"linux", "npm tar debootstrap", 0, ""},
		{"linux", "npm tar debootstrap", 1000, "as root"},
		{"darwin", "npm tar", 0, "on Linux"},
		{"linux", "npm tar", 0, "setup needs debootstrap,"},
		{"linux", "tar", 0, "setup needs npm and debootstrap,"},
	} {
		err := canSetUp(c.system, c.user, has(c.tools))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: the error is %v", c, err)
		}
	}
}
