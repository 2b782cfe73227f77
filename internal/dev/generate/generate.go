// Package generate has what the commands gen and asm share: the flag -out, a way to replace a
// generated file only by a complete new one, and the form of Go files.
package generate

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// File returns the text of a generated file.
type File func() ([]byte, error)

// Command runs a generator. args are -out and a path, whose last element names one of the files. It
// prints errors and returns the status for os.Exit.
func Command(name string, args []string, files map[string]File, stderr io.Writer) int {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(stderr)
	names := strings.Join(slices.Sorted(maps.Keys(files)), " or ")
	out := flags.String("out", "", "write `file`, which is called "+names)
	if err := flags.Parse(args); err != nil {
		return 2
	}
	file := files[filepath.Base(*out)]
	if file == nil || flags.NArg() > 0 {
		fmt.Fprintf(stderr, "%s: want -out and a file that is called %s\n", name, names)
		return 2
	}
	text, err := file()
	if err == nil {
		err = Replace(*out, text)
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s: %s is unchanged: %v\n", name, *out, err)
		return 1
	}
	return 0
}

// Replace replaces a file. It writes to a new file in the same folder and renames that: whatever
// fails, the old file stays and the new one is removed.
func Replace(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

var function = regexp.MustCompile(`(?m)^TEXT ·(\w+)\(`)

// Greppable fails if assembly has a function whose name the Go files of some folders do not
// contain: whoever searches for the name should find the code that emits it.
func Greppable(assembly []byte, folders ...string) error {
	var source []byte
	for _, folder := range folders {
		text, err := goFiles(folder)
		if err != nil {
			return err
		}
		source = append(source, text...)
	}
	var missing []string
	for _, name := range function.FindAllSubmatch(assembly, -1) {
		if !bytes.Contains(source, fmt.Appendf(nil, "%q", name[1])) {
			missing = append(missing, string(name[1]))
		}
	}
	if missing != nil {
		return fmt.Errorf("%s does not spell out %s", strings.Join(folders, " and "),
			strings.Join(missing, ", "))
	}
	return nil
}

// goFiles returns the text of all Go files of a folder.
func goFiles(folder string) (source []byte, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	for _, file := range files {
		var text []byte
		if text, err = os.ReadFile(file); err != nil {
			break
		}
		source = append(source, text...)
	}
	return source, err
}

var like = regexp.MustCompile(`(?m)^// (\w+) works like (\w+)\.$`)

// Twins fails if a function of assembly has no comment that names the function in the folder's Go
// files that it works like.
func Twins(assembly []byte, folder string) error {
	source, err := goFiles(folder)
	if err != nil {
		return err
	}
	twins := map[string]string{}
	for _, l := range like.FindAllSubmatch(assembly, -1) {
		twins[string(l[1])] = string(l[2])
	}
	var missing []string
	for _, name := range function.FindAllSubmatch(assembly, -1) {
		twin := twins[string(name[1])]
		declared := regexp.MustCompile(`(?m)^func ` + twin + `[\[(]`)
		if twin == "" || !declared.Match(source) {
			missing = append(missing, fmt.Sprintf("%s (%q)", name[1], twin))
		}
	}
	if missing != nil {
		return fmt.Errorf("%s does not declare the function that these work like: %s", folder,
			strings.Join(missing, ", "))
	}
	return nil
}

// Current compares a committed file with its generator's output. The error names the first line
// that differs, and the command that updates the file.
func Current(path string, text []byte) error {
	committed, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if bytes.Equal(committed, text) {
		return nil
	}
	same := 0
	for same < min(len(committed), len(text)) && committed[same] == text[same] {
		same++
	}
	line := 1 + bytes.Count(text[:same], []byte("\n"))
	return fmt.Errorf("%s is not what the generator writes, from line %d on: "+
		"run `go generate` in the repository's root", filepath.Base(path), line)
}

// columns is the most columns of a line.
const columns = 100

// Join joins consecutive instructions into lines of up to 100 columns, where joins allows it for a
// line and the next one: a program that links a kernel has two bytes for each line of its code,
// which were a quarter of a kernel's size.
func Join(text []byte, joins func(line, next string) bool) []byte {
	var lines []string
	for line := range strings.SplitSeq(string(text), "\n") {
		last := len(lines) - 1
		if last >= 0 && len(lines[last])+len(line)+1 <= columns && joins(lines[last], line) {
			lines[last] += ";" + strings.Replace(line, "\t", " ", 1)
			continue
		}
		lines = append(lines, line)
	}
	return []byte(strings.Join(lines, "\n"))
}
