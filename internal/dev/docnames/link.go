package docnames

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	target    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading   = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInLink = regexp.MustCompile(`[^\pL\pN\- _]`)
)

// linksOf returns the targets of a document's links, and their lines.
func linksOf(text string) (list []fault) {
	for i, line := range strings.Split(text, "\n") {
		for _, match := range target.FindAllStringSubmatch(line, -1) {
			list = append(list, fault{i + 1, match[1]})
		}
	}
	return list
}

// broken returns what is missing at a link of a document, below the folder root.
func broken(root, document, link string) string {
	if strings.Contains(link, "://") {
		return ""
	}
	name, anchor, _ := strings.Cut(link, "#")
	file := document
	if name != "" {
		file = path.Join(path.Dir(document), name)
	}
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
	if info, errStat := os.Stat(filepath.Join(root, filepath.FromSlash(file))); errStat != nil {
		return "there is no file " + file
	} else if info.IsDir() || anchor == "" {
		return ""
	}
	if err != nil {
		return err.Error()
	}
	for _, match := range heading.FindAllStringSubmatch(string(text), -1) {
		if anchorOf(match[1]) == anchor {
			return ""
		}
	}
	return file + " has no heading " + anchor
}

// anchorOf returns GitHub's anchor for a heading.
func anchorOf(title string) string {
	return strings.ReplaceAll(strings.ToLower(notInLink.ReplaceAllString(title, "")), " ", "-")
}
