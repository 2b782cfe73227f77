package serve

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestReadme sends the requests of the document, and compares the paths that it lists.
func TestReadme(t *testing.T) {
	data, err := os.ReadFile("../../SERVER.md")
	if err != nil {
		t.Fatal(err)
	}
	x := start(t, all(t))
	asked := regexp.MustCompile(`curl http://127.0.0.1:8080(\S+) [^\n]*\\\n\s+-d '([^']*)'`).
		FindAllStringSubmatch(string(data), -1)
	for _, c := range asked {
		if a := x.post(c[1], c[2]); a.status != 200 {
			t.Errorf("%s: status %d, %s", c[0], a.status, a.body)
		}
	}
	if len(asked) == 0 {
		t.Error("there is no request in the document")
	}
	for path := range x.routes {
		if !strings.Contains(string(data), "`"+path+"`") {
			t.Errorf("the document has no %s", path)
		}
	}
}
