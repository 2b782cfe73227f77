// Modproxy writes a module of a Git checkout, at a version, to a folder that the go command takes
// as a module proxy:
//
//	modproxy CHECKOUT REVISION FOLDER-OF-MODULE VERSION PROXY [BRANCH]
//
// The zip file is what a public proxy would make of the same revision, so its hash is the one that
// go.sum wants. With a branch, the version is a pseudo-version that MODULE@BRANCH stands for.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) < 6 || len(os.Args) > 7 {
		log.Fatal("usage: modproxy CHECKOUT REVISION FOLDER-OF-MODULE VERSION PROXY [BRANCH]")
	}
	branch := append(os.Args, "")[6]
	if err := write(os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5], branch); err != nil {
		log.Fatal(err)
	}
}

// write adds one version of one module to the proxy.
func write(checkout, revision, subfolder, version, proxy, branch string) error {
	if subfolder == "." {
		subfolder = ""
	}
	mod, err := os.ReadFile(filepath.Join(checkout, subfolder, "go.mod"))
	if err != nil {
		return err
	}
	m := module.Version{Path: modfile.ModulePath(mod), Version: version}
	escaped, err := module.EscapePath(m.Path)
	if err != nil {
		return err
	}
	folder := filepath.Join(proxy, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	archive, err := os.Create(filepath.Join(folder, version+".zip"))
	if err != nil {
		return err
	}
	if err := zip.CreateFromVCS(archive, m, checkout, revision,
		filepath.ToSlash(subfolder)); err != nil {
		return fmt.Errorf("%s: %w", m, err)
	}
	if err := archive.Close(); err != nil {
		return err
	}
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{version, time.Now().UTC()})
	if err != nil {
		return err
	}
	if branch != "" { // proxies do not list pseudo-versions
		if err := os.WriteFile(filepath.Join(folder, branch+".info"), info, 0o644); err != nil {
			return err
		}
		err := os.WriteFile(filepath.Join(folder, version+".mod"), mod, 0o644)
		return errors.Join(err, os.WriteFile(filepath.Join(folder, version+".info"), info, 0o644))
	}
	list, err := os.ReadFile(filepath.Join(folder, "list"))
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	if !strings.Contains(string(list), version+"\n") {
		list = append(list, version+"\n"...)
	}
	for name, data := range map[string][]byte{version + ".mod": mod, version + ".info": info,
		"list": list} {
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
