package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// folder returns the folder for what -setup downloads.
func folder() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	return filepath.Join(cache, "attn-peers")
}

// findONNXRuntime returns the shared library for this system, out of a package with libraries for
// several systems.
func findONNXRuntime() (string, error) {
	system, arch := runtime.GOOS, runtime.GOARCH
	if system == "windows" {
		system = "win32"
	}
	if arch == "amd64" {
		arch = "x64"
	}
	found, _ := filepath.Glob(filepath.Join(folder(), "package", "bin", "napi-*", system, arch,
		"*onnxruntime.*"))
	if len(found) == 0 {
		return "", lacking("its library is not here (-setup gets it)")
	}
	return found[0], nil
}

// systemPythons are tried in this order. The second has the distribution's modules even if another
// Python comes first.
var systemPythons = []string{"python3", "/usr/bin/python3"}

// pythons returns commands that run Python: in the Debian of -setup, then the system's.
func pythons() (commands [][]string) {
	debian := filepath.Join(folder(), "debian", "usr")
	loaders, _ := filepath.Glob(filepath.Join(debian, "lib", "*-linux-gnu", "ld-linux-*"))
	for _, loader := range loaders {
		// With its own loader and libraries it runs without root's rights, and sees the machine as any
		// program does.
		libraries := filepath.Dir(loader)
		search := strings.Join([]string{filepath.Join(libraries, "openblas-pthread"), libraries,
			filepath.Join(debian, "lib")}, ":")
		commands = append(commands, []string{loader, "--library-path", search,
			filepath.Join(debian, "bin", "python3")})
	}
	for _, name := range systemPythons {
		if file, err := exec.LookPath(name); err == nil {
			commands = append(commands, []string{file})
		}
	}
	return commands
}

// setup downloads the peers that are not Go modules, unless they exist, and prints the commands. It
// says what they need before it downloads anything.
func setup(say io.Writer) error {
	if err := canSetUp(runtime.GOOS, os.Geteuid(), exec.LookPath); err != nil {
		return err
	}
	if err := os.MkdirAll(folder(), 0o755); err != nil {
		return err
	}
	return errors.Join(setupONNXRuntime(say), setupLlama(say), setupDebian(say))
}

// canSetUp reports what is missing for the remaining downloads.
func canSetUp(system string, user int, find func(string) (string, error)) error {
	tools := []string{"npm", "tar"}
	if _, err := findONNXRuntime(); err == nil {
		tools = nil
	}
	if !hasDebian() {
		if system != "linux" || user != 0 {
			return errors.New("setup gets PyTorch and NumPy on Linux, as root; else they are the " +
				"system's, if it has them. Nothing was downloaded")
		}
		tools = append(tools, "debootstrap")
	}
	var missing []string
	for _, tool := range tools {
		if _, err := find(tool); err != nil {
			missing = append(missing, tool)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("setup needs %s, which the system's packages have. Nothing was downloaded",
			strings.Join(missing, " and "))
	}
	return nil
}

// hasDebian reports whether the small Debian exists.
func hasDebian() bool {
	_, err := os.Stat(filepath.Join(folder(), "debian"))
	return err == nil
}

// setupONNXRuntime downloads the package for Node.js, which has the library for each system.
func setupONNXRuntime(say io.Writer) error {
	if _, err := findONNXRuntime(); err == nil {
		return nil
	}
	if err := command(say, "npm", "pack", "--silent", "onnxruntime-node"); err != nil {
		return err
	}
	packed, _ := filepath.Glob(filepath.Join(folder(), "onnxruntime-node-*.tgz"))
	for _, name := range packed {
		if err := command(say, "tar", "-xzf", filepath.Base(name)); err != nil {
			return err
		}
		os.Remove(name)
	}
	return nil
}

// setupDebian makes a small Debian in a folder, because few systems have a recent PyTorch.
func setupDebian(say io.Writer) error {
	if hasDebian() {
		return nil
	}
	os.RemoveAll(filepath.Join(folder(), "part")) // left by a setup that failed
	if err := command(say, "debootstrap", "--variant=minbase",
		"--include=python3-numpy,python3-torch,libopenblas0-pthread", "trixie", "part"); err != nil {
		return err
	}
	return os.Rename(filepath.Join(folder(), "part"), filepath.Join(folder(), "debian"))
}

// command runs a tool in the folder and prints its output.
func command(say io.Writer, name string, args ...string) error {
	fmt.Fprintln(say, "+", name, strings.Join(args, " "))
	c := exec.Command(name, args...)
	c.Dir, c.Stdout, c.Stderr = folder(), say, say
	return c.Run()
}
