package serve

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-1415985d/attn/models/lm"
)

// TestClient calls a server with the newest client of OpenAI, in JavaScript. It needs Node.js and
// npm, and the client from npm's registry or cache.
func TestClient(t *testing.T) {
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			lacks(t, err)
		}
	}
	folder := t.TempDir()
	for _, name := range []string{"package.json", "package-lock.json", "client.mjs"} {
		data, err := os.ReadFile(filepath.Join("testdata", "openai", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	run := func(name string, args ...string) (string, error) {
		c := exec.CommandContext(t.Context(), name, args...)
		c.Dir = folder
		out, err := c.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%s: %w\n%s", name, err, out)
		}
		return string(out), err
	}
	// The client asks for Node.js 22 or later, and runs on 18.
	if _, err := run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline",
		"--loglevel=error", "--engine-strict=false"); err != nil {
		lacks(t, err)
	}
	keys := writeKeys(t, "key\n")
	x := start(t, Config{Model: randomModel(t, testSizes, lm.Options{}), Embed: randomEmbed(t, 0),
		Keys: keys})
	full := start(t, Config{Keys: keys})
	if err := full.answers.enter(full.answers.most()); err != nil {
		t.Fatal(err)
	}
	defer full.answers.leave(full.answers.most(), 0)
	out, err := run("node", "client.mjs", x.base+"/v1", "key", full.base+"/v1")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out, "as expected"); n != 7 {
		t.Errorf("%d checks, want 7:\n%s", n, out)
	}
}

// lacks skips a test without its tools, unless they are required.
func lacks(t *testing.T, err error) {
	t.Helper()
	if os.Getenv("ATTN_TEST_TOOLS") == "required" {
		t.Fatal(err)
	}
	t.Skip(err)
}
